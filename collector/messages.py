"""Signing and verifying by message size, with BenchmarkDotNet's figures.

Whether size matters is decided by a straight line through the durations by size (ordinary
least squares) and the test of its slope. The line needs only each size's number of samples,
mean and standard deviation, so the samples themselves may be gone.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy import special

from collector import labels, text
from collector.imported_messages import message_rows
from collector.imported_messages import title as imported_title
from collector.names import host_title
from collector.plots import Curve, Lines, lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from collector.load import Imported
    from collector.published import Published
    from collector.stats import Distribution
    from collector.summarise import Host

Cells = dict[str, Any]

# A slope is called one below this probability: the complement of BenchmarkDotNet's 99.9 %.
P_LIMIT = 0.001
_ARM = re.compile(r"(?P<kind>[a-z-]+)-(?P<size>[0-9]{1,9})")
# What is drawn: the hash inside the span, as the published study has it.
_DRAWN = ("tpm", "software")


@dataclass(frozen=True, slots=True)
class Slope:
    """A straight line's slope through durations by message size.

    Attributes:
        ns_per_kib: By which 1024 bytes more make it longer, in nanoseconds.
        error_ns_per_kib: Its standard error.
        p: Probability of a slope as far from 0 where size does not matter.
    """

    ns_per_kib: float
    error_ns_per_kib: float
    p: float


@dataclass(frozen=True, slots=True)
class Messages:
    """One host's figures on one curve.

    Attributes:
        name: Unique in the report; usable as an identifier.
        where: Host and curve.
        emulated: True where the figures say nothing about hardware.
        rows: A row for each operation, key and size, as text by column.
        slopes: For each operation and key, whether size matters.
        plots: Mean by size, by the scenario's name.
        unusable: Scenarios that are not valid, with status and reason.
    """

    name: str
    where: str
    emulated: bool
    rows: list[Cells]
    slopes: list[Cells]
    plots: list[tuple[str, Lines]]
    unusable: list[Cells]


def slope(by_size: dict[int, Distribution]) -> Slope | None:
    """Fits the line; None with fewer than two sizes, or too few samples.

    Args:
        by_size: Statistics of the durations, by the message's size in bytes.
    """
    groups = [(size, one.n, one.mean, one.stddev or 0.0) for size, one in by_size.items()]
    total = sum(n for _, n, _, _ in groups)
    if len(groups) < 2 or total < 3:
        return None
    middle = sum(n * size for size, n, _, _ in groups) / total
    mean = sum(n * of for _, n, of, _ in groups) / total
    spread = sum(n * (size - middle) ** 2 for size, n, _, _ in groups)
    found = sum(n * (size - middle) * (of - mean) for size, n, of, _ in groups) / spread
    within = sum((n - 1) * deviation**2 for _, n, _, deviation in groups)
    off = sum(n * (of - mean - found * (size - middle)) ** 2 for size, n, of, _ in groups)
    error = math.sqrt((within + off) / (total - 2) / spread)
    if error == 0.0:
        p = 1.0 if found == 0.0 else 0.0
    else:
        p = float(2 * special.stdtr(total - 2, -abs(found) / error))
    return Slope(found * 1024, error * 1024, p)


def _us(value_ns: float | None) -> str:
    return "-" if value_ns is None else text.significant(value_ns / 1e3)


def _published(published: Iterable[Published]) -> dict[tuple[str, str, str], dict[str, str]]:
    """Published figures by scenario, curve and arm, then by statistic."""
    found: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for one in published:
        if one.scenario.startswith("message-size-"):
            found[one.scenario, one.curve, one.arm][one.statistic] = f"{one.value} {one.unit}"
    return found


def _slope_row(scenario: str, kind: str, by_size: dict[int, Distribution]) -> Cells | None:
    found = slope(by_size)
    if found is None:
        return None
    return {
        "scenario": labels.title(labels.SCENARIOS, scenario),
        "key": labels.title(labels.MESSAGE_ARMS, kind),
        "slope": f"{found.ns_per_kib / 1e3:+.2f}",
        "error": f"{found.error_ns_per_kib / 1e3:.2f}",
        "p": f"{found.p:.2g}",
        "matters": found.p < P_LIMIT,
    }


def _on_curve(
    host: Host, curve: str, number: int, theirs: dict[tuple[str, str, str], dict[str, str]]
) -> Messages:
    rows: list[Cells] = []
    slopes: list[Cells] = []
    plots: list[tuple[str, Lines]] = []
    unusable: list[Cells] = []
    for scenario in host.scenarios:
        if (scenario.curve or "") != curve:
            continue
        title = labels.title(labels.SCENARIOS, scenario.name)
        if scenario.status != "valid":
            why = {"status": scenario.status, "reason": scenario.reason}
            unusable.append({"scenario": title} | why)
            continue
        by_kind: dict[str, dict[int, Distribution]] = defaultdict(dict)
        for arm in scenario.arms:
            parts = _ARM.fullmatch(arm.name)
            if parts is not None and arm.durations is not None:
                by_kind[parts["kind"]][int(parts["size"])] = arm.durations
        for kind in sorted(by_kind, key=lambda name: labels.rank(labels.MESSAGE_ARMS, name)):
            for size, found in sorted(by_kind[kind].items()):
                printed = theirs.get((scenario.name, curve, f"{kind}-{size}"), {})
                rows.append(
                    {
                        "scenario": title,
                        "key": labels.title(labels.MESSAGE_ARMS, kind),
                        "size": str(size),
                        "n": str(found.n),
                        "mean": _us(found.mean),
                        "error": _us(found.error),
                        "stddev": _us(found.stddev),
                        "median": _us(found.median.value),
                        "published": printed.get("mean", ""),
                    }
                )
            row = _slope_row(scenario.name, kind, by_kind[kind])
            slopes += [row] if row else []
        curves = [
            Curve(
                labels.title(labels.MESSAGE_ARMS, kind),
                sorted((size, found.mean / 1e6) for size, found in by_kind[kind].items()),
                place,
            )
            for place, kind in enumerate(_DRAWN)
            if len(by_kind.get(kind, {})) > 1
        ]
        plot = lines(curves)
        plots += [(title, plot)] if plot else []
    where = f"{host_title(host)} {labels.curve_title(curve or None)}".strip()
    name = f"messages-{number}"
    return Messages(name, where, host.emulated, rows, slopes, plots, unusable)


def _printed(figures: dict[str, dict[str, Any]], statistic: str) -> str:
    """An imported figure, as it was printed; its unit where that is not the column's."""
    figure = figures.get(statistic)
    if figure is None:
        return "-"
    micro = figure["unit"] in {"us", "\u03bcs", "\u00b5s"}
    return str(figure["printed"] if micro else f"{figure['printed']} {figure['unit']}")


