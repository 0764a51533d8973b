"""What TPMs can do, operation by operation: this fleet's beside published devices.

Operations are matched by their name as wolfTPM's bench prints it. What is compared is the
mean, for that is what wolfTPM publishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import text
from collector.imported import slug
from collector.names import host_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.published import Published
    from collector.stats import Distribution
    from collector.summarise import Host, Scenario

Cells = dict[str, Any]

FLOOR = "floor"
# Arms through ESAPI, in the order of their columns.
STACKS = ("esapi", "esapi-xor", "esapi-aes-128-cfb", "esapi-aes-256-cfb")
# The operations that devices are published with, each group a table, and their titles.
GROUPS = (
    {
        "rsa-2048-key-gen": "RSA-2048 key gen",
        "rsa-2048-private": "RSA-2048 private",
        "ecdsa-256-sign": "ECDSA P-256 sign",
        "ecdsa-256-verify": "ECDSA P-256 verify",
    },
    {
        "ml-dsa-65-key-gen": "ML-DSA-65 key gen",
        "ml-dsa-65-sign": "ML-DSA-65 sign",
        "ml-dsa-65-verify": "ML-DSA-65 verify",
        "ml-kem-768-key-gen": "ML-KEM-768 key gen",
        "ml-kem-768-encap": "ML-KEM-768 encapsulate",
        "ml-kem-768-decap": "ML-KEM-768 decapsulate",
    },
)
_EXAMPLE = "wolfTPM documentation, example output"


@dataclass(frozen=True, slots=True)
class Beside:
    """Devices beside each other: columns of operations as (name, title), a row for each device."""

    columns: list[tuple[str, str]]
    rows: list[Cells]


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
        return self.having > 0


def _operation(scenario: Scenario) -> str:
    title = scenario.operation["title"] if scenario.operation else scenario.name
    return slug(title).replace("encapsulate", "encap").replace("decapsulate", "decap")


def _floor(scenario: Scenario, arm: str = FLOOR) -> Distribution | None:
    if scenario.status != "valid":
        return None
    return next((one.durations for one in scenario.arms if one.name == arm), None)


def _means(host: Host) -> dict[str, float]:
    """Mean of each operation, in milliseconds."""
    found = {_operation(scenario): _floor(scenario) for scenario in host.scenarios}
    return {name: floor.mean / 1e6 for name, floor in found.items() if floor is not None}


def _host_row(host: Host) -> Cells:
    tpm = host.document["tpm"]
    maker = " ".join(f"{tpm['manufacturer']} {tpm['vendor_string']}".split())
    return {
        "source": "host",
        "emulated": host.emulated,
        "device": host_title(host),
        "where": f"{maker}, firmware {tpm['firmware_version']}; {tpm['tcti']}",
        "values": _means(host),
    }


def _published_rows(published: Iterable[Published]) -> list[Cells]:
    rows: dict[str, Cells] = {}
    for one in published:
        if (one.scenario, one.statistic) == ("device", "mean") and one.source != _EXAMPLE:
            where = one.device.removeprefix(one.short).strip().removeprefix("(").removesuffix(")")
            empty = {"source": "published", "emulated": False, "device": one.short}
            row = rows.setdefault(one.device, empty | {"where": where, "values": {}, "printed": {}})
            row["values"][one.arm] = float(one.value)
            row["printed"][one.arm] = one.value
    return list(rows.values())


def _beside(rows: Sequence[Cells], titles: dict[str, str]) -> Beside | None:
    """One group's table; None where no host has any of it."""
    if not any(row["source"] == "host" and titles.keys() & row["values"].keys() for row in rows):
        return None
    best = {
        name: min(
            (row["values"][name] for row in rows if name in row["values"] and not row["emulated"]),
            default=None,
        )
        for name in titles
    }
    shown = []
    for row in rows:
        cells = {}
        for name in titles:
            value = row["values"].get(name)
            printed = row.get("printed", {}).get(name)
            cell = "" if value is None else printed or text.significant(value)
            is_best = value is not None and value == best[name] and not row["emulated"]
            cells[name] = {"text": cell, "best": is_best}
        if any(cell["text"] for cell in cells.values()):
            shown.append(row | {"cells": cells})
    return Beside(list(titles.items()), shown)


def _rate(floor: Distribution, size: int) -> str:
    if floor.rate_per_s is None:
        return "-"
    if size:
        return f"{text.significant(floor.rate_per_s * size / 1024)} KB/s"
    return f"{text.significant(floor.rate_per_s)} ops/s"


def _operation_row(scenario: Scenario, example: dict[tuple[str, str], str]) -> Cells:
    operation = scenario.operation or {}
    name = _operation(scenario)
    printed = (example.get((name, statistic), "") for statistic in ("mean", "rate"))
    row: Cells = {
        "operation": operation.get("title", scenario.name),
        "status": operation.get("status", "") if scenario.status == "valid" else scenario.status,
        "published": "; ".join(value for value in printed if value),
    }
    floor = _floor(scenario)
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
    stacks = {name: _floor(scenario, name) for name in STACKS}
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


def devices(hosts: Iterable[Host], published: Sequence[Published], *, in_full: bool) -> Devices:
    """The section on operations; empty where no host has the device suite.

    Args:
        hosts: All hosts.
        published: All published figures.
        in_full: Whether to show hosts one by one.
    """
    having = [found for found in (host.of_suite("device") for host in hosts) if found.scenarios]
    shown = having if in_full else []
    example = {
        (one.arm, one.statistic): f"{one.value} {one.unit}"
        for one in published
        if one.scenario == "device" and one.source == _EXAMPLE
    }
    named = [one.device for one in published if one.source == _EXAMPLE]
    rows = [*map(_host_row, having), *_published_rows(published)]
    tables = [_beside(rows, titles) for titles in GROUPS] if shown else []
    return Devices(
        beside=[table for table in tables if table is not None],
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
