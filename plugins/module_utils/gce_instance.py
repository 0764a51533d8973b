"""One VM through the API: read, made, changed, removed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ansible.module_utils import cloud_removal
from ansible.module_utils.cloud_leftovers import moment
from ansible.module_utils.cloud_rules import OWN_LABEL, not_ours
from ansible.module_utils.gce_errors import GceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible.module_utils.gce_api import Api

STARTING = ("PENDING", "PROVISIONING", "STAGING", "REPAIRING")
# A VM that is being deleted passes through these; one that was stopped ends in TERMINATED.
LEAVING = ("STOPPING", "PENDING_STOP", "DEPROVISIONING", "SUSPENDING")
GOING = (*LEAVING, "DELETING")  # the last is a disk's


class Instance:
    """A VM that may or may not exist.

    Args:
        api: the client.
        zone: its zone.
        name: its name.
        fleet: whose it must be, if it exists.
    """

    def __init__(self, api: Api, zone: str, name: str, fleet: str) -> None:
        self.api = api
        self.name = name
        self._fleet = fleet
        self._zone = zone
        self._path = api.zonal(zone, "instances", name)

    def find(self) -> dict[str, Any] | None:
        """What the API says of it; None where there is none.

        Raises:
            GceError: it is not ours (kind ``not-ours``), or cannot be read.
        """
        found = self.api.find(self._path)
        if found is not None and (whose := _owner(found)) != self._fleet:
            raise GceError("not-ours", not_ours(self.name, self._zone, whose))
        return found

    def settled(self) -> dict[str, Any] | None:
        """As :meth:`find`, after it has finished starting or going.

        Raises:
            GceError: as :meth:`find`, or it does not settle until the deadline.
        """
        status = ""

        def look() -> tuple[dict[str, Any] | None] | None:
            nonlocal status
            found = self.find()
            status = found["status"] if found else ""
            return None if status in STARTING + LEAVING else (found,)

        return self.api.until(look, f"{self.name} is still starting or being deleted")[0]

    def check_zone(self, platform: str | None) -> None:
        """See that the zone exists, is up and has the CPU platform.

        Raises:
            GceError: it does not; kind ``capacity``, ``not-found`` or ``machine-type``.
        """
        zone = self.api.get(f"projects/{self.api.project}/zones/{self._zone}")
        if zone.get("status") == "DOWN":
            raise GceError("capacity", f"{self._zone} is down; choose another zone.")
        offered = zone.get("availableCpuPlatforms", [])
        if platform and platform not in offered:
            raise GceError(
                "machine-type",
                f"{self._zone} has no {platform}, only {', '.join(offered)}; choose another zone.",
            )

    def insert(self, body: dict[str, Any]) -> None:
        """Make it, and wait until the operation is done.

        Raises:
            GceError: it cannot be made.
        """
        try:
            self.api.change("POST", self.api.zonal(self._zone, "instances"), body)
        except GceError as error:
            # An earlier attempt got through after all. Whether it is what was asked for is
            # compared afterwards, as for any VM.
            if error.kind != "conflict":
                raise
            if self.find() is None:
                raise self._in_the_way(error) from error

    def _in_the_way(self, error: GceError) -> GceError:
        """Name the disk that a VM of this name left, if that is what the VM cannot be made for."""
        disk = self.api.find(self.api.zonal(self._zone, "disks", self.name))
        if disk is None:
            return error
        mine = _owner(disk) == self._fleet and not disk.get("users")
        remedy = "playbooks/teardown.yml removes it" if mine else "choose another name or fleet"
        return GceError(
            "conflict",
            f"There is a disk {self.name} in {self._zone}, and the VM's is to be called so too; "
            f"{remedy}.",
        )

    def set(self, method: str, wanted: dict[str, Any]) -> None:
        """Change labels or metadata; what others added stays.

        Raises:
            GceError: refused, or someone else changed them meanwhile (kind ``conflict``).
        """
        found = self.api.get(self._path)
        if method == "setLabels":
            body: dict[str, Any] = {
                "labels": found.get("labels", {}) | wanted["labels"],
                "labelFingerprint": found.get("labelFingerprint"),
            }
        else:
            there = found.get("metadata", {})
            items = {item["key"]: item for item in there.get("items", [])}
            items |= {item["key"]: item for item in wanted["metadata"]["items"]}
            body = {"items": list(items.values()), "fingerprint": there.get("fingerprint")}
        self.api.change("POST", f"{self._path}/{method}", body)

    def delete(self) -> None:
        """Remove it, and wait until the API no longer knows it.

        Raises:
            GceError: refused, or still there at the deadline.
        """
        found = self.find()
        if found is not None:
            number = found.get("id")
            same = lambda now: now.get("id") == number and _owner(now) == self._fleet  # noqa: E731
            gone(self.api, self._path, self.name, same)


def _owner(found: dict[str, Any]) -> str | None:
    """The fleet that a VM is labelled with."""
    return (found.get("labels") or {}).get(OWN_LABEL)


def gone(api: Api, path: str, name: str, same: Callable[[dict[str, Any]], bool]) -> None:
    """Have a resource removed, also one that is being removed already.

    Args:
        api: the client.
        path: of the resource.
        name: for the message.
        same: whether what is at the path now is what is to go. Names are given again; another one
            is left alone, and means that ours is gone.

    Raises:
        GceError: refused, or still there at the deadline.
    """
    removal = cloud_removal.Removal(
        find=lambda: api.find(path),
        delete=lambda: api.change("DELETE", path),
        same=same,
        going=lambda found: found.get("status") in GOING,
        passing=("not-found", "busy"),  # busy: also while it is only being stopped
        words=f"{name} is still being deleted",
    )
    cloud_removal.gone(api.until, removal)


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What callers need to know of a VM, out of the API's answer."""
    interface = (found.get("networkInterfaces") or [{}])[0]
    outside = [config.get("natIP") for config in interface.get("accessConfigs", [])]
    internal = interface.get("networkIP", "")
    config = found.get("confidentialInstanceConfig", {})
    # enableConfidentialCompute without a type means SEV.
    kind = config.get("confidentialInstanceType") or (
        "SEV" if config.get("enableConfidentialCompute") else "none"
    )
    paravisor = config.get("confidentialParavisorConfig", {}).get("confidentialTpmType")
    return {
        "id": found.get("id", ""),
        "name": found["name"],
        "status": found["status"],
        "confidential_instance_type": kind,
        "confidential_tpm_type": paravisor if paravisor == "EPHEMERAL" else "none",
        "machine_type": found.get("machineType", "").rpartition("/")[2],
        "cpu_platform": found.get("cpuPlatform", ""),
        "address": next((address for address in outside if address), internal),
        "internal_address": internal,
        "labels": found.get("labels", {}),
        "ends_at": ends_at(found),
    }


def ends_at(found: dict[str, Any]) -> str:
    """When Google deletes the VM, RFC 3339; empty where nobody says."""
    status = (found.get("resourceStatus") or {}).get("scheduling") or {}
    if said := status.get("terminationTimestamp"):
        return str(said)
    started = moment(found.get("lastStartTimestamp") or found.get("creationTimestamp"))
    limit = (found.get("scheduling") or {}).get("maxRunDuration") or {}
    seconds = str(limit.get("seconds") or "")
    if started is None or not seconds.isdecimal():
        return ""
    return (started + timedelta(seconds=int(seconds))).isoformat()
