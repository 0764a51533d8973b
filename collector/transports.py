"""One TPM over several transports: the same operations over each, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.beside import FLOOR
from collector.names import host_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.stats import Interval
    from collector.summarise import Arm, Host, Scenario

Cells = dict[str, Any]

# An operation and the arm that is compared: suite, title, curve, arm.
_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One host's transports.

    Attributes:
        where: The host.
        columns: Each transport with what swaps objects on it, the first one first.
        rows: Operations, with a cell for each transport; ``group`` numbers the suites.
        notes: What is to be said of the further transports, such as why one is invalid.
    """

    where: str
    columns: list[str]
    rows: list[Cells]
    notes: list[Cells]


def _compared(scenario: Scenario) -> tuple[str, ...]:
    """Beginnings of the names of the arms that go over a transport."""
    if scenario.suite == "device":
        return (FLOOR,)
    return ("tpm-", FLOOR)


def _rank(arm: Arm) -> tuple[object, ...]:
    """Sort key of an arm; message sizes as numbers."""
    kind, _, size = arm.name.rpartition("-")
    if size.isdigit():
        return (labels.arm_rank(kind), int(size))
    return (labels.arm_rank(arm.name), 0)


def _medians(scenarios: Iterable[Scenario]) -> dict[_Key, Interval]:
    found = {}
    for scenario in scenarios:
        if scenario.status != "valid":
            continue
        operation = scenario.operation or {}
        title = operation.get("title") or labels.title(labels.SCENARIOS, scenario.name)
        for arm in sorted(scenario.arms, key=_rank):
            if arm.durations is not None and arm.name.startswith(_compared(scenario)):
                shown = "" if scenario.suite == "device" else labels.message_arm_title(arm.name)
                key = (scenario.suite, title, labels.curve_title(scenario.curve), shown)
                found[key] = arm.durations.median
    return found


def _clear(one: Interval, rest: Sequence[Interval]) -> bool:
    """Whether the whole of an interval lies below the others."""
    high = one.high
    if high is None or not rest:
        return False
    return all(other.low is not None and high < other.low for other in rest)


def _cells(medians: Sequence[Interval | None]) -> list[Cells]:
    """Medians in milliseconds, and which of them is the lowest beyond doubt."""
    cells = []
    for place, one in enumerate(medians):
        rest = [other for at, other in enumerate(medians) if at != place and other is not None]
        shown = "" if one is None else text.ms(one.value)
        cells.append({"text": shown, "lowest": one is not None and _clear(one, rest)})
    return cells


def _of_host(host: Host) -> SideBySide:
    others = host.other_transports
    tpm = host.document["tpm"]
    ways = [(tpm["tcti"], tpm["resource_manager"])]
    ways += [(other.tcti, other.resource_manager) for other in others]
    found = [_medians(host.scenarios), *(_medians(other.scenarios) for other in others)]
    # Only what the further transports were asked is side by side; the rest is elsewhere.
    keys = [key for key in found[0] if any(key in one for one in found[1:])]
    keys += [key for one in found[1:] for key in one if key not in found[0]]
    return SideBySide(
        where=host_title(host),
        columns=[
            f"{tcti}, resource manager: {labels.title(labels.RESOURCE_MANAGERS, manager)}"
            for tcti, manager in ways
        ],
        rows=[
            {
                "operation": ", ".join(part for part in (key[1], key[3]) if part),
                "curve": key[2],
                "group": key[0],
                "cells": _cells([one.get(key) for one in found]),
            }
            for key in dict.fromkeys(keys)
        ],
        notes=[
            {
                "tcti": other.tcti,
                "status": other.status,
                "reason": other.reason or "",
                "same_tpm": other.same_tpm,
                "told_by": other.told_by or "",
            }
            for other in others
        ],
    )


def side_by_side(hosts: Iterable[Host]) -> list[SideBySide]:
    """Hosts whose TPM was measured over more than one transport."""
    return [_of_host(host) for host in hosts if host.other_transports]
