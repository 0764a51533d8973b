"""What VMs of this project share in every cloud: labels, and names that they may have."""

from __future__ import annotations

import ipaddress
import re

OWN_LABEL = "tpm-fleet-bench"  # on everything of ours; its value is the fleet's name
RUN_LABEL = "tpm-fleet-bench-run"

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9_-]{0,63}")


def naming(name: str, labels: dict[str, str], field: str = "labels") -> list[str]:
    """Sentences about a VM's name and labels; none where they will do.

    Args:
        name: of the VM.
        labels: of the VM.
        field: what the cloud calls labels.
    """
    says = []
    if not NAME.fullmatch(name):
        says.append(
            f"name must be up to 63 small letters, digits and hyphens, begin with a letter and "
            f"not end with a hyphen; not '{name}'."
        )
    if not labels.get(OWN_LABEL):
        says.append(
            f"{field} must name the fleet under '{OWN_LABEL}': a sweep finds leftovers by it."
        )
    says += [
        f"{field.removesuffix('s')} {key}={value} must be of up to 63 small letters, digits, "
        "hyphens and underscores."
        for key, value in labels.items()
        if not (NAME.fullmatch(key.replace("_", "-")) and LABEL.fullmatch(value))
    ]
    return says


def not_ours(name: str, place: str, fleet: str | None) -> str:
    """The sentence about a VM that has the name and is another's.

    Args:
        name: of the VM.
        place: zone or region.
        fleet: whose it is; None or empty: this project made it not.
    """
    owner = f"it belongs to the fleet {fleet}" if fleet else "this project made it not"
    return (
        f"There is a VM {name} in {place}, and {owner}; it is left alone. Choose another name or "
        "fleet."
    )


def ranges(texts: list[str]) -> tuple[list[str], list[str]]:
    """Ranges of addresses in the one form that clouds answer with, and sentences about the others.

    Two spellings of a range would differ, and be changed, at each run.

    Args:
        texts: CIDR; a single address is a range of one.
    """
    found, says = [], []
    for text in texts:
        try:
            found.append(str(ipaddress.ip_network(text)))
        except ValueError as error:
            says.append(f"{text} is no range of addresses: {error}.")
    return found, says
