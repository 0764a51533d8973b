"""The device suite of a result document in the layout of wolfTPM's bench, line beside line."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Scenario = dict[str, Any]

PREFIX = "device-"
_TITLE = "TPM2 operations, command to response, in the layout of wolfTPM's bench"
_STACK_TITLE = "The same through ESAPI over this transport, medians in ms: what the stack adds"
_COLUMNS = ("floor", "esapi", "esapi-xor", "esapi-aes-128-cfb", "esapi-aes-256-cfb")
_HEADINGS = ("command", "ESAPI", "XOR", "AES-128-CFB", "AES-256-CFB")
_KB = 1024


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a result document's device suite; none where it has none.

    Args:
        document: a valid result document.
    """
    found = [item for item in document["scenarios"] if item["name"].startswith(PREFIX)]
    if not found:
        return
    yield ""
    yield _TITLE
    for scenario in found:
        yield from _line(scenario)
    measured = [item for item in found if item["status"] == "valid" and len(item["arms"]) > 1]
    if measured:
        yield ""
        yield _STACK_TITLE
        yield f"{'':<24}" + "".join(f"{heading:>13}" for heading in _HEADINGS)
        for scenario in measured:
            yield _stack_line(scenario)
    refused = {
        (item["name"], item["reason"]) for scenario in found for item in scenario["absent_arms"]
    }
    for name, reason in sorted(refused):
        yield f"{name} not measured everywhere: {reason}"


def _line(scenario: Scenario) -> Iterator[str]:
    operation = scenario.get("operation")
    if operation is None:  # the run ended before it
        yield f"{scenario['name']:<24} {scenario['status']}: {scenario['reason']}"
        return
    title = operation["title"]
    if operation["status"] != "run":
        code = operation["response_code"]
        said = f"{operation['response_name']} {code}: " if code else ""
        if operation["status"] == "unsupported":
            kind = "symmetric " if title.startswith("AES-") else ""
            yield f"Benchmark {kind}{title} not supported!"
        else:
            yield f"{title:<24} {operation['status']}"
        yield f"    {said}{scenario['reason']}"
        return
    if scenario["status"] != "valid":
        yield f"{title:<24} {scenario['reason']}"
        return
    samples = next(arm for arm in scenario["arms"] if arm["name"] == "floor")["samples_ns"]
    seconds = sum(samples) / 1e9
    if operation["bytes"]:
        size = len(samples) * operation["bytes"] / _KB
        yield (
            f"{title:<24} {size:8.0f} KB took {seconds:5.3f} seconds, {size / seconds:8.3f} KB/s"
        )
        return
    yield (
        f"{title:<24} {len(samples):6d} ops took {seconds:5.3f} sec, "
        f"avg {seconds * 1e3 / len(samples):5.3f} ms, {len(samples) / seconds:.3f} ops/sec"
    )


def _stack_line(scenario: Scenario) -> str:
    medians = {
        arm["name"]: f"{statistics.median(arm['samples_ns']) / 1e6:.3f}" for arm in scenario["arms"]
    }
    cells = "".join(f"{medians.get(name, '-'):>13}" for name in _COLUMNS)
    return f"{scenario['operation']['title']:<24}{cells}"
