"""What the report's plots show: the samples of each scenario, and the ratios of arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector import fleet, labels, text
from collector.fleet import FleetRatio, Kind
from collector.names import host_title, kind_title
from collector.plots import Block, Plot, Row, place
from collector.ratios import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.summarise import Host


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with the rows of the table beside it.

    Attributes:
        name: Unique in the report; usable as an identifier.
        title: What it is of: a scenario's title, or empty.
        plot: The plot.
        rows: The same figures, as text by column.
        of: ``samples``, ``medians`` (of hosts) or ``ratios``.
    """

    name: str
    title: str
    plot: Plot
    rows: list[dict[str, str]]
    of: str


def _series(arm: str) -> int:
    place, _, _ = labels.arm_rank(arm)
    return place % 8 if place < len(labels.ARMS) else 7


def _sample_blocks(hosts: Iterable[Host], name: str) -> tuple[list[Block], list[dict[str, str]]]:
    blocks: list[Block] = []
    rows: list[dict[str, str]] = []
    for host in hosts:
        for scenario in host.scenarios:
            if scenario.name != name or scenario.status != "valid":
                continue
            heading = f"{host_title(host)}  {labels.curve_title(scenario.curve)}".rstrip()
            marks = []
            for arm in scenario.arms:
                found = arm.durations
                if found is None:
                    continue
                arm_title = labels.arm_title(arm.name)
                marks.append(
                    Row(
                        label=arm_title,
                        text=f"{text.ms(found.median.value)} ms",
                        estimate=found.median,
                        shape="bar",
                        dots=() if arm.samples is None else [float(value) for value in arm.samples],
                        tail=found.p95,
                        series=_series(arm.name),
                    )
                )
                rows.append(
                    {
                        "where": host_title(host),
                        "curve": labels.curve_title(scenario.curve),
                        "arm": arm_title,
                        "n": str(found.n),
                        "min": text.ms(found.minimum),
                        "q1": text.ms(found.q1),
                        "median": text.ms(found.median.value),
                        "q3": text.ms(found.q3),
                        "p95": text.ms(found.p95),
                        "p99": text.ms(found.p99),
                        "max": text.ms(found.maximum),
                    }
                )
            if marks:
                blocks.append(Block(heading, marks))
    return blocks, rows


def _median_blocks(
    figures: Iterable[fleet.Figure], name: str
) -> tuple[list[Block], list[dict[str, str]]]:
    gathered: dict[str, list[Row]] = {}
    rows: list[dict[str, str]] = []
    for figure in figures:
        if figure.scenario != name:
            continue
        where, curve = kind_title(figure.kind), labels.curve_title(figure.curve)
        arm = labels.arm_title(figure.arm)
        row = Row(
            label=arm,
            text=f"{text.ms(figure.median.value)} ms",
            estimate=figure.median,
            shape="bar",
            dots=figure.medians[:: max(1, len(figure.medians) // 400)],
            series=_series(figure.arm),
        )
        gathered.setdefault(f"{where}  {curve}".rstrip(), []).append(row)
        rows.append(
            {
                "where": where,
                "curve": curve,
                "arm": arm,
                "n": str(figure.hosts),
                "min": text.ms(figure.medians[0]),
                "median": text.ms(figure.median.value),
                "max": text.ms(figure.medians[-1]),
            }
        )
    return [Block(heading, marks) for heading, marks in gathered.items()], rows


def distributions(
    hosts: Sequence[Host], figures: Sequence[fleet.Figure], *, each_host: bool
) -> list[Figure]:
    """One plot for each scenario: all samples of each host, or all hosts' medians."""
    names = sorted(
        {figure.scenario for figure in figures},
        key=lambda name: labels.rank(labels.SCENARIOS, name),
    )
    found: list[Figure] = []
    for number, name in enumerate(names):
        blocks, rows = _sample_blocks(hosts, name) if each_host else _median_blocks(figures, name)
        plot = place(blocks)
        if plot is not None:
            of = "samples" if each_host else "medians"
            title = labels.title(labels.SCENARIOS, name)
            found.append(Figure(f"distribution-{number}", title, plot, rows, of))
    return found


def _ratio_rows(group: FleetRatio, hosts: Iterable[Host], *, several: bool) -> list[Row]:
    """A comparison's hosts as circles, and what they give together as a diamond."""
    series = _series(group.comparison.numerator)
    rows = [
        Row(
            label=host_title(host),
            text=f"{text.ratio(found.ratio.value)} {text.span(found.ratio)}",
            estimate=found.ratio,
            shape="circle",
            series=series,
        )
        for host in hosts
        if Kind.of(host) == group.kind
        for scenario in host.scenarios
        if (scenario.name, scenario.curve) == (group.scenario, group.curve)
        for found in scenario.ratios
        if found.comparison == group.comparison
    ]
    if several:
        rows.append(
            Row(
                label=f"{group.hosts} hosts: {kind_title(group.kind)}",
                text=f"{text.ratio(group.ratio.value)} {text.span(group.ratio)}",
                estimate=group.ratio,
                shape="diamond",
                series=series,
            )
        )
    return rows


def _ratio_heading(group: FleetRatio) -> str:
    arms = (group.comparison.numerator, group.comparison.denominator)
    title = labels.title(labels.SCENARIOS, group.scenario)
    if group.comparison != MAIN:
        title = f"{' / '.join(labels.arm_title(arm) for arm in arms)}: {title}"
    return f"{title}, {labels.curve_title(group.curve)}".removesuffix(", ")


def forests(
    hosts: Sequence[Host], together: Sequence[FleetRatio], *, each_host: bool
) -> list[Figure]:
    """A forest plot of TPM over software, and one of the other comparisons."""
    found: list[Figure] = []
    for name, wanted in (("ratio-tpm", True), ("ratio-other", False)):
        blocks: dict[str, list[Row]] = {}
        for group in together:
            if (group.comparison == MAIN) == wanted:
                several = group.hosts > 1 or not each_host
                rows = _ratio_rows(group, hosts if each_host else (), several=several)
                blocks.setdefault(_ratio_heading(group), []).extend(rows)
        plot = place([Block(heading, rows) for heading, rows in blocks.items()], reference=1.0)
        if plot is not None and blocks:
            found.append(Figure(name, "", plot, [], "ratios"))
    return found
