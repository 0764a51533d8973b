"""What Azure's schema cannot say about a confidential VM, as a dated table.

Seen on 2026-11-30. Sources: the descriptions of ``SecurityProfile`` and ``VMDiskSecurityProfile``
in azure-mgmt-compute 39.0.0; Microsoft's pages "About Azure confidential VMs" and the series' own
(DCasv5, DCasv6, DCesv6 and their EC siblings), as other projects quote them; regions are those in
which other projects say to have made such machines. What Azure adds later is one row here. The API
has the last word: it is asked for the size in the region before anything is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.cloud_rules import OWN_LABEL, naming, ranges

SEEN = "2026-11-30"

# Seconds from creation to deadline. The auto-shutdown recurs daily, so it cannot be further away
# than a day, and Azure may pass over one that is only minutes away.
SHORTEST, LONGEST = 1800, 23 * 3600

MADE_TAG = "tpm-fleet-bench-made"  # RFC 3339; network resources have no time of their own
DEADLINE_TAG = "tpm-fleet-bench-deadline"  # RFC 3339

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# Azure refuses these.
_USERS_REFUSED = frozenset({"admin", "administrator", "guest", "root", "test", "user", "azure"})


@dataclass(frozen=True)
class Technology:
    """What one confidential computing type asks of the rest of the request.

    Attributes:
        sizes: pattern of the sizes that have it, and the same in words.
        regions: some that are known to have had them; others may.
        control: a size without it on processors of the same generation.
    """

    sizes: tuple[str, str]
    regions: tuple[str, ...]
    control: str


TECHNOLOGIES = {
    "SNP": Technology(
        (r"Standard_[DE]C\d+ad?s(_cc)?_v[56]", "DCasv5, ECasv5, DCasv6 or ECasv6"),
        ("eastus", "eastus2", "centralindia"),
        "Standard_D2as_v5",
    ),
    "TDX": Technology(
        (r"Standard_[DE]C\d+ed?s_v6", "DCesv6 or ECesv6"),
        ("eastus", "westus3"),
        "Standard_D2s_v6",
    ),
}


def technology_of(vm_size: str) -> str | None:
    """The technology that a size has; None for one without."""
    for name, technology in TECHNOLOGIES.items():
        if re.fullmatch(technology.sizes[0], vm_size):
            return name
    return None


def broken(options: dict[str, Any]) -> list[str]:
    """Sentences, one for each rule that these options of the module break.

    Args:
        options: the module's options by name, each present; None where not given.
    """
    return [
        *naming(options["name"], _labels(options["tags"]), "tags"),
        *_deadline(options["max_run_duration"]),
        *_confidential(options),
        *_login(options),
    ]


def _labels(tags: dict[str, str]) -> dict[str, str]:
    """The tags that name things; times have colons."""
    return {key: value for key, value in tags.items() if key.startswith(OWN_LABEL)}


def _deadline(seconds: int | None) -> list[str]:
    if seconds is None:
        return ["max_run_duration is missing: a VM without a deadline is not made."]
    if not SHORTEST <= seconds <= LONGEST:
        limits = f"{SHORTEST} s to {LONGEST} s (23 hours)"
        return [f"max_run_duration must be {limits}, not {seconds} s: auto-shutdown recurs daily."]
    return []


def _confidential(options: dict[str, Any]) -> list[str]:
    kind, size = options["confidential_computing_type"], options["vm_size"]
    if kind is None:
        if has := technology_of(size):
            other = TECHNOLOGIES[has].control
            return [f"{size} needs confidential_computing_type: {has}; for a control take {other}."]
        return []
    pattern, words = TECHNOLOGIES[kind].sizes
    if not re.fullmatch(pattern, size):
        return [f"{size} has no {kind} (as of {SEEN}); use one of {words}."]
    if (
        options["security_encryption_type"] == "DiskWithVMGuestState"
        and not options["secure_boot_enabled"]
    ):
        return ["security_encryption_type: DiskWithVMGuestState needs secure_boot_enabled."]
    return []


def _login(options: dict[str, Any]) -> list[str]:
    user = options["admin_username"]
    says = []
    if not _USER.fullmatch(user) or user in _USERS_REFUSED:
        says.append(
            f"admin_username must be up to 32 small letters, digits, hyphens and underscores, and "
            f"none of {', '.join(sorted(_USERS_REFUSED))}; not '{user}'."
        )
    if not re.match(r"(ssh-(rsa|ed25519)) [A-Za-z0-9+/]+", options["ssh_public_key"].strip()):
        says.append("ssh_public_key must be an OpenSSH public key of type ssh-rsa or ssh-ed25519.")
    return says


def broken_network(options: dict[str, Any]) -> list[str]:
    """Sentences about the options of the fleet's network; puts ranges into one form.

    Args:
        options: ``fleet``, ``ssh_source_ranges`` and ``address_prefix``.
    """
    says = naming("x", {OWN_LABEL: options["fleet"] or ""}, "tags")
    options["ssh_source_ranges"], wrong = ranges(options["ssh_source_ranges"] or [])
    return [*says, *wrong, *ranges([options["address_prefix"]])[1]]
