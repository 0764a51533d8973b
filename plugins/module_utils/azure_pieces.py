"""What belongs to a VM or a fleet besides the VM: read, made and removed, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils import cloud_removal
from ansible.module_utils.azure_body import tag
from ansible.module_utils.azure_errors import AzureError
from ansible.module_utils.azure_rules import MADE_TAG
from ansible.module_utils.cloud_rules import OWN_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible.module_utils.azure_api import Api

VM = "Microsoft.Compute/virtualMachines"
DISK = "Microsoft.Compute/disks"
INTERFACE = "Microsoft.Network/networkInterfaces"
ADDRESS = "Microsoft.Network/publicIPAddresses"
SCHEDULE = "Microsoft.DevTestLab/schedules"
NETWORK = "Microsoft.Network/virtualNetworks"
SECURITY_GROUP = "Microsoft.Network/networkSecurityGroups"

_WORDS = {
    VM: "VM",
    DISK: "disk",
    INTERFACE: "network interface",
    ADDRESS: "public address",
    SCHEDULE: "auto-shutdown",
    NETWORK: "virtual network",
    SECURITY_GROUP: "network security group",
}


# Where a resource has a number of its own; an auto-shutdown has the last.
_IDENTITIES = ("vmId", "uniqueId", "resourceGuid", "uniqueIdentifier")


class Piece:
    """One resource that may or may not exist.

    Args:
        api: the client.
        kind: its type.
        name: its name.
        fleet: whose it must be, if it exists.
        users: ids of a VM and its interface; what has no tag and serves those is the fleet's too.
            Azure makes a boot disk with the VM, and anyone may have taken tags away.
    """

    def __init__(
        self, api: Api, kind: str, name: str, fleet: str, users: tuple[str, ...] = ()
    ) -> None:
        self.api = api
        self.kind = kind
        self.name = name
        self.path = api.resource(kind, name)
        self._fleet = fleet
        self._users = tuple(user.lower() for user in users)
        self._found: str | None = None

    @property
    def words(self) -> str:
        """What it is and its name."""
        return f"{_WORDS[self.kind]} {self.name}"

    def find(self, query: dict[str, str] | None = None) -> dict[str, Any] | None:
        """What the API says of it; None where there is none.

        Raises:
            AzureError: it is not this fleet's (kind ``not-ours``), or cannot be read.
        """
        found = self.api.find(self.path, query)
        if found is None:
            return None
        owner = tag(found, OWN_LABEL)
        of_vm = owner is None and any(user in self._users for user in _served(found))
        if owner != self._fleet and not of_vm:
            whose = f"of the fleet {owner}" if owner else f"without the tag {OWN_LABEL}"
            raise AzureError(
                "not-ours",
                f"There is a {self.words} {whose} in {self.api.group}; it is left alone. Choose "
                "another name, or another fleet's.",
            )
        self._found = identity(found)
        return found

    def put(self, body: dict[str, Any]) -> None:
        """Make it, or bring it to that; and wait.

        Raises:
            AzureError: it is refused, or fails.
        """
        self.api.change("PUT", self.path, body)

    def delete(self) -> None:
        """Remove what :meth:`find` found last, and wait until the API no longer knows it.

        Raises:
            AzureError: refused, or still there at the deadline.
        """
        gone(self.api, self.path, self.words, lambda found: identity(found) == self._found)


def _served(resource: dict[str, Any]) -> list[str]:
    """Lower-case ids of what a resource serves."""
    properties = resource.get("properties", {})
    said = (
        resource.get("managedBy"),  # a disk
        properties.get("virtualMachine", {}).get("id"),  # an interface
        properties.get("targetResourceId"),  # an auto-shutdown
        # An address: an interface's configuration.
        properties.get("ipConfiguration", {}).get("id", "").partition("/ipConfigurations/")[0],
    )
    return [text.lower() for text in said if text]


def identity(resource: dict[str, Any]) -> str:
    """What distinguishes a resource from an earlier one of its name."""
    properties = resource.get("properties") or {}
    said = (properties.get(field) for field in _IDENTITIES)
    return str(next(filter(None, said), None) or tag(resource, MADE_TAG) or "")


def gone(api: Api, path: str, words: str, same: Callable[[dict[str, Any]], bool]) -> None:
    """Have a resource removed, also one that is being removed already.

    Args:
        api: the client.
        path: of the resource.
        words: what it is and its name.
        same: whether what is at the path now is what is to go.

    Raises:
        AzureError: refused, or still there at the deadline.
    """
    removal = cloud_removal.Removal(
        find=lambda: api.find(path),
        delete=lambda: api.change("DELETE", path),
        same=same,
        going=lambda found: (found.get("properties") or {}).get("provisioningState") == "Deleting",
        passing=("not-found", "busy", "conflict"),
        words=f"the {words} is still there",
    )
    cloud_removal.gone(api.deadline.until, removal)
