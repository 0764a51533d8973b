"""Devices beside each other: this fleet's TPMs by model, imported results, published devices.

Operations are matched by their name as wolfTPM's bench prints it. What is compared is the
mean, for that is what wolfTPM publishes. Nothing is pooled across the three sources.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import text
from collector.imported import slug
from collector.models import by_model, median_by_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from collector.load import Imported
    from collector.published import Published
    from collector.stats import Distribution
    from collector.summarise import Host, Scenario

Cells = dict[str, Any]

FLOOR = "floor"
# Where the published output of a whole run is from; its device has a row among the others.
EXAMPLE = "wolfTPM documentation, example output"
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
# What wolfTPM's bench says of the TPM in its line of capabilities.
_CAPS = re.compile(r"Mfg (?P<maker>\S+).*?(?:, Vendor (?P<vendor>[^,]+))?, Fw (?P<fw>[0-9.]+)")
_EMULATED = re.compile(r"\b(sw\s*tpm|swtpm|software|simulat\w*|emulat\w*|IBM)\b", re.IGNORECASE)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class Beside:
    """Devices beside each other: columns of operations as (name, title), a row for each device."""

    columns: list[tuple[str, str]]
    rows: list[Cells]


def operation_name(title: str) -> str:
    """The name under which operations of all sources are matched."""
    return slug(title).replace("encapsulate", "encap").replace("decapsulate", "decap")


def of_scenario(scenario: Scenario) -> str:
    """The same for a measured operation."""
    return operation_name(scenario.operation["title"] if scenario.operation else scenario.name)


def durations(scenario: Scenario, arm: str = FLOOR) -> Distribution | None:
    """An arm's statistics; None where it has none that may be used."""
    if scenario.status != "valid":
        return None
    return next((one.durations for one in scenario.arms if one.name == arm), None)


def _measured(hosts: Iterable[Host]) -> list[Cells]:
    rows = []
    for model, members in by_model(hosts).items():
        means: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for host in members:
            for scenario in host.scenarios:
                found = durations(scenario)
                if found is not None:
                    means[of_scenario(scenario)].append((host.host, found.mean / 1e6))
        rows.append(
            {
                "source": "measured",
                "ranked": not model.emulated,
                "device": model.title,
                "bus": model.interface,
                "firmware": model.firmware,
                "where": sorted({host.host for host in members}),
                "values": {name: median_by_host(of) for name, of in means.items()},
                "printed": {},
            }
        )
    return rows


def emulated(words: Iterable[str]) -> bool:
    """Whether an import's own words name a software TPM."""
    return any(map(_EMULATED.search, words))


def _imported(documents: Iterable[Imported]) -> list[Cells]:
    rows = []
    for one in sorted(documents, key=lambda one: one.path):
        document = one.document
        means = {
            operation_name(figure["operation"]): figure
            for figure in document["figures"]
            if figure["statistic"] == "mean" and "value_ns" in figure
        }
        words = [document["device"] or "", *(about["value"] for about in document["about"])]
        caps = next((found for found in map(_CAPS.search, words) if found), None)
        named = " ".join((caps["vendor"] or caps["maker"]).split()) if caps else ""
        rows.append(
            {
                "source": "imported",
                # Of what is not said to be a chip nobody knows whether it is one.
                "ranked": bool(document["device"] or named) and not emulated(words),
                "device": document["device"] or named or document["source"]["file"],
                "bus": "bus not stated",
                "firmware": caps["fw"] if caps else "",
                "where": [f"imported from {document['source']['file']}"],
                "values": {name: figure["value_ns"] / 1e6 for name, figure in means.items()},
                "printed": {
                    name: figure["printed"]
                    for name, figure in means.items()
                    if figure["unit"] == "ms"
                },
            }
        )
    return rows


def _published(published: Iterable[Published]) -> list[Cells]:
    rows: dict[str, Cells] = {}
    for one in published:
        if (one.scenario, one.statistic) == ("device", "mean") and one.source != EXAMPLE:
            words = one.device.removeprefix(one.short).strip().removeprefix("(").removesuffix(")")
            bus, _, host = words.partition(", ")
            empty = {
                "source": "published",
                "ranked": True,
                "device": one.short,
                "bus": bus,
                "firmware": "",
                "where": [host] if host else [],
            }
            row = rows.setdefault(one.device, empty | {"values": {}, "printed": {}})
            row["values"][one.arm] = float(one.value)
            row["printed"][one.arm] = one.value
    return list(rows.values())


def place(value: float, ranked: Sequence[float]) -> str:
    """A value's place among several, the lowest the best, in words; empty among fewer than two."""
    if len(ranked) < 2:
        return ""
    number = 1 + sum(other < value for other in ranked)
    if number == 1:
        return "best"
    ending = "th" if number % 100 in {11, 12, 13} else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"


def _table(rows: Sequence[Cells], titles: Mapping[str, str]) -> Beside | None:
    """One group's table; None where neither a host nor an imported document has any of it."""
    here = [row for row in rows if row["source"] != "published"]
    if not any(titles.keys() & row["values"].keys() for row in here):
        return None
    ranked = {
        name: [row["values"][name] for row in rows if name in row["values"] and row["ranked"]]
        for name in titles
    }
    shown = []
    for row in rows:
        cells = {}
        for name in titles:
            value = row["values"].get(name)
            cells[name] = {
                "text": ""
                if value is None
                else row["printed"].get(name) or text.significant(value),
                "place": "" if value is None or not row["ranked"] else place(value, ranked[name]),
            }
        if any(cell["text"] for cell in cells.values()):
            shown.append(row | {"cells": cells})
    return Beside(list(titles.items()), shown)


def beside(
    hosts: Iterable[Host], published: Iterable[Published], imported: Iterable[Imported]
) -> list[Beside]:
    """The tables of devices, one for each group of operations that anything here has.

    Args:
        hosts: Hosts with the device suite.
        published: All published figures.
        imported: All imported documents.
    """
    rows = [*_measured(hosts), *_imported(imported), *_published(published)]
    tables = [_table(rows, titles) for titles in GROUPS]
    return [table for table in tables if table is not None]
