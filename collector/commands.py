"""How many commands a TPM was given for one signature, where its own log was counted.

The times of a key depend on what a resource manager does around each signature. The counts
come from the untimed pass of the same arm, and are never worked out from times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.names import host_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from collector.summarise import Arm, Host, Scenario

Cells = dict[str, Any]


def _each(commands: int, signatures: int) -> str:
    """Commands for one signature; a fraction where they are not as many for each."""
    if commands % signatures == 0:
        return str(commands // signatures)
    return text.significant(commands / signatures)


def per_signature(arm: Arm) -> float | None:
    """Commands that the TPM was given for one signature; None where that was not counted."""
    if arm.behind_manager is None or not arm.transport:
        return None
    return arm.behind_manager / arm.transport


def counted_at_tpm(host: Host) -> bool:
    """Whether any of a host's arms says how many commands its TPM was given."""
    return any(
        per_signature(arm) is not None
        for scenario in host.scenarios
        if scenario.status == "valid"
        for arm in scenario.arms
    )


def _ways(host: Host) -> Iterator[tuple[str, str, tuple[Scenario, ...]]]:
    """A host's transports: where, what swaps objects on it, and what was measured over it."""
    where = host_title(host)
    yield where, host.document["tpm"]["resource_manager"], host.scenarios
    for other in host.other_transports:
        yield f"{where}, {other.tcti}", other.resource_manager, other.scenarios


def command_rows(hosts: Iterable[Host]) -> list[Cells]:
    """A row for each arm of a valid scenario whose commands were counted at the TPM.

    ``order`` is the same for the arms of one host, transport, scenario and curve.
    """
    rows: list[Cells] = []
    for host in hosts:
        for where, manager, scenarios in _ways(host):
            for order, scenario in enumerate(scenarios):
                for arm in scenario.arms if scenario.status == "valid" else ():
                    if arm.behind_manager is None or not arm.transport:
                        continue
                    row = _row(scenario, arm, arm.behind_manager, arm.transport)
                    about = {
                        "order": f"{host.run_id}/{where}/{order:04d}",
                        "where": where,
                        "manager": labels.title(labels.RESOURCE_MANAGERS, manager),
                    }
                    rows.append(about | row)
    return rows


def _row(scenario: Scenario, arm: Arm, behind: int, signatures: int) -> Cells:
    sent = arm.tpm_commands
    return {
        "scenario": labels.title(labels.SCENARIOS, scenario.name),
        "curve": labels.curve_title(scenario.curve),
        "arm": labels.arm_title(arm.name),
        "behind": _each(behind, signatures),
        "sent": "-" if sent is None else _each(sent, signatures),
        "signatures": str(signatures),
        "median": text.ms(arm.durations.median.value if arm.durations else None),
    }
