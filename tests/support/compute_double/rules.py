"""What the API refuses although its schema allows it. Seen on 2026-11-30; see docs/clouds.md."""

from __future__ import annotations

import re
from typing import Any

CONFIDENTIAL = {
    "SEV": {"machines": r"(n2d|c2d|c3d|c4d)-\w+-\d+", "feature": "SEV_CAPABLE"},
    "SEV_SNP": {
        "machines": r"n2d-\w+-\d+",
        "feature": "SEV_SNP_CAPABLE",
        "platform": "AMD Milan",
        "maintenance": "TERMINATE",
    },
    "TDX": {
        "machines": r"c3-standard-\d+|a3-highgpu-1g",
        "feature": "TDX_CAPABLE",
        "maintenance": "TERMINATE",
    },
}


def refusal(body: dict[str, Any], features: set[str]) -> str | None:
    """Why the API would not make this VM; None if it would.

    Args:
        body: of ``instances.insert``, valid by the schema.
        features: ``guestOsFeatures`` of the boot disk's image.
    """
    for field in ("name", "machineType", "disks", "networkInterfaces"):
        if not body.get(field):
            return f"Required field '{field}' not specified"
    scheduling = body.get("scheduling", {})
    seconds = scheduling.get("maxRunDuration", {}).get("seconds")
    if seconds is not None and not 30 <= int(seconds) <= 120 * 86400:
        return f"Invalid value for field 'resource.scheduling.maxRunDuration': '{seconds}'."
    if seconds is not None and "instanceTerminationAction" not in scheduling:
        return "maxRunDuration requires instanceTerminationAction."
    config = body.get("confidentialInstanceConfig", {})
    kind = config.get("confidentialInstanceType") or (
        "SEV" if config.get("enableConfidentialCompute") else None
    )
    return _confidential(body, kind, features) if kind else None


def _confidential(body: dict[str, Any], kind: str, features: set[str]) -> str | None:
    rule = CONFIDENTIAL.get(kind)
    machine = body["machineType"].rpartition("/")[2]
    if rule is None or not re.fullmatch(rule["machines"], machine):
        return f"Confidential instance type {kind} is not supported by machine type {machine}."
    if rule.get("platform") not in (None, body.get("minCpuPlatform")):
        return f"{kind} requires minCpuPlatform {rule['platform']} for Confidential VMs."
    maintenance = body.get("scheduling", {}).get("onHostMaintenance", "MIGRATE")
    if rule.get("maintenance") not in (None, maintenance):
        return f"Confidential VMs of type {kind} require onHostMaintenance TERMINATE."
    if rule["feature"] not in features:
        return f"The boot disk image lacks the guest OS feature {rule['feature']}."
    return None
