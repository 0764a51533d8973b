"""Names of hosts and of kinds of hosts, with the mark that an emulated TPM carries everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collector import labels

if TYPE_CHECKING:
    from collector.fleet import Kind
    from collector.summarise import Host

MARK = labels.TPM_LOCATIONS["software"]
SIMULATED = "slowed on purpose"


def kind_title(kind: Kind) -> str:
    """Names a kind of host; an emulated one says so."""
    place = labels.title(labels.TPM_LOCATIONS, kind.tpm_location)
    parts = [place if kind.tpm_location == "software" else f"{place} TPM"]
    if kind.simulated_device:
        parts.append(SIMULATED)
    if kind.tee not in {"none", "unknown"}:
        parts.append(labels.title(labels.TEES, kind.tee))
    return ", ".join(parts)


def host_title(host: Host) -> str:
    """Names a host; one with an emulated TPM says so."""
    marks = [MARK] if host.tpm_location == "software" else []
    if host.document["tpm"]["simulated_device"]:
        marks.append(SIMULATED)
    return f"{host.host} ({', '.join(marks)})" if marks else host.host
