"""What TPMs can do, operation by operation, host by host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import text
from collector.beside import EXAMPLE, Beside, beside, durations, of_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.load import Imported
    from collector.published import Published
    from collector.stats import Distribution
    from collector.summarise import Host, Scenario

Cells = dict[str, Any]

# Arms through ESAPI, in the order of their columns.
STACKS = ("esapi", "esapi-xor", "esapi-aes-128-cfb", "esapi-aes-256-cfb")


@dataclass(frozen=True, slots=True)
class Devices:
    """The section on operations.

    Attributes:
        beside: Devices beside each other, mean latencies in milliseconds.
        hosts: Every operation, host by host.
        example: The published device whose whole output stands in the last column.
        having: How many hosts have operations, also where they are too many to show.
    """

    beside: list[Beside]
    hosts: list[Cells]
    example: str
    having: int

    def __bool__(self) -> bool:
        return self.having > 0 or bool(self.beside)


def _rate(floor: Distribution, size: int) -> str:
    if floor.rate_per_s is None:
        return "-"
    if size:
        return f"{text.significant(floor.rate_per_s * size / 1024)} KB/s"
    return f"{text.significant(floor.rate_per_s)} ops/s"


def _operation_row(scenario: Scenario, example: dict[tuple[str, str], str]) -> Cells:
    operation = scenario.operation or {}
    name = of_scenario(scenario)
    printed = (example.get((name, statistic), "") for statistic in ("mean", "rate"))
    row: Cells = {
        "operation": operation.get("title", scenario.name),
        "status": operation.get("status", "") if scenario.status == "valid" else scenario.status,
        "published": "; ".join(value for value in printed if value),
    }
    floor = durations(scenario)
    columns = ("n", "median", "interval", "p95", "mean", "rate", *STACKS)
    if floor is None:
        code = operation.get("response_code")
        told = f"{operation.get('response_name') or ''} {code}".strip() if code else ""
        status = operation.get("status", scenario.status)
        return row | dict.fromkeys(columns, "") | {
            "status": status if status != "run" else scenario.status,
            "reason": scenario.reason or "",
            "code": told,
        }  # fmt: skip
    stacks = {name: durations(scenario, name) for name in STACKS}
    return row | {
        "status": "run",
        "reason": "",
        "code": "",
        "n": str(floor.n),
        "median": text.ms(floor.median.value),
        "interval": text.span(floor.median, 1e-6),
        "p95": text.ms(floor.p95),
        "mean": text.ms(floor.mean),
        "rate": _rate(floor, operation.get("bytes", 0)),
        **{name: text.ms(one.median.value) if one else "" for name, one in stacks.items()},
    }


def devices(
    hosts: Iterable[Host],
    published: Sequence[Published],
    imported: Sequence[Imported] = (),
    *,
    in_full: bool,
) -> Devices:
    """The section on operations; empty where no host has the device suite, nor an import.

    Args:
        hosts: All hosts.
        published: All published figures.
        imported: All imported documents.
        in_full: Whether to show hosts one by one.
    """
    having = [found for found in (host.of_suite("device") for host in hosts) if found.scenarios]
    shown = having if in_full else []
    example = {
        (one.arm, one.statistic): f"{one.value} {one.unit}"
        for one in published
        if one.scenario == "device" and one.source == EXAMPLE
    }
    named = [one.device for one in published if one.source == EXAMPLE]
    return Devices(
        beside=beside(having, published, imported),
        hosts=[
            {
                "host": host.host,
                "run": host.run_id,
                "emulated": host.emulated,
                "rows": [_operation_row(scenario, example) for scenario in host.scenarios],
            }
            for host in shown
        ],
        example=named[0] if named else "",
        having=len(having),
    )
