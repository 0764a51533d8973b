"""Several ways to one TPM, side by side."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Scenario = dict[str, Any]

_SUITES = ("tls", "messages", "device")
_TITLE = "Several ways to the TPM, side by side"
_MEDIANS = "Medians in ms"
_OPERATION_ARM = "floor"
_SAME = {True: "the same TPM", False: "another TPM", None: "whether it is the same TPM is not told"}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a result document's further transports; none where it has none.

    Args:
        document: a valid result document.
    """
    others = document.get("other_transports")
    if not others:
        return
    yield ""
    yield _TITLE
    yield f"  1  {document['tpm']['tcti']}, {_manager(document['tpm'])}"
    for number, way in enumerate(others, 2):
        yield f"  {number}  {way['tcti']}, {_manager(way)}"
        if way["same_tpm_told_by"]:
            yield f"     {_SAME[way['same_tpm']]}: {way['same_tpm_told_by']}"
        if way["handles_equal"]:
            yield "     the TPM's handles are as they were before"
        if way["status"] != "valid":
            yield f"     {way['status']}: {way['reason']}"
    measured = [way for way in others if any(way[suite] for suite in _SUITES)]
    if not measured:
        return
    columns = {1: dict(_medians(document["scenarios"]))}
    for number, way in enumerate(others, 2):
        if way in measured:
            columns[number] = dict(_medians(item for suite in _SUITES for item in way[suite]))
    further = [column for number, column in columns.items() if number > 1]
    names = dict.fromkeys(name for column in further for name in column)
    width = max(len(name) for name in (*names, _MEDIANS))
    yield ""
    yield f"{_MEDIANS:<{width}}" + "".join(f"{number:>16}" for number in columns)
    for name in names:
        cells = (column.get(name, "-") for column in columns.values())
        yield f"{name:<{width}}" + "".join(f"{cell:>16}" for cell in cells)


def _manager(way: Mapping[str, Any]) -> str:
    kind = way["resource_manager"]
    return {"none": "no resource manager", "unknown": "resource manager unknown"}.get(
        kind, f"resource manager: {kind}"
    )


def _medians(scenarios: Iterable[Scenario]) -> Iterator[tuple[str, str]]:
    """Yield what was measured on the TPM, and its median or why there is none."""
    for scenario in scenarios:
        operation = scenario.get("operation")
        if operation and operation["status"] != "run":
            yield operation["title"], operation["status"]
        elif scenario["status"] == "valid":
            for arm in scenario["arms"]:
                title = _row(scenario, arm)
                if title:
                    yield title, f"{statistics.median(arm['samples_ns']) / 1e6:.3f}"
        elif operation:
            yield operation["title"], scenario["status"]
        elif scenario["curve"]:
            yield f"{scenario['name']} {scenario['curve']}", scenario["status"]


def _row(scenario: Scenario, arm: Mapping[str, Any]) -> str | None:
    """Name an arm that the transport has a part in; None for one without."""
    if scenario.get("operation"):
        return scenario["operation"]["title"] if arm["name"] == _OPERATION_ARM else None
    if arm["tpm_commands"] is None:
        return None
    return f"{scenario['name']} {scenario['curve']} {arm['name']}"
