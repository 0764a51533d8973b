"""Timings that are the transport's doing: small writes that wait for a delayed acknowledgement.

Nagle's algorithm (RFC 896) holds a small segment back until the one before is acknowledged, and
the other side delays its acknowledgement (RFC 1122, 4.2.3.2), on Linux by 40 ms at the least. A
TCTI that writes a command in pieces then takes 40 to 44 ms for each command, or twice that,
whatever the TPM has to do.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

QUANTA_NS = ((38_000_000, 47_000_000), (78_000_000, 92_000_000))
"""Where a command's time lies when one acknowledgement was waited for, or two."""

_FEWEST = 3  # operations; fewer are no pattern
_SHARE = 0.6  # of the operations lie on one quantum
_MATTERS = 0.05  # of an operation's time
FLOOR = "floor"


def quantum_ns(per_command_ns: Sequence[float]) -> float | None:
    """Return the quantum on which timings of different operations sit, or None.

    Args:
        per_command_ns: the median time of a command, operation by operation, in nanoseconds.

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


def flag(scenarios: list[dict[str, Any]], tcti: str) -> None:
    """Make those scenarios invalid whose times the transport has made, with the reason.

    Args:
        scenarios: of one transport, as in a result document; changed in place.
        tcti: the transport, for the remedy.
    """
    medians = {}
    for index, scenario in enumerate(scenarios):
        floor = next((arm for arm in scenario["arms"] if arm["name"] == FLOOR), None)
        if floor and floor["tpm_commands"]:
            each = floor["tpm_commands"] / len(floor["samples_ns"])
            medians[index] = (statistics.median(floor["samples_ns"]), each)
    quantum = quantum_ns([median / each for median, each in medians.values()])
    if quantum is None:
        return
    for index, (median, each) in medians.items():
        if quantum * each >= _MATTERS * median:
            scenarios[index]["status"] = "invalid"
            scenarios[index]["reason"] = reason(quantum, tcti)


def reason(quantum: float, tcti: str) -> str:
    """Say what was seen on a transport, and the remedy."""
    return (
        f"transport artefact: every command takes about {quantum / 1e6:.0f} ms over {tcti} "
        "whatever it does, which is a delayed TCP acknowledgement and not the TPM; use the raw "
        "swtpm protocol (--tcti swtpm:...), a device, or a relay that sets TCP_NODELAY"
    )
