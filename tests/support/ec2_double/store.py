"""The double's state: what exists in one region, and how it changes by itself."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.support.ec2_double.faults import Fault, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE, OTHER_IMAGE, LEGACY_IMAGE = ("ami-0aaaaaaaaaaaaaaaa", "ami-0bbbbbbbbbbbbbbbb",
                                    "ami-0cccccccccccccccc")  # fmt: skip


@dataclass
class Vm:
    """What a VM is like from outside the API.

    Attributes:
        address: where it can be reached.
        console: what it printed on its console.
        endorsement_keys: by key type, base64 of DER.
    """

    address: str = "203.0.113.10"
    console: str = ""
    endorsement_keys: dict[str, str] = field(default_factory=dict)


@dataclass
class _Change:
    """A VM or a volume on its way to another state."""

    number: str
    due: float
    effect: Callable[[], object]


def _image(number: str, boot: str, **others: str) -> dict[str, Any]:
    return {
        "ImageId": number,
        "State": "available",
        "Architecture": "x86_64",
        "RootDeviceType": "ebs",
        "RootDeviceName": "/dev/sda1",
        "BootMode": boot,
    } | others


class Store:
    """Everything in one region of the double's one account.

    Args:
        region: its name.
        boot: what the VM that has started is like; called with the instance as the API has it.
        halt: called with the name of a VM that is gone.
    """

    def __init__(
        self,
        region: str,
        boot: Callable[[dict[str, Any]], Vm] | None,
        halt: Callable[[str], None] | None,
    ) -> None:
        self.region = region
        self.latency = 0.02  # seconds that a change of state takes
        self.disk_latency = 0.3  # seconds that a volume outlives its VM
        self.page_size = 1000
        self.instances: dict[str, dict[str, Any]] = {}
        self.bodies: dict[str, dict[str, Any]] = {}  # with what each VM was made
        self.volumes: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.schedules: dict[str, dict[str, Any]] = {}
        self.vms: dict[str, Vm] = {}
        self.images = {
            IMAGE: _image(IMAGE, "uefi", TpmSupport="v2.0"),
            OTHER_IMAGE: _image(OTHER_IMAGE, "uefi-preferred"),
            LEGACY_IMAGE: _image(LEGACY_IMAGE, "legacy-bios", State="pending"),
        }
        self.vpcs = {"vpc-0default": {"VpcId": "vpc-0default", "IsDefault": True}}
        self.subnets = {"subnet-0a": {"SubnetId": "subnet-0a", "VpcId": "vpc-0other"}}
        self._boot, self._halt = boot, halt
        self._changes: list[_Change] = []
        self._tokens: dict[str, tuple[str, str]] = {}
        self._unseen: dict[str, int] = {}
        self._numbers = itertools.count(0xABC000)

    # What a request does; the caller holds the lock.

    def settle(self) -> None:
        """Finish the changes whose time has come."""
        for change in [item for item in self._changes if time.monotonic() >= item.due]:
            self._changes.remove(change)
            change.effect()

    def number(self, prefix: str) -> str:
        """An id that nothing had before."""
        return f"{prefix}-{next(self._numbers):017x}"

    def seen(self) -> list[dict[str, Any]]:
        """The VMs that the API lists by now."""
        listed = [item for n, item in self.instances.items() if self._unseen.get(n, 0) == 0]
        self._unseen = {number: looks - 1 for number, looks in self._unseen.items() if looks > 1}
        return listed

    def hurry(self) -> None:
        """Finish every change that is under way."""
        for change in self._changes:
            change.due = 0.0
        self.settle()

    def run(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """Begin to make a VM, or find the one that the token stands for."""
        token = body.get("ClientToken", "")
        same = json.dumps(body, sort_keys=True)
        if token in self._tokens:
            number, before = self._tokens[token]
            if before != same:
                raise RefusedError(400, "IdempotentParameterMismatch", "Arguments differ.")
            there = self.instances.get(number)
            if there is None or there["State"]["Name"] == "terminated":
                raise RefusedError(
                    400, "IdempotentInstanceTerminated", f"The instance {number} is terminated."
                )
            return there
        number = self.number("i")
        instance = self._instance(number, body) | ((fault and fault.alter) or {})
        self.instances[number], self.bodies[number] = instance, body
        if token:
            self._tokens[token] = (number, same)
        if fault and fault.unseen:
            self._unseen[number] = fault.unseen
        vanish = fault is not None and fault.vanish
        self._later(number, lambda: self._running(number, vanish=vanish), fault)
        return instance

    def terminate(self, number: str, fault: Fault | None = None) -> tuple[str, str]:
        """Begin to end a VM; its state before, and now."""
        instance = self.instance(number)
        before = instance["State"]["Name"]
        if before not in ("shutting-down", "terminated"):
            self.set_state(instance, "shutting-down")
            self._later(number, lambda: self.gone(number), fault)
        return before, instance["State"]["Name"]

    def gone(self, number: str) -> None:
        """Let a VM be terminated at once: by the API, by itself, or by AWS."""
        instance = self.instances[number]
        if instance["State"]["Name"] == "terminated":
            return
        self.set_state(instance, "terminated")
        for mapping in instance.pop("BlockDeviceMappings", []):
            if mapping["Ebs"]["DeleteOnTermination"]:
                self._delete_later(mapping["Ebs"]["VolumeId"])
        for name in ("PublicIpAddress", "PrivateIpAddress"):
            instance.pop(name, None)
        if self.vms.pop(number, None) is not None and self._halt:
            self._halt(self.name_of(instance))

    def _delete_later(self, disk: str) -> None:
        """A volume is listed for a while after its VM is terminated."""
        if disk in self.volumes:
            self.volumes[disk]["State"] = "deleting"
            due = time.monotonic() + self.disk_latency
            self._changes.append(_Change(disk, due, lambda: self.volumes.pop(disk, None)))

    def instance(self, number: str) -> dict[str, Any]:
        """One VM."""
        if number not in self.instances:
            raise RefusedError(
                400, "InvalidInstanceID.NotFound", f"The instance ID '{number}' does not exist"
            )
        return self.instances[number]

    def live(self) -> list[dict[str, Any]]:
        """The VMs that are not terminated."""
        return [i for i in self.instances.values() if i["State"]["Name"] != "terminated"]

    @staticmethod
    def name_of(resource: dict[str, Any]) -> str:
        """A resource's tag ``Name``."""
        return {tag["Key"]: tag["Value"] for tag in resource.get("Tags", [])}.get("Name", "")

    @staticmethod
    def set_state(instance: dict[str, Any], name: str) -> None:
        """Put a VM into a state."""
        codes = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopped": 80}
        instance["State"] = {"Code": codes[name], "Name": name}

    def _later(self, number: str, effect: Callable[[], None], fault: Fault | None) -> None:
        due = time.monotonic() + self.latency + (fault.slow if fault else 0)
        self._changes.append(_Change(number, due, effect))

    def _instance(self, number: str, body: dict[str, Any]) -> dict[str, Any]:
        tags = {item["ResourceType"]: item["Tags"] for item in body.get("TagSpecifications", [])}
        image, now = self.images[body["ImageId"]], datetime.now(UTC)
        mappings = []
        for asked in body.get("BlockDeviceMappings", []):
            disk = self.number("vol")
            # Without a word the root volume is deleted with its VM.
            along = asked["Ebs"].get("DeleteOnTermination", True)
            mappings.append(
                {
                    "DeviceName": asked["DeviceName"],
                    "Ebs": {"VolumeId": disk, "DeleteOnTermination": along, "Status": "attached"},
                }
            )
            self.volumes[disk] = {
                "VolumeId": disk,
                "State": "in-use",
                "CreateTime": now,
                "Tags": list(tags.get("volume", [])),
            }
        instance: dict[str, Any] = {
            "InstanceId": number,
            "ImageId": body["ImageId"],
            "InstanceType": body["InstanceType"],
            "LaunchTime": now,
            "Placement": {"AvailabilityZone": f"{self.region}a"} | body.get("Placement", {}),
            "BootMode": image["BootMode"],
            "BlockDeviceMappings": mappings,
            "CpuOptions": {"CoreCount": 1, "ThreadsPerCore": 2} | body.get("CpuOptions", {}),
            "Tags": list(tags.get("instance", [])),
        }
        if "TpmSupport" in image:
            instance["TpmSupport"] = image["TpmSupport"]
        self.set_state(instance, "pending")
        return instance

    def _running(self, number: str, *, vanish: bool) -> None:
        instance = self.instances[number]
        if instance["State"]["Name"] != "pending":
            return
        self.set_state(instance, "running")
        vm = self._boot(instance) if self._boot else Vm()
        self.vms[number] = vm
        instance["PrivateIpAddress"] = "172.31.0.5"
        if self.bodies[number]["NetworkInterfaces"][0].get("AssociatePublicIpAddress"):
            instance["PublicIpAddress"] = vm.address
        if vanish:
            self.gone(number)
