"""Reads the tables that BenchmarkDotNet exports: CSV and GitHub's Markdown.

A column's unit stands in its header (``Mean [us]``) or in its cells (``33.0 us``). Numbers
follow the culture of the machine that wrote them; see :func:`collector.quantities.decimal_mark`.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector import quantities
from collector.imported import Found, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CSV, MARKDOWN = "benchmarkdotnet-csv", "benchmarkdotnet-markdown"

_STATISTICS = {
    "Mean": "mean",
    "Error": "error",
    "StdDev": "stddev",
    "StdErr": "stderr",
    "Median": "median",
    "Min": "minimum",
    "Max": "maximum",
    "Q1": "q1",
    "Q3": "q3",
    "P95": "p95",
    "Op/s": "rate",
}
# Columns of other figures; they are listed as not imported.
_OTHER_FIGURES = re.compile(
    r"Ratio|RatioSD|Alloc Ratio|Rank|Gen ?[0-9].*|Allocated.*|Baseline|Iterations|LogicalGroup|"
    r"Completed Work Items|Lock Contentions|Code Size|Kurtosis|Skewness|MValue|P[0-9]{1,3}|"
    r"(?:Upper|Lower)Fence|CI[0-9.]+% .*|.*/Op"
)
# Settings of a job: they are kept as words about the run, unless they vary from row to row.
_SETTINGS = re.compile(
    r"Job|AnalyzeLaunchVariance|EvaluateOverhead|MaxAbsoluteError|MaxRelativeError|"
    r"MinInvokeCount|MinIterationTime|OutlierMode|Affinity|EnvironmentVariables|Jit|"
    r"LargeAddressAware|Platform|PowerPlanMode|Runtime|AllowVeryLargeObjects|Concurrent|"
    r"CpuGroups|Force|HeapAffinitizeMask|HeapCount|NoAffinitize|RetainVm|Server|Arguments|"
    r"BuildConfiguration|Clock|EngineFactory|NuGetReferences|Toolchain|IsMutator|"
    r"InvocationCount|IterationCount|IterationTime|LaunchCount|MaxIterationCount|"
    r"MaxWarmupIterationCount|MemoryRandomization|MinIterationCount|MinWarmupIterationCount|"
    r"RunStrategy|UnrollFactor|WarmupCount|Namespace|Type"
)
_HEADER_UNIT = re.compile(r"(?P<name>.+?) \[(?P<unit>\S+)\]")
_NOTHING = {"", "-", "?", "NA", "N/A"}
_RULE = re.compile(r"\|[ :|-]+\|?")


@dataclass(frozen=True)
class _Column:
    """A column: its title without the unit, the unit of its header, the statistic it holds."""

    title: str
    unit: str
    statistic: str | None


@dataclass(frozen=True)
class _Table:
    """Columns and rows, the first row's line number, and the heading above."""

    columns: tuple[_Column, ...]
    rows: list[tuple[int, list[str]]]
    section: str | None

    def numbers(self) -> Iterable[str]:
        """Every number of the columns that hold statistics."""
        for _, cells in self.rows:
            for column, cell in zip(self.columns, cells, strict=False):
                found = quantities.quantity(cell) if column.statistic else None
                if found is not None:
                    yield found.number

    def varies(self, index: int) -> bool:
        """Whether a column's cells differ."""
        return len({cells[index] for _, cells in self.rows if index < len(cells)}) > 1


def _columns(titles: Sequence[str]) -> tuple[_Column, ...] | None:
    """The columns of a header; None where it is not one of BenchmarkDotNet's."""
    columns = []
    for title in titles:
        parts = _HEADER_UNIT.fullmatch(title)
        name = parts["name"] if parts and parts["name"] in _STATISTICS else title
        unit = parts["unit"] if parts and name != title else ""
        unit = unit or ("op/s" if name == "Op/s" else "")
        columns.append(_Column(name, unit, _STATISTICS.get(name)))
    known = {column.title for column in columns}
    return tuple(columns) if "Method" in known and known & {"Mean", "Median"} else None


