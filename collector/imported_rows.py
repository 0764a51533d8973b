"""Imported documents as rows ready to be written: a row for each operation, its figures beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from collector.load import Document, Imported

Cells = dict[str, Any]

# Statistics in the order of their columns.
STATISTICS = (
    *("median", "mean", "p95", "rate", "error", "stddev", "stderr", "minimum", "q1", "q3"),
    *("maximum", "signatures", "resumed", "processed", "elapsed"),
)


def _everywhere(document: Document) -> dict[str, str]:
    """Parameters that are the same in the whole document; they are said once."""
    entries = [one["parameters"] for one in (*document["figures"], *document["not_run"])]
    common = dict(entries[0]) if entries else {}
    for parameters in entries:
        common = {name: of for name, of in common.items() if parameters.get(name) == of}
    return common


def _rows(document: Document, common: dict[str, str]) -> list[Cells]:
    by_operation: dict[tuple[str, str], Cells] = {}

    def row(one: dict[str, Any]) -> Cells:
        varies = [of for name, of in one["parameters"].items() if name not in common]
        key = one["section"] or "", ", ".join([one["name"], *varies])
        empty = {"section": key[0], "name": key[1], "samples": "", "reason": ""}
        return by_operation.setdefault(key, empty)

    for figure in document["figures"]:
        unit = "" if "value_count" in figure else f" {figure['unit']}"
        row(figure)[figure["statistic"]] = f"{figure['printed']}{unit}"
        if figure["samples"] is not None:
            row(figure)["samples"] = str(figure["samples"])
    for left in document["not_run"]:
        row(left)["reason"] = left["reason"]
    return list(by_operation.values())


def imported_rows(documents: Iterable[Imported]) -> list[Cells]:
    """One entry for each document, by path: where it came from, its rows and their columns."""
    entries = []
    for one in sorted(documents, key=lambda one: one.path):
        document = one.document
        used = {figure["statistic"] for figure in document["figures"]}
        statistics = [name for name in STATISTICS if name in used]
        common = _everywhere(document)
        rows = [dict.fromkeys(statistics, "") | row for row in _rows(document, common)]
        said = {one["name"] for one in document["about"]}
        more = [{"name": name, "value": of} for name, of in common.items() if name not in said]
        entries.append(
            {
                "path": one.path,
                "file": document["source"]["file"],
                "sha256": document["source"]["sha256"],
                "format": document["format"],
                "device": document["device"] or "",
                "about": [*document["about"], *more],
                "statistics": statistics,
                "sections": any(row["section"] for row in rows),
                "samples": any(row["samples"] for row in rows),
                "reasons": any(row["reason"] for row in rows),
                "rows": rows,
                "missing": document["missing"],
                "unknown": document["unknown"],
            }
        )
    return entries
