"""The network of a fleet in one region: a virtual network with a subnet, and who may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_body import network_body, security_group_body, tag
from ansible.module_utils.azure_pieces import NETWORK, SECURITY_GROUP, Piece
from ansible.module_utils.cloud_rules import OWN_LABEL

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api


def network_name(fleet: str, location: str) -> str:
    """Name of a fleet's virtual network and of its security group in a region."""
    return f"{OWN_LABEL}-{fleet}-{location}"


class FleetNetwork:
    """What a fleet has for all its VMs in one region.

    Args:
        api: the client.
        fleet: its name.
        location: region.
        own_subnet: id of a subnet that is there already, and is used instead of one of ours.
    """

    def __init__(self, api: Api, fleet: str, location: str, own_subnet: str | None) -> None:
        name = network_name(fleet, location)
        self._location = location
        self._own_subnet = own_subnet
        self._network = Piece(api, NETWORK, name, fleet)
        self._group = Piece(api, SECURITY_GROUP, name, fleet)

    def present(
        self, ranges: list[str], prefix: str, tags: dict[str, str], *, check: bool
    ) -> dict[str, Any]:
        """Have the network there, and SSH let through from the ranges.

        Args:
            ranges: CIDR.
            prefix: of the subnet, CIDR.
            tags: of what is made.
            check: whether only to say what would be done.

        Returns:
            The module's answer.

        Raises:
            AzureError: a resource of that name is not the fleet's, or a request is refused.
        """
        # With a subnet of their own and nothing to let through, its own rules have to do.
        wanted: list[tuple[Piece, dict[str, Any]]] = []
        if ranges or not self._own_subnet:
            group = security_group_body(self._location, tags, ranges)
            wanted.append((self._group, group))
        if not self._own_subnet:
            wanted.append((self._network, network_body(self._location, tags, prefix)))
        before, after = {}, {}
        for piece, body in wanted:
            there = piece.find()
            seen, asked = _shown(there), _shown(body)
            if seen == asked:
                continue
            before[piece.words], after[piece.words] = seen, asked
            if not check:
                piece.put(body)
        return {
            "changed": bool(after),
            "diff": {"before": before, "after": after},
            "subnet_id": self._own_subnet or f"{self._network.path}/subnets/hosts",
            "network_security_group_id": (
                self._group.path if any(piece is self._group for piece, _ in wanted) else ""
            ),
        }

    def absent(self, *, check: bool) -> dict[str, Any]:
        """Have both gone.

        Raises:
            AzureError: one is not the fleet's, or still in use (kind ``in-use``).
        """
        there = [piece for piece in (self._network, self._group) if piece.find() is not None]
        if not check:
            for piece in there:
                piece.delete()
        before = {piece.words: piece.name for piece in there}
        return {"changed": bool(there), "diff": {"before": before, "after": {}}}


def _shown(resource: dict[str, Any] | None) -> dict[str, Any]:
    """What is compared of a network or a security group, in one form."""
    if resource is None:
        return {}
    properties = resource["properties"]
    shown: dict[str, Any] = {"fleet": tag(resource, OWN_LABEL)}
    if "securityRules" in properties:
        shown["rules"] = [_rule(rule["properties"]) for rule in properties["securityRules"]]
    for subnet in properties.get("subnets", []):
        shown[subnet["name"]] = subnet["properties"].get("addressPrefix")
    return shown


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    single = rule.get("sourceAddressPrefix")
    return {
        "from": sorted(rule.get("sourceAddressPrefixes") or ([single] if single else [])),
        "to": rule.get("destinationPortRange"),
        "access": f"{rule.get('direction')} {rule.get('access')} {rule.get('protocol')}",
    }