def _of_import(one: Imported, number: int) -> Iterator[Messages]:
    """An imported table's figures by curve, drawn like measured ones and never put with them."""
    found = message_rows(one.document)
    for curve in dict.fromkeys(row.curve for row in found):
        rows: list[Cells] = []
        means: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for row in (row for row in found if row.curve == curve):
            figures = row.figures
            samples = next(iter(figures.values()))["samples"]
            key = labels.title(labels.MESSAGE_ARMS, row.key) or "not stated"
            statistics = ("mean", "error", "stddev", "median")
            rows.append(
                {
                    "scenario": labels.title(labels.SCENARIOS, row.scenario),
                    "key": key,
                    "size": str(row.size),
                    "n": text.count(samples),
                    **{name: _printed(figures, name) for name in statistics},
                    "published": "",
                }
            )
            if "value_ns" in figures.get("mean", {}):
                means[row.scenario, row.key].append((row.size, figures["mean"]["value_ns"] / 1e6))
        plots = []
        for scenario in dict.fromkeys(row.scenario for row in found):
            curves = [
                Curve(labels.title(labels.MESSAGE_ARMS, key) or "not stated", sorted(points), place)
                for place, key in enumerate((*_DRAWN, ""))
                if len(points := means[scenario, key]) > 1
            ]
            plot = lines(curves)
            plots += [(labels.title(labels.SCENARIOS, scenario), plot)] if plot else []
        where = f"{imported_title(one)} {labels.curve_title(curve or None)}".strip()
        rows.sort(key=lambda row: (row["scenario"], row["key"], int(row["size"])))
        yield Messages(f"messages-i{number}-{curve}", where, False, rows, [], plots, [])


def messages(
    hosts: Iterable[Host], published: Sequence[Published], imported: Iterable[Imported] = ()
) -> list[Messages]:
    """The section on message sizes; empty where no host has that suite, and no import."""
    theirs = _published(published)
    having = [host.of_suite("messages") for host in hosts]
    pairs = [
        (host, curve)
        for host in having
        for curve in dict.fromkeys(scenario.curve or "" for scenario in host.scenarios)
    ]
    found = [_on_curve(host, curve, number, theirs) for number, (host, curve) in enumerate(pairs)]
    for number, one in enumerate(sorted(imported, key=lambda one: one.path)):
        found.extend(_of_import(one, number))
    return found
