"""Figures that others published, to stand beside the measured ones."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data" / "published.csv"


@dataclass(frozen=True, slots=True)
class Published:
    """One published figure, as it was printed.

    Attributes:
        device: The machine, in the source's words.
        short: The machine and the source in a few words.
        scenario: Our scenario's name; ``device`` for the operations of a TPM.
        curve: The curve; empty for those.
        arm: Our arm's name; for the operations of a TPM their name in wolfTPM's bench.
        statistic: ``median``, ``mean``, ``p95``, ``rate``, ``signatures``, ``resumed``,
            ``error`` or ``stddev``.
        value: The figure as printed.
        unit: Its unit.
        source: Where it was published.
        in_seed: Whether the source is one of the documents the project comes from.
        notes: What else the source says of it.
    """

    device: str
    short: str
    scenario: str
    curve: str
    arm: str
    statistic: str
    value: str
    unit: str
    source: str
    in_seed: bool
    notes: str


def figures(path: Path = DATA) -> list[Published]:
    """Reads the table of published figures, in its order."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Published(**{**row, "in_seed": row["in_seed"] == "yes"})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        ]
