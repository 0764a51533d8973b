"""Many clients that want one TPM: the rate they reach together, and what bounds it.

A TPM carries out one command after another, so no number of clients gets more signatures
out of it than 1 / (median of raw signing): the ceiling.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector import labels, text
from collector.names import host_title
from collector.plots import Curve, Lines, lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from collector.summarise import Arm, Host, Scenario

SCENARIO = "handshake-concurrent"
_RAW = ("raw-signing", "tpm-persistent")


@dataclass(frozen=True, slots=True)
class Concurrency:
    """One host's scenario on one curve.

    Attributes:
        name: Unique in the report; usable as an identifier.
        where: Host and curve.
        emulated: True where the figures say nothing about hardware.
        ceiling: The ceiling, per second, as text; empty where raw signing was not measured.
        rows: A row for each arm, as text by column.
        plot: Rate against clients; None where there is nothing to draw.
    """

    name: str
    where: str
    emulated: bool
    ceiling: str
    rows: list[dict[str, str]]
    plot: Lines | None


def _ceiling(host: Host, curve: str | None) -> float | None:
    """Signatures per second that the TPM gives at most; None where that is not known."""
    for scenario in host.scenarios:
        if (scenario.name, scenario.curve, scenario.status) == (_RAW[0], curve, "valid"):
            for arm in scenario.arms:
                if arm.name == _RAW[1] and arm.durations and arm.durations.median.value > 0:
                    return 1e9 / arm.durations.median.value
    return None


def _of(arm: Arm) -> tuple[str, int | None]:
    """The way of holding the key, and how many clients there were."""
    base, clients = labels.at_once(arm.name) or (arm.name, None)
    return base, arm.clients or clients


def _row(arm: Arm, ceiling: float | None) -> dict[str, str]:
    base, clients = _of(arm)
    found = arm.durations
    rate = None if found is None else found.rate_per_s
    bounded = base == _RAW[1] and ceiling is not None and rate is not None
    return {
        "arm": labels.arm_title(base),
        "clients": text.count(clients),
        "n": "0" if found is None else str(found.n),
        "rate": text.rate(rate),
        "median": text.ms(None if found is None else found.median.value),
        "p99": text.ms(None if found is None else found.p99),
        "waited": text.percent(arm.waited_share),
        "of_ceiling": text.percent((rate or 0) / (ceiling or 1)) if bounded else "-",
    }


def _plot(scenario: Scenario, ceiling: float | None) -> Lines | None:
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for arm in scenario.arms:
        base, clients = _of(arm)
        if clients and arm.durations is not None and arm.durations.rate_per_s is not None:
            points[base].append((clients, arm.durations.rate_per_s))
    curves = [
        Curve(labels.arm_title(base), sorted(found), labels.arm_rank(base)[0] % 8)
        for base, found in points.items()
    ]
    return lines(curves, ceiling)


def _scenarios(hosts: Iterable[Host]) -> Iterator[tuple[Host, Scenario]]:
    for host in hosts:
        for scenario in host.scenarios:
            if scenario.name == SCENARIO and scenario.status == "valid":
                yield host, scenario


def concurrency(hosts: Iterable[Host]) -> list[Concurrency]:
    """The scenario on every host and curve where it is valid."""
    found = []
    for number, (host, scenario) in enumerate(_scenarios(hosts)):
        ceiling = _ceiling(host, scenario.curve)
        found.append(
            Concurrency(
                name=f"concurrency-{number}",
                where=f"{host_title(host)} {labels.curve_title(scenario.curve)}".strip(),
                emulated=host.emulated,
                ceiling="" if ceiling is None else text.rate(ceiling),
                rows=[_row(arm, ceiling) for arm in scenario.arms],
                plot=_plot(scenario, ceiling),
            )
        )
    return found
