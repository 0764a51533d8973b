"""Evidence that the TPM gives of itself: its maker's strings, its transport, its driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tpmbench.platform import sources
from tpmbench.platform.model import Evidence, TpmLocation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpmbench.platform.host import Host
    from tpmbench.platform.model import TpmStrings

# Also behind a wrapper (pcap:swtpm:port=1) or as a library's name (libtss2-tcti-mssim.so.0).
SOFTWARE_TCTI = r"(^|[:-])(swtpm|mssim|libtpms)\b"
VIRTUAL_DEVICE = "virtual device without a driver"
_PROVES_NOTHING = "not readable; that proves nothing"


class Maker(NamedTuple):
    """A maker of TPMs.

    Attributes:
        name: Its name.
        places: Where its TPMs may live.
        usual: Where they live unless something else is known; None where that cannot be told.
    """

    name: str
    places: frozenset[TpmLocation]
    usual: TpmLocation | None = None


def _maker(name: str, *places: TpmLocation, usual: TpmLocation | None = None) -> Maker:
    return Maker(name, frozenset(places), usual)


# TCG TPM Vendor ID Registry, Family 1.2 and 2.0, version 1.08, table 2 (capabilities vendor ID);
# AMZN is not in it: NitroTPM calls itself so (smallstep/crypto, pull request 292).
# Makers of whom both chips and firmware are known are left out.
MAKERS: dict[str, Maker] = {
    "AMD": _maker("AMD firmware TPM", "firmware"),
    "AMZN": _maker("Amazon NitroTPM", "hypervisor"),
    "ATML": _maker("Atmel", "discrete"),
    "GOOG": _maker("Google vTPM", "hypervisor", "paravisor", usual="hypervisor"),
    "IBM": _maker(
        "IBM: libtpms, as in swtpm and QEMU",
        "software",
        "hypervisor",
        "paravisor",
        usual="software",
    ),
    "IFX": _maker("Infineon", "discrete"),
    "INTC": _maker("Intel PTT", "firmware"),
    "MSFT": _maker(
        "Microsoft: Hyper-V, Azure, or its reference code",
        "hypervisor",
        "paravisor",
        "firmware",
        "software",
    ),
    "NSG": _maker("NSING", "discrete"),
    "NSM": _maker("National Semiconductor", "discrete"),
    "NTC": _maker("Nuvoton", "discrete"),
    "NTZ": _maker("Nationz", "discrete"),
    "QCOM": _maker("Qualcomm firmware TPM", "firmware"),
    "SNS": _maker("Sinosun", "discrete"),
    "STM": _maker("STMicroelectronics", "discrete"),
    "WEC": _maker("Winbond", "discrete"),
}

# Names of the kernel's drivers, drivers/char/tpm.
_DRIVERS = (
    ("^tpm-svsm$", "served by an SVSM, in the guest and below its kernel"),
    ("ftpm", "served by a trusted application of the firmware"),
    ("^tpm_ibmvtpm$", "served by the hypervisor of a POWER machine"),
    (f"^{VIRTUAL_DEVICE}$", "made by a program on this machine (vtpm_proxy)"),
    ("", "an interface that chips, firmware and hypervisors all offer"),
)


def observe(host: Host, tpm: TpmStrings | None) -> Iterator[Evidence]:
    """Says what the opened TPM and its driver tell.

    Args:
        host: The host.
        tpm: The TPM's strings; None where no TPM could be opened.

    Yields:
        One piece of evidence for each source.
    """
    if tpm is None:
        for source in (
            sources.TCTI,
            sources.TPM_DRIVER,
            sources.TPM_MANUFACTURER,
            sources.TPM_VENDOR,
            sources.TPM_FIRMWARE,
        ):
            yield Evidence(source, None, "no TPM was opened")
        return
    software = re.search(SOFTWARE_TCTI, tpm.tcti) is not None
    yield Evidence(
        sources.TCTI,
        tpm.tcti,
        "an emulator: its times say nothing about hardware" if software else "the way to the TPM",
    )
    yield _driver(host, tpm.tcti, software=software)
    manufacturer = _clean(tpm.manufacturer)
    maker = MAKERS.get(manufacturer or "")
    yield Evidence(
        sources.TPM_MANUFACTURER,
        manufacturer,
        maker.name if maker else "a maker that tells nothing of where the TPM lives",
    )
    yield Evidence(sources.TPM_VENDOR, _clean(tpm.vendor_string), "the maker's name for the model")
    yield Evidence(sources.TPM_FIRMWARE, _clean(tpm.firmware_version), "the TPM's own version")


def _clean(text: str) -> str | None:
    return text.replace("\0", "").strip() or None


def _driver(host: Host, tcti: str, *, software: bool) -> Evidence:
    if software:
        return Evidence(sources.TPM_DRIVER, None, "none: this transport does not use the kernel's")
    number = re.search(r"/dev/tpm(?:rm)?(\d+)", tcti)
    chip = f"/sys/class/tpm/tpm{number[1] if number else 0}"
    try:
        value = host.path(f"{chip}/device/driver").readlink().name
    except OSError:
        # vtpm_proxy registers a chip without a parent device.
        try:
            virtual = "/virtual/" in str(host.path(chip).readlink())
        except OSError:
            virtual = False
        if not virtual:
            return Evidence(sources.TPM_DRIVER, None, _PROVES_NOTHING)
        value = VIRTUAL_DEVICE
    says = next(says for pattern, says in _DRIVERS if re.search(pattern, value))
    return Evidence(sources.TPM_DRIVER, value, says)
