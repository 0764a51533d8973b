"""What the user asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tpmbench.outcome import UsageError
from tpmbench.platform import clock_resolution_ns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tpmbench.measuring import Settings
    from tpmbench.scenarios import Scenario
    from tpmbench.tpmkeys import Owner
    from tpmtls.public import Curve

ML_DSA = "mldsa65"
"""Stands where a curve's name does, for a key that has none."""


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Attributes:
        tcti: the transport.
        further: other transports to the same TPM, which are measured beside it.
        curves: curves to measure.
        post_quantum: measure handshake-new with an ML-DSA-65 key too, where that is possible.
        scenarios: scenarios to measure.
        handle: the persistent handle to use, or None for the first free one.
        settings: how many samples, and how.
        seed: seed of the order of turns.
        run_id: the run.
        host: the host's name.
        state_directory: where the journal is.
        owner: the owner hierarchy's auth value; None where none was given.
        metadata: whether a cloud's metadata service may be asked.
        simulated: the user says that the device alters timings on purpose.
    """

    tcti: str
    further: Sequence[str]
    curves: Sequence[Curve]
    post_quantum: bool
    scenarios: Sequence[Scenario]
    handle: int | None
    settings: Settings
    seed: int
    run_id: str
    host: str
    state_directory: Path
    owner: Owner | None
    metadata: Literal["auto", "never"]
    simulated: bool

    def check(self) -> None:
        """Check that it makes sense as a whole.

        Raises:
            UsageError: it does not.
        """
        ways = [self.tcti, *self.further]
        twice = next((way for way in ways if ways.count(way) > 1), None)
        if twice is not None:
            raise UsageError(f"--tcti {twice} is given twice; give each way to the TPM once")
        if self.further and not self.side_by_side:
            raise UsageError(
                "--tcti is given more than once, and nothing that is asked for is measured over "
                "several transports; ask for the suites device or messages, or for raw-signing"
            )

    @property
    def side_by_side(self) -> list[Scenario]:
        """The scenarios that are measured over every transport."""
        return [scenario for scenario in self.scenarios if scenario.side_by_side]

    def document(self) -> dict[str, Any]:
        """Return the ``settings`` of a result document."""
        settings = self.settings
        return {
            "scenarios": [scenario.name for scenario in self.scenarios],
            "curves": [curve.name for curve in self.curves] + [ML_DSA] * self.post_quantum,
            "handle": "auto" if self.handle is None else f"{self.handle:#010x}",
            "signatures": settings.signatures,
            "connections": settings.connections,
            "warmup": settings.warmup,
            "block": settings.block,
            "operations": settings.operations,
            "max_duration_ns": settings.max_duration_ns,
            "seed": self.seed,
            "deadline_ns": round(settings.deadline * 1e9),
            "clock_resolution_ns": clock_resolution_ns(),
        }
