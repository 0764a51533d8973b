"""Timings that are the transport's doing: small writes that wait for a delayed acknowledgement.

Nagle's algorithm (RFC 896) holds a small segment back until the one before is acknowledged, and
the other side delays its acknowledgement (RFC 1122, 4.2.3.2), on Linux by 40 ms at the least. A
TCTI that writes a command in pieces then takes 40 to 44 ms for each command, or twice that,
whatever the TPM has to do.
"""

from __future__ import annotations

import statistics
import struct
import time
from typing import TYPE_CHECKING, Any

from tpmbench.platform.doubts import Warning  # noqa: A004  # the result document's own word
from tpmtls import commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpmtls.transport import Transport

QUANTA_NS = ((38_000_000, 47_000_000), (78_000_000, 92_000_000))
"""Where a command's time lies when one acknowledgement was waited for, or two."""

_FEWEST = 3  # operations; fewer are no pattern
_SHARE = 0.6  # of the operations lie on one quantum
_MATTERS = 0.05  # of an operation's time
_OPERATION_ARM = "floor"

# Commands that take a TPM next to nothing, and differ in what they ask of it.
_CHEAP = (
    ("TPM2_GetCapability", struct.pack(">III", commands.CAP_TPM_PROPERTIES, 0x100, 1)),
    ("TPM2_GetRandom", struct.pack(">H", 8)),
    ("TPM2_PCR_Read", struct.pack(">IHB3s", 1, 0x000B, 3, b"\x01\0\0")),
)
_PROBES = 5  # of each


def can_have(tcti: str) -> bool:
    """Tell whether there may be TCP on the way: to a device there is none."""
    return tcti.partition(":")[0] != "device"


def quantum_ns(per_command_ns: Sequence[float]) -> float | None:
    """Return the quantum on which timings of different operations sit, or None.

    Args:
        per_command_ns: the typical time of a command, operation by operation, in nanoseconds.

    Returns:
        The median of those on the quantum, in nanoseconds.
    """
    if len(per_command_ns) < _FEWEST:
        return None
    # Not one operation may be faster: on a sound transport the cheapest takes no such time.
    for low, high in QUANTA_NS:
        on_it = [item for item in per_command_ns if low <= item <= high]
        if min(per_command_ns) >= low and len(on_it) >= _SHARE * len(per_command_ns):
            return statistics.median(on_it)
    return None


def of_operations(scenarios: Sequence[dict[str, Any]], tcti: str) -> float | None:
    """Return the quantum on which the device suite's operations sit, in nanoseconds, or None.

    Args:
        scenarios: of one transport, as in a result document.
        tcti: the transport.
    """
    if not can_have(tcti):
        return None
    return quantum_ns(
        [
            median / each
            for scenario in scenarios
            if scenario["curve"] is None
            for name, median, each in _timed(scenario)
            if name == _OPERATION_ARM
        ]
    )


def probe(transport: Transport) -> float | None:
    """Return the quantum on which commands sit that take a TPM next to nothing, or None.

    Args:
        transport: one that has been used: TCP acknowledges at once in the beginning.

    Returns:
        Nanoseconds.

    Raises:
        TpmTlsError: the TPM does not answer.
    """
    if not can_have(transport.tcti):
        return None
    told = []
    for name, parameters in _CHEAP:
        command = commands.marshal(name, parameters=parameters)
        samples = []
        for _ in range(_PROBES):
            started = time.perf_counter_ns()
            transport.exchange(command, name)  # whatever the answer, it went there and back
            samples.append(time.perf_counter_ns() - started)
        # The quickest but one: a busy machine only adds, and one quick answer is no pattern.
        told.append(sorted(samples)[1])
    return quantum_ns(told)


def flag(scenarios: Sequence[dict[str, Any]], quantum: float, tcti: str) -> None:
    """Make those scenarios invalid whose times the transport has made, with the reason.

    Args:
        scenarios: of one transport, as in a result document; changed in place.
        quantum: what each command takes, in nanoseconds.
        tcti: the transport, for the remedy.
    """
    for scenario in scenarios:
        if scenario["status"] == "valid" and any(
            quantum * each >= _MATTERS * median for _, median, each in _timed(scenario)
        ):
            scenario["status"] = "invalid"
            scenario["reason"] = f"transport artefact: {_seen(quantum, tcti)}; {_REMEDY}"


def warning(quantum: float, tcti: str) -> Warning:
    """Return the result document's warning of what was seen on a transport."""
    said = _seen(quantum, tcti)
    return Warning(
        "transport-artefact", f"{said[0].upper()}{said[1:]}.", f"{_REMEDY[0].upper()}{_REMEDY[1:]}."
    )


def _timed(scenario: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield an arm's name, its median in nanoseconds, and the commands in each sample.

    Arms that ask the TPM in some samples only, as resumed connections do, are passed over.
    """
    for arm in scenario["arms"]:
        each = (arm["tpm_commands"] or 0) / max(1, len(arm["samples_ns"]))
        if each >= 1:
            yield arm["name"], statistics.median(arm["samples_ns"]), each


def _seen(quantum: float, tcti: str) -> str:
    return (
        f"every command takes about {quantum / 1e6:.0f} ms over {tcti} "
        "whatever it does, which is a delayed TCP acknowledgement and not the TPM"
    )


_REMEDY = (
    "use the raw swtpm protocol (--tcti swtpm:...), a device, or a relay that sets TCP_NODELAY"
)
