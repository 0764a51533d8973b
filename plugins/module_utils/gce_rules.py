"""What Google's schema of the Compute API cannot say about a Confidential VM, as a dated table.

Seen on 2026-11-30. Sources: the API's discovery document of revision 20261106 (descriptions of
``confidentialInstanceConfig``, ``scheduling`` and ``Image.guestOsFeatures``), and Google's page
"Supported configurations" of Confidential VM, as other projects quote it. What Google adds later is
one row here. The API has the last word: a rule only turns a refusal after minutes into one before
the first call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.cloud_rules import naming

SEEN = "2026-11-30"

SHORTEST = 30  # seconds; the API's limits of maxRunDuration
LONGEST = 120 * 86400


@dataclass(frozen=True)
class Technology:
    """What one confidential instance type asks of the rest of the request.

    Attributes:
        machine_types: pattern of the machine types that have it, and the same in words.
        min_cpu_platform: the oldest CPU platform that has it; None where the machine type decides.
        image_feature: the guestOsFeatures entry that an image for it carries.
        migrates: whether a VM of this type may stay up through host maintenance.
    """

    machine_types: tuple[str, str]
    min_cpu_platform: str | None
    image_feature: str
    migrates: bool


TECHNOLOGIES = {
    "SEV": Technology((r"(n2d|c2d|c3d|c4d)-.+", "n2d, c2d, c3d or c4d"), None, "SEV_CAPABLE", True),
    "SEV_SNP": Technology((r"n2d-.+", "n2d"), "AMD Milan", "SEV_SNP_CAPABLE", False),
    "TDX": Technology(
        (r"c3-standard-\d+|a3-highgpu-1g", "c3-standard or a3-highgpu-1g"),
        None,
        "TDX_CAPABLE",
        False,
    ),
}


def image_features(options: dict[str, Any]) -> list[str]:
    """The guestOsFeatures that an image must carry for a VM with these options."""
    technology = TECHNOLOGIES.get(options["confidential_instance_type"])
    features = [technology.image_feature] if technology else []
    if options["confidential_tpm_type"] == "EPHEMERAL":
        features.append("SNP_SVSM_CAPABLE")
    return [*features, "UEFI_COMPATIBLE"] + (["GVNIC"] if options["nic_type"] == "GVNIC" else [])


def broken(options: dict[str, Any]) -> list[str]:
    """Sentences, one for each rule that these options of the module break.

    Args:
        options: the module's options by name, each present; None where not given.
    """
    return [
        *naming(options["name"], options["labels"]),
        *_deadline(options["max_run_duration"]),
        *_confidential(options, TECHNOLOGIES.get(options["confidential_instance_type"])),
    ]


def _deadline(seconds: int | None) -> list[str]:
    if seconds is None:
        return ["max_run_duration is missing: a VM without a deadline is not made."]
    if not SHORTEST <= seconds <= LONGEST:
        return [
            f"max_run_duration must be {SHORTEST} s to {LONGEST} s (120 days), not {seconds} s."
        ]
    return []


def _confidential(options: dict[str, Any], technology: Technology | None) -> list[str]:
    if technology is None:
        return (
            ["confidential_tpm_type needs confidential_instance_type: SEV_SNP."]
            if options["confidential_tpm_type"]
            else []
        )
    kind, says = options["confidential_instance_type"], []
    pattern, words = technology.machine_types
    if not re.fullmatch(pattern, options["machine_type"]):
        says.append(
            f"machine type {options['machine_type']} has no {kind} (as of {SEEN}); use {words}."
        )
    wanted = technology.min_cpu_platform
    if wanted and options["min_cpu_platform"] != wanted:
        says.append(
            f"{kind} needs min_cpu_platform: {wanted}, not {options['min_cpu_platform'] or 'none'}."
        )
    if not technology.migrates and options["on_host_maintenance"] != "TERMINATE":
        says.append(f"{kind} needs on_host_maintenance: TERMINATE.")
    if options["confidential_tpm_type"] and kind != "SEV_SNP":
        says.append("confidential_tpm_type needs confidential_instance_type: SEV_SNP.")
    return says
