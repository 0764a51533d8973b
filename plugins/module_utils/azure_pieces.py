"""What belongs to a VM or a fleet besides the VM: read, made and removed, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_body import tag
from ansible.module_utils.azure_errors import AzureError
from ansible.module_utils.cloud_rules import OWN_LABEL

if TYPE_CHECKING:
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
        return found

    def put(self, body: dict[str, Any]) -> None:
        """Make it, or bring it to that; and wait.

        Raises:
            AzureError: it is refused, or fails.
        """
        self.api.change("PUT", self.path, body)

    def delete(self) -> None:
        """Remove it, and wait until the API no longer knows it.

        Raises:
            AzureError: refused, or still there at the deadline.
        """
        gone(self.api, self.path, self.words)


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


def gone(api: Api, path: str, words: str) -> None:
    """Have a resource removed, also one that is being removed already.

    Raises:
        AzureError: refused, or still there at the deadline.
    """
    refusal = ""

    def look() -> bool:
        nonlocal refusal
        found = api.find(path)
        if found is None:
            return True
        if (found.get("properties") or {}).get("provisioningState") == "Deleting":
            return False
        try:
            api.change("DELETE", path)
        except AzureError as error:
            # Someone else was first, or something else is being done to it: it is asked again.
            if error.kind not in ("not-found", "busy", "conflict"):
                raise
            refusal = f"; the last answer was: {error}"
        return api.find(path) is None

    api.deadline.until(look, lambda: f"the {words} is still there{refusal}")
