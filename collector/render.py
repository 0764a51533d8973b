"""Fills the templates. Every expression is escaped for the format it stands in."""

from __future__ import annotations

import functools
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from collector import text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from collector.compare_view import ComparisonView
    from collector.importing import Result
    from collector.view import Report

TEMPLATES = Path(__file__).resolve().parent / "templates"
LINE = 100


def _html(value: object) -> Markup:
    return value if isinstance(value, Markup) else escape(text.visible(str(value)))


def _markdown(value: object) -> Markup:
    return value if isinstance(value, Markup) else text.markdown(str(value))


def _plain(value: object) -> Markup:
    return value if isinstance(value, Markup) else text.plain(str(value))


def _pad(cell: str, size: int, *, right: bool) -> str:
    room = " " * (size - text.width(cell))
    return room + cell if right else cell + room


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    padded = [
        _pad(cell, size, right=index > 0)
        for index, (cell, size) in enumerate(zip(cells, sizes, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _chunks(sizes: Sequence[int]) -> list[list[int]]:
    """Which columns stand beside each other: the first everywhere, the others as they fit."""
    chunks: list[list[int]] = [[0]]
    for index in range(1, len(sizes)):
        used = sum(sizes[taken] + 2 for taken in chunks[-1])
        if used + sizes[index] > LINE and len(chunks[-1]) > 1:
            chunks.append([0])
        chunks[-1].append(index)
    return chunks


def columns(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Markup:
    """Lays out a table for a fixed-width font, at most ``LINE`` columns wide if it can be.

    Where it is too wide it goes on below, the first column repeated, without the rows that
    are empty there.

    Args:
        head: Column titles; one that is a list stands on several lines.
        rows: Cells; a row of a single cell is a heading for the rows after it.
    """
    titles = [
        [text.visible(str(line)) for line in (title if isinstance(title, list) else [title])]
        for title in head
    ]
    depth = max(len(title) for title in titles)
    titles = [[""] * (depth - len(title)) + title for title in titles]
    heads = [[title[line] for title in titles] for line in range(depth)]
    body = [[text.visible(str(cell)) for cell in row] for row in rows]
    cells = [*heads, *(row for row in body if len(row) > 1)]
    widths = [max(text.width(row[index]) for row in cells) for index in range(len(head))]
    parts = []
    for chunk in _chunks(widths):
        sizes = [widths[index] for index in chunk]
        lines = [_line([row[index] for index in chunk], sizes) for row in heads]
        lines.append("  ".join("-" * size for size in sizes))
        heading: list[str] = []
        for row in body:
            if len(row) == 1:
                heading = row
            elif any(row[index] for index in chunk[1:]):
                lines.extend(heading)
                heading = []
                lines.append(_line([row[index] for index in chunk], sizes))
        parts.append("\n".join(lines))
    return Markup("\n\n".join(parts))  # noqa: S704 - made visible above; a text file obeys nothing


def paragraph(value: object, indent: int = 0, first: str = "") -> Markup:
    """Breaks text into lines of at most 90 columns that end the last one too.

    Args:
        value: The text; a block of a template, in which every expression is escaped already.
        indent: Spaces before all lines but the first.
        first: What stands before the first line.
    """
    lines = textwrap.fill(
        " ".join(_plain(value).split()),
        90,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return Markup(lines + "\n")  # noqa: S704 - made visible above


@functools.cache
def _environment(finalize: Callable[[object], Markup]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        significant=text.significant,
        short=text.short,
        columns=columns,
        paragraph=paragraph,
        ms=text.ms,
    )
    return environment


def _render(template: str, finalize: Callable[[object], Markup], report: Report) -> str:
    return _fill(template, finalize, report=report)


def _fill(template: str, finalize: Callable[[object], Markup], **values: Any) -> str:
    return _environment(finalize).get_template(template).render(values)


def html(report: Report) -> str:
    """The report as one HTML page."""
    return _render("index.html.j2", _html, report)


def markdown(report: Report) -> str:
    """The report in GitHub's Markdown."""
    return _render("report.md.j2", _markdown, report)


def plain(report: Report) -> str:
    """The report as text of at most 100 columns."""
    return _render("report.txt.j2", _plain, report)


def summary(report: Report) -> str:
    """What the command prints."""
    return _render("summary.txt.j2", _plain, report)


def import_summary(written: Sequence[tuple[Result, Path]]) -> str:
    """What ``import`` prints: each file, what was found in it, and what was not understood."""
    entries = [(str(result.path), result.document, str(to)) for result, to in written]
    return _fill("import.txt.j2", _plain, entries=entries)


def comparison(view: ComparisonView) -> str:
    """What ``compare`` prints."""
    return _fill("compare.txt.j2", _plain, view=view)


def comparison_markdown(view: ComparisonView) -> str:
    """The comparison in GitHub's Markdown."""
    return _fill("compare.md.j2", _markdown, view=view)
