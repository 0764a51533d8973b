"""One VM through the API: read, made, changed, removed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_rules import OWN_LABEL
from ansible.module_utils.gce_errors import GceError

if TYPE_CHECKING:
    from ansible.module_utils.gce_api import Api

STARTING = ("PENDING", "PROVISIONING", "STAGING", "REPAIRING")
# A VM that is being deleted passes through these; one that was stopped ends in TERMINATED.
LEAVING = ("STOPPING", "PENDING_STOP", "DEPROVISIONING", "SUSPENDING")


class Instance:
    """A VM that may or may not exist.

    Args:
        api: the client.
        zone: its zone.
        name: its name.
    """

    def __init__(self, api: Api, zone: str, name: str) -> None:
        self.api = api
        self.name = name
        self._zone = zone
        self._path = api.zonal(zone, "instances", name)

    def find(self) -> dict[str, Any] | None:
        """What the API says of it; None where there is none.

        Raises:
            GceError: it is not ours (kind ``not-ours``), or cannot be read.
        """
        found = self.api.find(self._path)
        if found is not None and OWN_LABEL not in found.get("labels", {}):
            raise GceError(
                "not-ours",
                f"There is a VM {self.name} in {self._zone} without the label {OWN_LABEL}: it was "
                "not made by this project and is left alone. Choose another name.",
            )
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
            if error.kind != "conflict" or self.find() is None:
                raise

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
        try:
            self.api.change("DELETE", self._path)
        except GceError as error:
            # Its deadline or someone else was first: then it is only waited for.
            if error.kind not in ("not-found", "busy"):
                raise
        self.api.until(
            lambda: self.api.find(self._path) is None, f"{self.name} is still being deleted"
        )


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
        "ends_at": _ends_at(found),
    }


def _ends_at(found: dict[str, Any]) -> str:
    said = found.get("resourceStatus", {}).get("scheduling", {}).get("terminationTimestamp")
    started = found.get("lastStartTimestamp") or found.get("creationTimestamp")
    seconds = found.get("scheduling", {}).get("maxRunDuration", {}).get("seconds")
    if said or not (started and seconds):
        return said or ""
    return (datetime.fromisoformat(started) + timedelta(seconds=int(seconds))).isoformat()
