"""The double's state: what exists, and the operations that change it."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.support.azure_double import rules
from tests.support.azure_double.faults import Fault, RefusedError, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

VM, DISK = "Microsoft.Compute/virtualMachines", "Microsoft.Compute/disks"
INTERFACE = "Microsoft.Network/networkInterfaces"
ADDRESS = "Microsoft.Network/publicIPAddresses"
SECURITY_GROUP = "Microsoft.Network/networkSecurityGroups"
NETWORK = "Microsoft.Network/virtualNetworks"
SCHEDULE = "Microsoft.DevTestLab/schedules"
# What an attempt to remove something in use is answered with.
_IN_USE = {
    INTERFACE: "NicInUse",
    ADDRESS: "PublicIPAddressCannotBeDeleted",
    SECURITY_GROUP: "InUseNetworkSecurityGroupCannotBeDeleted",
    NETWORK: "InUseSubnetCannotBeDeleted",
    DISK: "OperationNotAllowed",
}
_FIXED = ("hardwareProfile", "securityProfile", "osProfile")  # of a VM that exists


@dataclass
class Vm:
    """What a VM is like from outside the API.

    Attributes:
        console: what it printed on its serial console.
    """

    console: str = ""


@dataclass
class Outcome:
    """An answer.

    Attributes:
        status: HTTP's.
        body: None for none.
        operation: the name of the operation that has begun; empty for none.
    """

    status: int
    body: Any = None
    operation: str = ""


@dataclass
class _Operation:
    answer: dict[str, Any]
    due: float
    effect: Callable[[], None]


class Store:
    """Everything in the double's one subscription and resource group.

    Args:
        boot: what the VM that is being made is like; called with it as the API has it.
        halt: called with the name of a VM that is gone or stopped.

    Attributes:
        held: resources by type and lower-case name.
        address: what every public address is.
    """

    def __init__(
        self,
        boot: Callable[[dict[str, Any]], Vm] | None,
        halt: Callable[[str], None] | None,
    ) -> None:
        self.subscription = "00000000-0000-0000-0000-00000000abcd"
        self.group = "bench-group"
        self.latency = 0.02  # seconds that an operation takes
        self.address = "203.0.113.10"
        self.unregistered: set[str] = set()
        self.held: dict[tuple[str, str], dict[str, Any]] = {}
        self.vms: dict[str, Vm] = {}
        self._boot, self._halt = boot, halt
        self._operations: dict[str, _Operation] = {}
        self._numbers = itertools.count(1000)

    # What a request does; the caller holds the lock.

    def settle(self) -> None:
        """Finish the operations whose time has come."""
        for operation in list(self._operations.values()):
            if operation.answer["status"] == "InProgress" and time.monotonic() >= operation.due:
                operation.answer["status"] = (
                    "Failed" if "error" in operation.answer else "Succeeded"
                )
                operation.effect()

    def finish(self) -> None:
        """Let the time of every operation have come."""
        for operation in self._operations.values():
            operation.due = 0.0

    def operation(self, name: str) -> dict[str, Any]:
        """One operation as it is now."""
        if name not in self._operations:
            raise RefusedError(404, "NotFound", f"The operation {name} was not found.")
        return self._operations[name].answer

    def identity(self, kind: str, name: str) -> str:
        """A resource's id."""
        group = f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
        return f"{group}/providers/{kind}/{name}"

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One resource."""
        found = self.held.get((kind, name.lower()))
        if found is None:
            raise RefusedError(
                404,
                "ResourceNotFound",
                f"The Resource '{kind}/{name}' under '{self.group}' was not found.",
            )
        return found

    def named(self, kind: str) -> list[dict[str, Any]]:
        """All resources of a type."""
        return [resource for (type_, _), resource in self.held.items() if type_ == kind]

    def names(self) -> set[str]:
        """Type without its provider, and name, of everything; for tests."""
        return {f"{kind.partition('/')[2]} {item['name']}" for (kind, _), item in self.held.items()}

    def put(self, kind: str, name: str, body: dict[str, Any], fault: Fault | None) -> Outcome:
        """Begin to make or change a resource."""
        key = (kind, name.lower())
        before = self.held.get(key)
        if kind == VM:
            return self._put_vm(name, body, before, fault)
        made = json.loads(json.dumps(body)) | {
            "id": self.identity(kind, name),
            "name": name,
            "type": kind,
        }
        properties = made.setdefault("properties", {})
        properties["provisioningState"] = "Succeeded"
        {
            INTERFACE: self._interface,
            ADDRESS: self._address,
            NETWORK: self._network,
            SECURITY_GROUP: self._security_group,
            SCHEDULE: self._schedule,
        }[kind](made)
        if fault and fault.operation_error:
            return Outcome(201, made, self._begin(lambda: None, fault))
        self.held[key] = made
        if kind == SCHEDULE:  # which answers at once
            return Outcome(200 if before else 201, made)
        return Outcome(200 if before else 201, made, self._begin(lambda: None, fault))

    def patch(self, kind: str, name: str, body: dict[str, Any], fault: Fault | None) -> Outcome:
        """Begin to change a resource's tags, which is all that is asked for here."""
        found = self.get(kind, name)
        if set(body) != {"tags"}:
            raise RefusedError(400, "BadRequest", "The double changes tags only.")
        found["tags"] = body["tags"]
        return Outcome(200, found, self._begin(lambda: None, fault))

    def delete(self, kind: str, name: str, fault: Fault | None) -> Outcome:
        """Begin to remove a resource."""
        key = (kind, name.lower())
        if key not in self.held:
            return Outcome(204)
        if self._users(self.held[key]):
            raise RefusedError(
                409 if kind == DISK else 400,
                _IN_USE[kind],
                f"{name} is in use and cannot be deleted.",
            )
        if kind == SCHEDULE:
            del self.held[key]
            return Outcome(200)
        if kind == VM:
            self.held[key]["properties"]["provisioningState"] = "Deleting"

        def effect() -> None:
            if kind == VM:
                self.gone(name)
            else:
                self.held.pop(key, None)

        return Outcome(202, None, self._begin(effect, fault))

    def gone(self, name: str) -> None:
        """Let a VM vanish, and with it what is marked to go with it."""
        vm = self.held.pop((VM, name.lower()), None)
        if vm is None:
            return
        self.vms.pop(name, None)
        profile = vm["properties"]
        for link in profile["networkProfile"]["networkInterfaces"]:
            if link.get("properties", {}).get("deleteOption") == "Delete":
                self._drop_interface(link["id"].rpartition("/")[2])
        disk = profile["storageProfile"]["osDisk"]
        if disk.get("deleteOption") == "Delete":
            self.held.pop((DISK, disk["name"].lower()), None)
        if self._halt:
            self._halt(name)

    def shut_down(self, name: str) -> None:
        """Let the auto-shutdown of a VM do what it does at its time."""
        schedule = self.get(SCHEDULE, f"shutdown-computevm-{name}")["properties"]
        vm = self.get(VM, name)
        assert schedule["targetResourceId"].lower() == vm["id"].lower()
        assert schedule["status"] == "Enabled"
        self._power(vm, "deallocated")
        if self._halt:
            self._halt(name)

    def _drop_interface(self, name: str) -> None:
        interface = self.held.pop((INTERFACE, name.lower()), None)
        for inner in (interface or {"properties": {"ipConfigurations": []}})["properties"][
            "ipConfigurations"
        ]:
            address = inner["properties"].get("publicIPAddress")
            if address and address.get("properties", {}).get("deleteOption") == "Delete":
                self.held.pop((ADDRESS, address["id"].rpartition("/")[2].lower()), None)

    def _put_vm(
        self, name: str, body: dict[str, Any], before: dict[str, Any] | None, fault: Fault | None
    ) -> Outcome:
        if before is not None:
            return self._change_vm(before, body, fault)
        if why := rules.refusal(body):
            raise RefusedError(409 if why[0] == "SkuNotAvailable" else 400, *why)
        made = json.loads(json.dumps(body)) | {
            "id": self.identity(VM, name),
            "name": name,
            "type": VM,
        }
        properties = made["properties"]
        properties["osProfile"].pop("customData", None)  # never given back
        self._plug_in(made)
        properties |= {
            "vmId": str(uuid.uuid4()),
            "provisioningState": "Creating",
            "timeCreated": self._now(),
        }
        disk = properties["storageProfile"]["osDisk"]
        disk["managedDisk"]["id"] = self.identity(DISK, disk["name"])
        self.held[VM, name.lower()] = made
        if not (fault and fault.operation_error):
            self._disk(made, disk)

        def effect() -> None:
            if fault and fault.vanish:
                self.gone(name)
            elif fault and fault.operation_error:
                properties["provisioningState"] = "Failed"
            elif made["properties"]["provisioningState"] == "Creating":
                self._running(name, made, fault)

        return Outcome(201, made, self._begin(effect, fault))

    def _change_vm(
        self, before: dict[str, Any], body: dict[str, Any], fault: Fault | None
    ) -> Outcome:
        for part in _FIXED:
            asked = {**body["properties"].get(part, {})}
            asked.pop("customData", None)
            if asked != before["properties"].get(part):
                raise RefusedError(409, "PropertyChangeNotAllowed", f"{part} cannot be changed.")
        before["tags"] = body.get("tags", {})
        return Outcome(200, before, self._begin(lambda: None, fault))

    def _plug_in(self, made: dict[str, Any]) -> None:
        for link in made["properties"]["networkProfile"]["networkInterfaces"]:
            interface = self._by_id(INTERFACE, link["id"])
            if interface["properties"].get("virtualMachine"):
                raise RefusedError(400, "NicInUse", f"{interface['name']} is used by another VM.")
            if interface["location"] != made["location"]:
                raise RefusedError(400, "InvalidParameter", "The interface is in another region.")
            interface["properties"]["virtualMachine"] = {"id": made["id"]}

    def _disk(self, vm: dict[str, Any], disk: dict[str, Any]) -> None:
        """The boot disk; whether Azure gives it the VM's tags is not known here, so it has none."""
        self.held[DISK, disk["name"].lower()] = {
            "id": disk["managedDisk"]["id"],
            "name": disk["name"],
            "type": DISK,
            "location": vm["location"],
            "managedBy": vm["id"],
            "properties": {
                "timeCreated": self._now(),
                "provisioningState": "Succeeded",
                "creationData": {"createOption": "FromImage"},
            },
        }

    def _running(self, name: str, vm: dict[str, Any], fault: Fault | None) -> None:
        self.vms[name] = self._boot(vm) if self._boot else Vm()
        vm["properties"]["provisioningState"] = "Succeeded"
        vm["properties"] |= (fault.alter if fault else None) or {}
        self._power(vm, "running")

    def _power(self, vm: dict[str, Any], state: str) -> None:
        vm["properties"]["instanceView"] = {
            "statuses": [
                {"code": "ProvisioningState/succeeded", "level": "Info"},
                {"code": f"PowerState/{state}", "level": "Info"},
            ]
        }

    def _interface(self, made: dict[str, Any]) -> None:
        properties = made["properties"]
        for place, inner in enumerate(properties["ipConfigurations"]):
            subnet = inner["properties"]["subnet"]["id"]
            network, _, name = subnet.partition("/subnets/")
            there = self._by_id(NETWORK, network)["properties"]["subnets"]
            if name not in {item["name"] for item in there}:
                raise RefusedError(404, "NotFound", f"There is no subnet {subnet}.")
            inner["properties"]["privateIPAddress"] = f"10.81.0.{4 + place}"
            if address := inner["properties"].get("publicIPAddress"):
                used_by = {"id": f"{made['id']}/ipConfigurations/{inner['name']}"}
                self._by_id(ADDRESS, address["id"])["properties"]["ipConfiguration"] = used_by
        if group := properties.get("networkSecurityGroup"):
            self._by_id(SECURITY_GROUP, group["id"])
        before = self.held.get((INTERFACE, made["name"].lower()), {})
        if user := before.get("properties", {}).get("virtualMachine"):
            properties["virtualMachine"] = user

    def _address(self, made: dict[str, Any]) -> None:
        made["properties"]["ipAddress"] = self.address

    def _network(self, made: dict[str, Any]) -> None:
        for subnet in made["properties"].get("subnets", []):
            subnet["id"] = f"{made['id']}/subnets/{subnet['name']}"
            subnet["properties"]["provisioningState"] = "Succeeded"

    def _security_group(self, made: dict[str, Any]) -> None:
        for rule in made["properties"].get("securityRules", []):
            rule["id"] = f"{made['id']}/securityRules/{rule['name']}"
            rule["properties"]["provisioningState"] = "Succeeded"

    def _schedule(self, made: dict[str, Any]) -> None:
        target = self._by_id(VM, made["properties"]["targetResourceId"])
        if made["name"] != f"shutdown-computevm-{target['name']}":
            raise RefusedError(400, "InvalidScheduleName", "A VM's auto-shutdown has a fixed name.")
        made["properties"]["createdDate"] = self._now()

    def _by_id(self, kind: str, identity: str) -> dict[str, Any]:
        name = identity.rpartition("/")[2]
        if identity.lower() != self.identity(kind, name).lower():
            raise RefusedError(400, "InvalidResourceReference", f"{identity} is not a {kind}.")
        return self.get(kind, name)

    def _users(self, resource: dict[str, Any]) -> list[str]:
        """Who uses a resource, so that it cannot be removed."""
        kind, here = resource["type"], resource["id"].lower()
        if kind == INTERFACE:
            return (
                [resource["properties"]["virtualMachine"]["id"]]
                if resource["properties"].get("virtualMachine")
                else []
            )
        if kind == DISK:
            owner = resource.get("managedBy", "").lower()
            return [vm["name"] for vm in self.named(VM) if vm["id"].lower() == owner]
        if kind in (ADDRESS, SECURITY_GROUP, NETWORK):
            return [
                item["name"]
                for item in self.named(INTERFACE)
                if f'"{here}' in json.dumps(item).lower() and item["id"].lower() != here
            ]
        return []

    def _begin(self, effect: Callable[[], None], fault: Fault | None) -> str:
        name = f"operation-{next(self._numbers)}"
        answer: dict[str, Any] = {"name": name, "status": "InProgress"}
        if fault and fault.operation_error:
            answer |= refusal(*fault.operation_error)
        due = time.monotonic() + self.latency + (fault.slow if fault else 0)
        self._operations[name] = _Operation(answer, due, effect)
        return name

    @staticmethod
    def _now() -> str:
        return datetime.now(UTC).isoformat()