def _row(found: Found, table: _Table, line: int, cells: list[str], mark: str) -> None:
    places = range(len(table.columns))
    names = {
        table.columns[index].title: cells[index]
        for index in places
        if table.columns[index].statistic is None
        and not _OTHER_FIGURES.fullmatch(table.columns[index].title)
        and (not _SETTINGS.fullmatch(table.columns[index].title) or table.varies(index))
    }
    method = names.pop("Method").strip("'") or "unnamed"
    parameters = tuple((name, value) for name, value in names.items() if value)
    at = Place(table.section, method, method, parameters)
    added = False
    for column, cell in zip(table.columns, cells, strict=True):
        if column.statistic is None or cell in _NOTHING:
            continue
        printed = quantities.quantity(cell)
        number = None if printed is None else quantities.exact(printed.number, mark)
        if (
            printed is None
            or number is None
            or not found.add(
                at, column.statistic, printed.number, printed.unit or column.unit, number
            )
        ):
            found.puzzle(f"line {line}, column {column.title}", cell)
        else:
            added = True
    if not added:
        found.skip(at, "no figure in the table")


def _take(found: Found, tables: Sequence[_Table], mark: str | None) -> None:
    given = [number for table in tables for number in table.numbers()]
    known = quantities.decimal_mark(given) if mark is None else mark
    for table in tables:
        for index, column in enumerate(table.columns):
            if column.statistic is None and _OTHER_FIGURES.fullmatch(column.title):
                found.puzzle(f"column {column.title}", "not imported")
            elif _SETTINGS.fullmatch(column.title) and not table.varies(index) and table.rows:
                setting = table.rows[0][1][index]
                if setting not in {"Default", *_NOTHING}:
                    found.say(column.title, setting)
        for line, cells in table.rows:
            _row(found, table, line, cells, known)


def parse_csv(lines: Sequence[str], mark: str | None = None) -> Found | None:
    """Takes the rows of a CSV file; None where its header is not BenchmarkDotNet's.

    Args:
        lines: The lines.
        mark: The decimal mark, where the user named it.

    Raises:
        AmbiguousNumbersError: The decimal mark cannot be told.
    """
    for delimiter in ",;\t":
        try:
            rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
        except csv.Error:
            continue
        columns = _columns([title.strip() for title in rows[0]]) if rows else None
        if columns is None:
            continue
        found = Found(CSV)
        table = _Table(columns, [], None)
        for number, cells in enumerate(rows[1:], 2):
            if len(cells) == len(columns):
                table.rows.append((number, [cell.strip() for cell in cells]))
            elif any(cells):
                found.puzzle(f"line {number}", delimiter.join(cells))
        _take(found, [table], mark)
        return found
    return None


def _cells(line: str) -> list[str]:
    """A Markdown row's cells, without the bold that groups rows."""
    inside = line.strip().removeprefix("|").removesuffix("|")
    cells = (cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inside))
    return [
        cell[2:-2].strip() if len(cell) > 4 and cell.startswith("**") and cell.endswith("**")
        else cell
        for cell in cells
    ]  # fmt: skip


def parse_markdown(lines: Sequence[str], mark: str | None = None) -> Found | None:
    """Takes the tables of a Markdown file; None where there is none of BenchmarkDotNet's.

    Headings name the tables below them, and the lines that BenchmarkDotNet prints about the
    machine are kept. Other text is listed as not understood.

    Args:
        lines: The lines.
        mark: The decimal mark, where the user named it.

    Raises:
        AmbiguousNumbersError: The decimal mark cannot be told.
    """
    found = Found(MARKDOWN)
    tables: list[_Table] = []
    section: str | None = None
    inside = about = False
    for number, whole in enumerate(lines, 1):
        line = whole.strip()
        is_row = line.startswith("|")
        header = _columns(_cells(line)) if is_row and not inside else None
        if header is not None:
            tables.append(_Table(header, [], section))
        elif is_row and inside:
            cells = _cells(line)
            if len(cells) == len(tables[-1].columns):
                if not _RULE.fullmatch(line):
                    tables[-1].rows.append((number, cells))
            else:
                found.puzzle(f"line {number}", whole)
        elif line.startswith("#"):
            section = line.lstrip("#").strip() or None
        elif line.startswith("BenchmarkDotNet") or (about and line and "```" not in line):
            found.say("environment", line)
        elif line and not line.startswith("```"):
            found.puzzle(f"line {number}", whole)
        inside = is_row and (inside or header is not None)
        about = not is_row and "```" not in line and (about or line.startswith("BenchmarkDotNet"))
    if not tables:
        return None
    _take(found, tables, mark)
    return found
