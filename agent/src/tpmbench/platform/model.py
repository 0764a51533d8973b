"""The words of platform evidence: what was observed, and what is concluded from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Tee = Literal["sev-snp", "sev", "tdx", "none", "unknown"]
TpmLocation = Literal["hypervisor", "paravisor", "discrete", "firmware", "software", "unknown"]


@dataclass(frozen=True)
class Evidence:
    """One observation.

    Attributes:
        source: Where it was read.
        value: What was read there; None where it is absent or unreadable.
        says: What the value, or its absence, tells of the TEE or the TPM.
    """

    source: str
    value: str | None
    says: str


@dataclass(frozen=True)
class TpmStrings:
    """What the opened TPM says of itself, and the way to it.

    Attributes:
        manufacturer: TPM_PT_MANUFACTURER as text, for instance ``IFX``.
        vendor_string: TPM_PT_VENDOR_STRING_1 to 4 as text.
        firmware_version: TPM_PT_FIRMWARE_VERSION_1 and 2, as four dotted numbers.
        tcti: The transport, for instance ``device:/dev/tpmrm0``.
    """

    manufacturer: str
    vendor_string: str
    firmware_version: str
    tcti: str


@dataclass(frozen=True)
class Platform:
    """What the machine is, concluded from evidence.

    Attributes:
        tee: The trusted execution environment that the host runs in.
        tpm_location: Where the TPM lives.
        vmpl: The SEV-SNP privilege level that the kernel runs at; None where no source tells.
        disagreements: One sentence for each question on which sources contradict each other.
    """

    tee: Tee
    tpm_location: TpmLocation
    vmpl: int | None = None
    disagreements: list[str] = field(default_factory=list)


def as_document(evidence: list[Evidence], platform: Platform) -> dict[str, Any]:
    """Returns the ``platform`` object of the result document."""
    return {
        "tee": platform.tee,
        "tpm_location": platform.tpm_location,
        "evidence": [asdict(item) for item in evidence],
    }
