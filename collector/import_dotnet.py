"""Reads the JSON that BenchmarkDotNet exports, brief or full; its times are in nanoseconds."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

from collector.imported import Found, Place

FORMAT = "benchmarkdotnet-json"

# Members of a benchmark's Statistics, and our names for them.
_STATISTICS = {
    "Mean": "mean",
    "StandardError": "stderr",
    "StandardDeviation": "stddev",
    "Median": "median",
    "Min": "minimum",
    "Q1": "q1",
    "Q3": "q3",
    "Max": "maximum",
}
_USED = {"DisplayInfo", "Namespace", "Type", "Method", "MethodTitle", "Parameters", "FullName"}
# BenchmarkDotNet's Error column is the margin of this interval of the mean.
_ERROR_LEVEL = "L999"


class _TwiceError(ValueError):
    """An object has a member twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _TwiceError
    return members


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    return number if number.is_finite() else None


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parameters(words: str) -> tuple[tuple[str, str], ...]:
    """``A=1&B=x`` as BenchmarkDotNet writes it; anything else stays whole."""
    parts = [part.partition("=") for part in words.split("&")] if words else []
    if all(sign and name for name, sign, _ in parts):
        return tuple((name, value) for name, _, value in parts)
    return (("Parameters", words),)


def _statistics(found: Found, at: Place, given: dict[str, Any], where: str) -> None:
    samples = _number(given.get("N"))
    whole = samples is not None and samples == samples.to_integral_value() and samples < 2**53
    n = int(samples) if samples is not None and whole and samples >= 0 else None
    figures: dict[str, object] = {ours: given.get(name) for name, ours in _STATISTICS.items()}
    percentiles = given.get("Percentiles")
    if isinstance(percentiles, dict):
        figures["p95"] = percentiles.get("P95")
    interval = given.get("ConfidenceInterval")
    if isinstance(interval, dict) and interval.get("Level") in (_ERROR_LEVEL, None):
        figures["error"] = interval.get("Margin")
    for statistic, value in figures.items():
        number = _number(value)
        if value is not None and (
            number is None or not found.add(at, statistic, str(number), "ns", number, n)
        ):
            found.puzzle(f"{where}/Statistics", f"{statistic}: {value}")


def _benchmark(found: Found, benchmark: dict[str, Any], where: str) -> None:
    method = _words(benchmark.get("Method")) or _words(benchmark.get("FullName"))
    title = _words(benchmark.get("MethodTitle")) or method
    section = _words(benchmark.get("Type")) or None
    parameters = _parameters(_words(benchmark.get("Parameters")))
    at = Place(section, title or "unnamed", method or "unnamed", parameters)
    statistics = benchmark.get("Statistics")
    if isinstance(statistics, dict):
        _statistics(found, at, statistics, where)
    else:
        found.skip(at, "no statistics")


def _about(found: Found, host: object) -> None:
    for name, value in host.items() if isinstance(host, dict) else ():
        if isinstance(value, dict):
            value = ", ".join(f"{inner} {of}" for of, inner in value.items())  # noqa: PLW2901
        if isinstance(value, (str, int, Decimal)) and value != "":
            found.say(name, str(value))


def parse(text: str) -> Found | None:
    """Takes what the text holds; None where it is not BenchmarkDotNet's JSON."""
    try:
        document = json.loads(text, parse_float=Decimal, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    benchmarks = document.get("Benchmarks") if isinstance(document, dict) else None
    if not isinstance(benchmarks, list):
        return None
    found = Found(FORMAT)
    if _words(document.get("Title")):
        found.say("Title", document["Title"])
    _about(found, document.get("HostEnvironmentInfo"))
    left: Counter[str] = Counter()
    for number, benchmark in enumerate(benchmarks):
        where = f"/Benchmarks/{number}"
        if isinstance(benchmark, dict):
            _benchmark(found, benchmark, where)
            left.update(name for name in benchmark if name not in {*_USED, "Statistics"})
        else:
            found.puzzle(where, "not an object")
    for name, times in sorted(left.items()):
        found.puzzle(f"/Benchmarks/*/{name}", f"not imported, in {times} benchmarks")
    return found
