"""TPMs by model: what makes two hosts' TPMs the same thing to a reader, and how many have it.

A model is what the TPM says of itself (manufacturer, vendor string, firmware) and the way
commands take to it (the kernel's driver where the evidence names it, the kind of TCTI).
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.names import MARK, SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from collector.summarise import Host

Cells = dict[str, Any]

# The agent's name for the evidence that holds the driver, and drivers whose bus is known.
_DRIVER = "kernel driver of the TPM"
BUSES = {
    "tpm_tis_spi": "SPI",
    "tpm_tis_i2c": "I2C",
    "tpm_tis_i2c_cr50": "I2C",
    "tpm_tis": "TIS, memory-mapped",
    "tpm_crb": "CRB, memory-mapped",
    "tpm_ftpm_tee": "OP-TEE",
    "tpm_ibmvtpm": "IBM vTPM channel",
}
_WORD = re.compile(r"[A-Za-z0-9_]+")
_RAW = ("raw-signing", "tpm-persistent")


@dataclass(frozen=True, slots=True, order=True)
class Model:
    """One model of TPM and the way to it. Emulated ones sort last.

    Attributes:
        emulated: True where its figures say nothing about hardware.
        maker: Manufacturer and vendor string.
        firmware: Its firmware's version.
        interface: The bus or driver, where known, and the transport.
        tpm_location: The document's word for where it lives.
        simulated_device: Whether it is slowed on purpose.
    """

    emulated: bool
    maker: str
    firmware: str
    interface: str
    tpm_location: str
    simulated_device: bool

    @classmethod
    def of(cls, host: Host) -> Model:
        """The model of a host's TPM, over its first transport."""
        tpm = host.document["tpm"]
        return cls(
            emulated=host.emulated,
            maker=" ".join(f"{tpm['manufacturer']} {tpm['vendor_string']}".split()),
            firmware=tpm["firmware_version"],
            interface=interface(host),
            tpm_location=host.tpm_location,
            simulated_device=bool(tpm["simulated_device"]),
        )

    @property
    def title(self) -> str:
        """The maker's words; an emulated one says so."""
        marks = [MARK] if self.tpm_location == "software" else []
        marks += [SIMULATED] if self.simulated_device else []
        return f"{self.maker} ({', '.join(marks)})" if marks else self.maker


def interface(host: Host) -> str:
    """On which bus a host's TPM is, where known, and over what it was reached."""
    tcti = host.document["tpm"]["tcti"]
    # Sockets differ by port from host to host; a device's path says which of the two it is.
    reached = tcti if tcti.startswith("device:") else tcti.partition(":")[0]
    found = [
        seen["value"]
        for seen in host.document["platform"]["evidence"]
        if seen["source"] == _DRIVER and seen["value"]
    ]
    driver = _WORD.match(found[0]) if found else None
    if driver is None:
        return str(reached)
    bus = BUSES.get(driver[0])
    return f"{bus} ({driver[0]}), {reached}" if bus else f"{driver[0]}, {reached}"


def by_model(hosts: Iterable[Host]) -> dict[Model, list[Host]]:
    """Hosts by the model of their TPM, hardware first."""
    found: dict[Model, list[Host]] = defaultdict(list)
    for host in hosts:
        found[Model.of(host)].append(host)
    return {model: found[model] for model in sorted(found)}


def _signing(host: Host) -> dict[str, float]:
    """Median of a signature with a persistent key, in nanoseconds, by curve."""
    return {
        scenario.curve or "": arm.durations.median.value
        for scenario in host.scenarios
        if (scenario.name, scenario.status) == (_RAW[0], "valid")
        for arm in scenario.arms
        if arm.name == _RAW[1] and arm.durations is not None
    }


def median_by_host(values: Iterable[tuple[str, float]]) -> float:
    """Median of the hosts' values; a host with several runs counts once, with their median."""
    by_host: dict[str, list[float]] = defaultdict(list)
    for host, value in values:
        by_host[host].append(value)
    return statistics.median(statistics.median(runs) for runs in by_host.values())


def model_rows(hosts: Iterable[Host]) -> list[Cells]:
    """A row for each model: what it is, which hosts have it, and what a signature takes there."""
    rows = []
    for model, members in by_model(hosts).items():
        signing: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for host in members:
            for curve, value in _signing(host).items():
                signing[curve].append((host.host, value))
        curves = sorted(signing, key=lambda name: labels.rank(labels.CURVES, name))
        names = sorted({host.host for host in members})
        rows.append(
            {
                "model": model.title,
                "emulated": model.emulated,
                "firmware": model.firmware,
                "interface": model.interface,
                "place": labels.title(labels.TPM_LOCATIONS, model.tpm_location),
                "number": str(len(names)),
                "hosts": names,
                "signing": ", ".join(
                    f"{labels.curve_title(curve)} {text.ms(median_by_host(signing[curve]))}"
                    for curve in curves
                )
                or "-",
            }
        )
    return rows
