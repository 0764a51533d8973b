"""The messages suite of a result document as BenchmarkDotNet prints it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tpmbench.messages import statistics
from tpmbench.messages.suite import SIGN, SINGLE_SHOT, VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Scenario = dict[str, Any]
    Row = tuple[str, int, statistics.Summary]

PREFIX = "message-size-"

# The first names are those of the study that this repeats.
_METHODS = {
    SIGN: "ECDSA_Sign",
    VERIFY: "ECDSA_Verify",
    SINGLE_SHOT: "ECDSA_Sign, fresh key",
}
# Arm, without its size, to table and what stands behind the method.
_ARMS = {
    "tpm": ("TPM", ""),
    "tpm-digest": ("TPM", ", digest"),
    "software": ("Non TPM", ""),
    "software-digest": ("Non TPM", ", digest"),
    "hash": ("Non TPM", None),
}
_HASH = "Hash"
_UNITS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
_SURE = 0.001  # a slope is called one below this probability: BenchmarkDotNet's 99.9 %


def lines(document: Mapping[str, Any], curve: str) -> Iterator[str]:
    """Yield the lines of a curve's message sizes; none where there are none.

    Args:
        document: a valid result document.
        curve: short name, such as ``p256``.
    """
    found = [
        item
        for item in document["scenarios"]
        if item["curve"] == curve and item["name"].startswith(PREFIX)
    ]
    for scenario in found:
        if scenario["status"] != "valid":
            yield ""
            yield f"{scenario['name']}  {scenario['status']}: {scenario['reason']}"
    for table in dict.fromkeys(table for table, _ in _ARMS.values()):
        rows = list(_rows(found, table))
        if rows:
            yield ""
            yield f"{table} ECDsa {curve.upper()}"
            yield ""
            yield from _table(rows)
            yield from _slopes(found, table)


def _arms(found: Sequence[Scenario], table: str) -> Iterator[tuple[str, int, list[int]]]:
    for scenario in found:
        if scenario["status"] == "valid" and scenario["name"] in _METHODS:
            for arm in scenario["arms"]:
                kind, _, size = arm["name"].rpartition("-")
                where, what = _ARMS.get(kind, ("", ""))
                if where == table:
                    method = _HASH if what is None else _METHODS[scenario["name"]] + what
                    yield method, int(size), arm["samples_ns"]


def _rows(found: Sequence[Scenario], table: str) -> Iterator[Row]:
    arms = list(_arms(found, table))
    order = list(dict.fromkeys(method for method, _, _ in arms))
    for method, size, samples in sorted(arms, key=lambda arm: (order.index(arm[0]), arm[1])):
        yield method, size, statistics.summary(samples)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """Lay rows out: one unit for all columns, chosen by the smallest mean, as is the precision."""
    smallest = min(row[2].mean for row in rows)
    unit, factor = next((item for item in reversed(_UNITS) if smallest >= item[1]), _UNITS[0])
    digits = decimals(smallest / factor)
    cells: list[tuple[str, ...]] = [("Method", "MessageInput", "Mean", "Error", "StdDev")]
    for method, size, found in rows:
        figures = (
            (found.mean, digits), (found.error, digits + 1), (found.deviation, digits + 1),
        )  # fmt: skip
        cells.append(
            (method, f"message [{size}]", *(_figure(*item, factor, unit) for item in figures))
        )
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for number, row in enumerate(cells):
        texts = [f"{row[i]:<{widths[i]}}" for i in (0, 1)]
        texts += [f"{row[i]:>{widths[i]}}" for i in (2, 3, 4)]
        yield f"| {' | '.join(texts)} |"
        if number == 0:
            rules = ["-" * (widths[i] + 1) for i in (0, 1)]
            rules += ["-" * (widths[i] + 1) + ":" for i in (2, 3, 4)]
            yield f"|{rules[0]} |{rules[1]} |{'|'.join(rules[2:])}|"


def decimals(value: float) -> int:
    """Return how many decimals BenchmarkDotNet gives a column whose smallest value this is."""
    if value < 1:
        return 4
    return min(3, max(1, 3 - math.trunc(math.log10(value))))


def _figure(value: float, digits: int, factor: float, unit: str) -> str:
    return "NA" if math.isnan(value) else f"{value / factor:,.{digits}f} {unit}"


def _slopes(found: Sequence[Scenario], table: str) -> Iterator[str]:
    """Say for each method whether its time depends on the message's size."""
    by_method: dict[str, dict[int, list[int]]] = {}
    for method, size, samples in _arms(found, table):
        by_method.setdefault(method, {})[size] = samples
    for method, by_size in by_method.items():
        if len(by_size) < 2:
            continue
        sizes = [size for size, samples in by_size.items() for _ in samples]
        fit = statistics.line(sizes, [item for samples in by_size.values() for item in samples])
        verdict = "size matters" if fit.p < _SURE else "no effect of size is seen"
        yield (
            f"{method}: {fit.slope * 1024 / 1e3:+.2f} us per KiB "
            f"(standard error {fit.error * 1024 / 1e3:.2f}, p = {fit.p:.2g}): {verdict}"
        )
