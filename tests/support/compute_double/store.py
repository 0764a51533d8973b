"""The double's state: what exists, and the operations that change it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.support.compute_double import rules
from tests.support.compute_double.faults import Fault, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

PLATFORMS = {"n2d": "AMD Milan", "c3": "Intel Sapphire Rapids", "e2": "Intel Broadwell"}
FEATURES = ["UEFI_COMPATIBLE", "GVNIC", "SEV_CAPABLE", "SEV_SNP_CAPABLE", "TDX_CAPABLE"]


@dataclass
class Vm:
    """What a VM is like from outside the API.

    Attributes:
        address: where it can be reached.
        host_keys: as ``type base64``.
        console: what it printed on its serial console.
        endorsement_keys: PEM, RSA and then ECC.
        attributes: whether it publishes guest attributes.
    """

    address: str = "203.0.113.10"
    host_keys: list[str] = field(default_factory=list)
    console: str = ""
    endorsement_keys: list[str] = field(default_factory=list)
    attributes: bool = True


@dataclass
class _Operation:
    answer: dict[str, Any]
    due: float
    effect: Callable[[], None]


def _image(name: str, family: str, features: list[str], made: str) -> dict[str, Any]:
    return {
        "name": name,
        "family": family,
        "creationTimestamp": made,
        "guestOsFeatures": [{"type": feature} for feature in features],
    }


class Store:
    """Everything in the double's one world of projects.

    Args:
        base: URL in front of every resource's path.
        boot: what the VM that is being made is like; called with the instance.
        halt: called with the name of a VM that is gone.
    """

    def __init__(
        self,
        base: str,
        boot: Callable[[dict[str, Any]], Vm] | None,
        halt: Callable[[str], None] | None,
    ) -> None:
        self.base = base
        self.latency = 0.02  # seconds that an operation takes
        self.instances: dict[tuple[str, str], dict[str, Any]] = {}
        self.disks: dict[tuple[str, str], dict[str, Any]] = {}
        self.firewalls: dict[str, dict[str, Any]] = {}
        self.vms: dict[str, Vm] = {}
        self.zones = {
            "europe-west4-b": ["AMD Milan", "AMD Rome", "Intel Sapphire Rapids"],
            "europe-west4-z": ["AMD Rome"],
        }
        family = "ubuntu-2404-lts-amd64"
        self.images = {
            "ubuntu-os-cloud": [
                _image("ubuntu-2404-v1", family, FEATURES, "2026-09-01T00:00:00.000-07:00"),
                _image("ubuntu-2404-v2", family, FEATURES, "2026-10-01T00:00:00.000-07:00"),
                _image("ubuntu-2404-old", family, FEATURES, "2026-11-01T00:00:00.000-07:00")
                | {"deprecated": {"state": "DEPRECATED"}},
                _image("plain-v1", "plain", ["GVNIC", "UEFI_COMPATIBLE"], "2026-10-01T00:00:00Z"),
            ]
        }
        self._boot, self._halt = boot, halt
        self._operations: dict[str, _Operation] = {}
        self._requests: dict[str, str] = {}
        self._numbers = itertools.count(1000)

    # What a request does; the caller holds the lock.

    def settle(self) -> None:
        """Finish the operations whose time has come."""
        for operation in self._operations.values():
            if operation.answer["status"] != "DONE" and time.monotonic() >= operation.due:
                operation.answer["status"] = "DONE"
                operation.answer["progress"] = 100
                operation.effect()

    def operation(self, name: str) -> dict[str, Any]:
        """One operation as it is now."""
        if name not in self._operations:
            raise RefusedError(404, "notFound", f"The operation '{name}' was not found")
        return self._operations[name].answer

    def repeated(self, request_id: str) -> dict[str, Any] | None:
        """The operation of an earlier request with the same id."""
        name = self._requests.get(request_id)
        return self._operations[name].answer if name else None

    def insert(
        self, project: str, zone: str, body: dict[str, Any], request_id: str, fault: Fault | None
    ) -> dict[str, Any]:
        """Begin to make a VM."""
        key = (zone, body["name"]) if body.get("name") else (zone, "")
        image = self._image_of(body)
        if why := rules.refusal(body, {item["type"] for item in image["guestOsFeatures"]}):
            raise RefusedError(400, "invalid", why)
        path = f"projects/{project}/zones/{zone}/instances/{key[1]}"
        if key in self.instances:
            raise RefusedError(409, "alreadyExists", f"The resource '{path}' already exists")
        if key in self.disks:
            raise RefusedError(
                409, "alreadyExists", f"The resource 'disks/{key[1]}' already exists"
            )
        if fault and fault.operation_error:
            return self._begin("insert", project, zone, path, request_id, lambda: None, fault)
        self.instances[key] = self._instance(project, zone, body, image) | (
            (fault and fault.alter) or {}
        )
        disk = body["disks"][0]["initializeParams"]
        self.disks[key] = {
            "name": key[1],
            "zone": f"{self.base}/projects/{project}/zones/{zone}",
            "labels": disk.get("labels", {}),
            "status": "READY",
            "creationTimestamp": self.instances[key]["creationTimestamp"],
        }

        def effect() -> None:
            if fault and fault.vanish:
                self.gone(key)
            elif key in self.instances:
                self._running(key)

        return self._begin("insert", project, zone, path, request_id, effect, fault)

    def delete(
        self, kind: str, project: str, zone: str, name: str, request_id: str, fault: Fault | None
    ) -> dict[str, Any]:
        """Begin to remove a VM, a disk or a firewall rule."""
        where = f"zones/{zone}" if zone else "global"
        path = f"projects/{project}/{where}/{kind}/{name}"
        held: dict[Any, Any] = getattr(self, kind)
        key = (zone, name) if zone else name
        if key not in held:
            raise RefusedError(404, "notFound", f"The resource '{path}' was not found")
        if kind == "disks" and key in self.instances:
            raise RefusedError(
                400, "resourceInUseByAnotherResource", f"The disk resource '{path}' is in use"
            )
        if kind == "instances":
            if held[key]["status"] == "STOPPING":
                raise RefusedError(400, "resourceNotReady", f"The resource '{path}' is not ready")
            held[key]["status"] = "STOPPING"

        def effect() -> None:
            if kind == "instances":
                self.gone(key)
            else:
                held.pop(key, None)

        return self._begin("delete", project, zone, path, request_id, effect, fault)

    def insert_firewall(
        self, project: str, body: dict[str, Any], request_id: str
    ) -> dict[str, Any]:
        """Begin to make a firewall rule."""
        name = body["name"]
        path = f"projects/{project}/global/firewalls/{name}"
        if name in self.firewalls:
            raise RefusedError(409, "alreadyExists", f"The resource '{path}' already exists")
        self.firewalls[name] = body | {
            "creationTimestamp": self._now(),
            "network": f"{self.base}/projects/{project}/{body['network']}",
        }
        return self._begin("insert", project, "", path, request_id, lambda: None, None)

    def change(
        self, project: str, zone: str, name: str, body: dict[str, Any], request_id: str, part: str
    ) -> dict[str, Any]:
        """Change labels or metadata, if the fingerprint is current."""
        instance = self.instance(zone, name)
        key = "labelFingerprint" if part == "labels" else "fingerprint"
        current = instance[key] if part == "labels" else instance["metadata"]["fingerprint"]
        if body.get(key) != current:
            raise RefusedError(412, "conditionNotMet", f"{part} fingerprint does not match.")
        if part == "labels":
            instance["labels"] = body["labels"]
        else:
            instance["metadata"] = {"items": body["items"]}
        self._fingerprint(instance)
        path = f"projects/{project}/zones/{zone}/instances/{name}"
        return self._begin("set", project, zone, path, request_id, lambda: None, None)

    def instance(self, zone: str, name: str) -> dict[str, Any]:
        """One VM."""
        if zone not in self.zones:
            raise RefusedError(404, "notFound", f"The resource 'zones/{zone}' was not found")
        if (zone, name) not in self.instances:
            raise RefusedError(404, "notFound", f"The resource 'instances/{name}' was not found")
        return self.instances[zone, name]

    def _begin(
        self,
        kind: str,
        project: str,
        zone: str,
        target: str,
        request_id: str,
        effect: Callable[[], None],
        fault: Fault | None,
    ) -> dict[str, Any]:
        name = f"operation-{next(self._numbers)}"
        answer: dict[str, Any] = {
            "kind": "compute#operation",
            "name": name,
            "operationType": kind,
            "status": "RUNNING",
            "progress": 0,
            "targetLink": f"{self.base}/{target}",
        }
        if zone:
            answer["zone"] = f"{self.base}/projects/{project}/zones/{zone}"
        if fault and fault.operation_error:
            code, message = fault.operation_error
            answer["error"] = {"errors": [{"code": code, "message": message}]}
            answer["httpErrorStatusCode"] = 400
        due = time.monotonic() + self.latency + (fault.slow if fault else 0)
        self._operations[name] = _Operation(answer, due, effect)
        if request_id:
            self._requests[request_id] = name
        return answer

    def _image_of(self, body: dict[str, Any]) -> dict[str, Any]:
        source = body["disks"][0]["initializeParams"]["sourceImage"]
        match = re.fullmatch(r"projects/([^/]+)/global/images/([^/]+)", source)
        images = self.images.get(match[1], []) if match else []
        found = [image for image in images if match and image["name"] == match[2]]
        if not found:
            raise RefusedError(404, "notFound", f"The resource '{source}' was not found")
        return found[0]

    def _instance(
        self, project: str, zone: str, body: dict[str, Any], image: dict[str, Any]
    ) -> dict[str, Any]:
        made = json.loads(json.dumps(body))
        here = f"{self.base}/projects/{project}/zones/{zone}"
        for disk in made["disks"]:
            disk.pop("initializeParams")  # input only
            disk["source"] = f"{here}/disks/{body['name']}"
            disk["guestOsFeatures"] = image["guestOsFeatures"]
        made |= {
            "kind": "compute#instance",
            "id": str(next(self._numbers) * 7919),
            "status": "PROVISIONING",
            "zone": here,
            "machineType": f"{here}/machineTypes/{body['machineType'].rpartition('/')[2]}",
            "creationTimestamp": self._now(),
        }
        made.setdefault("labels", {})
        made.setdefault("metadata", {"items": []})
        self._fingerprint(made)
        return made

    def _running(self, key: tuple[str, str]) -> None:
        instance = self.instances[key]
        vm = self._boot(instance) if self._boot else Vm()
        self.vms[key[1]] = vm
        interface = instance["networkInterfaces"][0]
        interface["networkIP"] = "10.164.0.2"
        for access in interface.get("accessConfigs", []):
            access["natIP"] = vm.address
        family = instance["machineType"].rpartition("/")[2].partition("-")[0]
        seconds = int(instance["scheduling"].get("maxRunDuration", {}).get("seconds", 0))
        ends = datetime.now(UTC) + timedelta(seconds=seconds)
        instance |= {
            "status": "RUNNING",
            "cpuPlatform": PLATFORMS[family],
            "lastStartTimestamp": self._now(),
            "resourceStatus": {"scheduling": {"terminationTimestamp": ends.isoformat()}},
        }

    def gone(self, key: tuple[str, str]) -> None:
        """Let a VM and its disk vanish: deleted, preempted, or at its deadline."""
        if self.instances.pop(key, None) is None:
            return
        self.disks.pop(key, None)  # autoDelete
        self.vms.pop(key[1], None)
        if self._halt:
            self._halt(key[1])

    def _fingerprint(self, instance: dict[str, Any]) -> None:
        def of(value: Any) -> str:
            digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
            return base64.b64encode(digest[:8]).decode()

        instance["labelFingerprint"] = of(instance["labels"])
        instance["metadata"]["fingerprint"] = of(instance["metadata"]["items"])

    @staticmethod
    def _now() -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds")
