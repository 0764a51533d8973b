"""The table of medians across machines and curves, and what could not be put into it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.names import kind_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.fleet import Figure, Kind
    from collector.load import Imported
    from collector.published import Published
    from collector.summarise import Host

# Wider than this the table shows kinds of hosts instead of hosts.
COLUMNS = 10


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a host's, a kind of host's, or a published machine's, on one curve.

    Attributes:
        source: ``host``, ``kind``, ``imported`` or ``published``.
        name: Whose figures they are.
        run: The run, where the report holds several; else empty.
        curve: The curve's title.
        emulated: True where the figures say nothing about hardware.
        hosts: For a kind: how many hosts.
        where: For imported and published figures: where they come from.
    """

    source: str
    name: str
    run: str
    curve: str
    emulated: bool
    hosts: int
    where: str


@dataclass(frozen=True, slots=True)
class Line:
    """One row: an arm of a scenario. Each cell is (state, text); state ``value`` holds a figure."""

    scenario: str
    arm: str
    first: bool
    span: int
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Columns and lines, in order of presentation; medians in milliseconds."""

    columns: tuple[Column, ...]
    lines: tuple[Line, ...]


_Cell = tuple[str, str]
_Key = tuple[str, str]


def _host_columns(hosts: Sequence[Host]) -> list[tuple[Column, dict[_Key, _Cell]]]:
    several = len({host.run_id for host in hosts}) > 1
    columns = []
    for host in hosts:
        by_curve: dict[str | None, dict[_Key, _Cell]] = defaultdict(dict)
        for scenario in host.scenarios:
            cells = by_curve[scenario.curve]
            cells[scenario.name, ""] = (scenario.status, "")
            cells.update({(scenario.name, name): ("absent", "") for name, _ in scenario.absent})
            for arm in scenario.arms:
                found = arm.durations
                value = text.ms(found.median.value if found else None)
                state = "value" if scenario.status == "valid" else scenario.status
                cells[scenario.name, arm.name] = (state, value)
        # A curve of which nothing could be measured is named below the table, with the reason.
        told = [
            curve for curve, cells in by_curve.items() if any(cell[1] for cell in cells.values())
        ]
        shown = told or list(by_curve)
        for curve in sorted(shown, key=lambda name: labels.rank(labels.CURVES, name or "")):
            run = host.run_id if several else ""
            title = labels.curve_title(curve)
            column = Column("host", host.host, run, title, host.emulated, 1, "")
            columns.append((column, by_curve[curve]))
    return columns


def _kind_columns(figures: Iterable[Figure]) -> list[tuple[Column, dict[_Key, _Cell]]]:
    by_kind: dict[tuple[Kind, str | None], list[Figure]] = defaultdict(list)
    for figure in figures:
        by_kind[figure.kind, figure.curve].append(figure)
    columns = []
    for kind, curve in sorted(
        by_kind, key=lambda key: (key[0], labels.rank(labels.CURVES, key[1] or ""))
    ):
        group = by_kind[kind, curve]
        most = max(figure.hosts for figure in group)
        title = labels.curve_title(curve)
        column = Column("kind", kind_title(kind), "", title, kind.emulated, most, "")
        cells = {
            (figure.scenario, figure.arm): ("value", text.ms(figure.median.value))
            for figure in group
        }
        columns.append((column, cells))
    return columns


def _published_columns(rows: Iterable[Published]) -> list[tuple[Column, dict[_Key, _Cell]]]:
    grouped: dict[tuple[str, str, str], dict[_Key, _Cell]] = defaultdict(dict)
    for row in rows:
        if row.statistic == "median":
            cells = grouped[row.short, f"{row.device}; {row.source}", row.curve]
            cells[row.scenario, row.arm] = ("value", row.value)
    return [
        (Column("published", device, "", labels.curve_title(curve), False, 1, source), cells)
        for (device, source, curve), cells in grouped.items()
    ]


def _imported_columns(
    documents: Iterable[Imported],
) -> list[tuple[Column, dict[_Key, _Cell]]]:
    """Medians that another program printed for our scenarios and arms, by file and curve."""
    columns = []
    for one in sorted(documents, key=lambda one: one.path):
        document = one.document
        by_curve: dict[str, dict[_Key, _Cell]] = defaultdict(dict)
        for figure in document["figures"]:
            scenario, _, arm = figure["operation"].partition("/")
            if scenario in labels.SCENARIOS and arm and figure["statistic"] == "median":
                curve = figure["parameters"].get("curve", "")
                milli = figure["unit"] == "ms"
                shown = figure["printed"] if milli else text.ms(figure.get("value_ns"))
                by_curve[curve][scenario, arm] = ("value", shown)
        file = document["source"]["file"]
        name = document["device"] or file
        columns += [
            (
                Column(
                    "imported",
                    name,
                    "",
                    labels.curve_title(curve or None),
                    False,
                    1,
                    f"imported from {file}",
                ),
                cells,
            )
            for curve, cells in by_curve.items()
        ]
    return columns


def medians(
    hosts: Sequence[Host],
    figures: Sequence[Figure],
    published: Sequence[Published],
    imported: Iterable[Imported] = (),
) -> Matrix:
    """Lays out the medians: measured ones first, then imported ones, published ones last."""
    measured = _host_columns(hosts)
    if len(measured) > COLUMNS:
        measured = _kind_columns(figures)
    keys = {key for _, cells in measured for key, cell in cells.items() if key[1]}
    asked = {name for _, cells in measured for name, _ in cells}
    others = _imported_columns(imported)
    keys |= {key for _, cells in others for key in cells}
    asked |= {key[0] for _, cells in others for key in cells}
    beside = others + (_published_columns(published) if measured or others else [])
    # A scenario without any figure still gets the rows that the published figures have.
    keys |= {key for _, cells in beside for key in cells if key[0] in asked}
    keys |= {(name, "") for name in asked if not any(key[0] == name for key in keys)}
    ordered = sorted(
        keys,
        key=lambda key: (labels.rank(labels.SCENARIOS, key[0]), labels.arm_rank(key[1])),
    )
    columns = [*measured, *beside]
    lines = []
    previous = None
    for name, arm in ordered:
        cells = []
        for _, found in columns:
            whole = found.get((name, ""), ("none", ""))
            default = whole if whole[0] in {"invalid", "not-applicable"} else ("none", "")
            cells.append(found.get((name, arm), default))
        span = sum(key[0] == name for key in ordered)
        lines.append(
            Line(
                labels.title(labels.SCENARIOS, name),
                labels.arm_title(arm),
                name != previous,
                span,
                tuple(cells),
            )
        )
        previous = name
    return Matrix(tuple(column for column, _ in columns), tuple(lines))


def unusable(hosts: Iterable[Host]) -> list[dict[str, Any]]:
    """Scenarios and arms without usable figures, and why; the same reason once for all hosts."""
    where: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for host in hosts:
        for scenario in host.scenarios:
            name = labels.title(labels.SCENARIOS, scenario.name)
            at = f"{host.host} {labels.curve_title(scenario.curve)}".strip()
            if scenario.status != "valid":
                where[name, "", scenario.status, scenario.reason or ""].add(at)
            for arm, reason in scenario.absent:
                where[name, labels.arm_title(arm), "absent", reason].add(at)
    return [
        {"scenario": key[0], "arm": key[1], "status": key[2], "reason": key[3], "where": sorted(at)}
        for key, at in sorted(where.items())
    ]
