"""Signing and verifying by message size beside each other: measured, imported, published.

Means in microseconds, which is what BenchmarkDotNet prints. Nothing is pooled across sources.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.beside import emulated, place
from collector.imported_messages import message_rows
from collector.models import by_model, median_by_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.load import Imported
    from collector.published import Published
    from collector.summarise import Host

Cells = dict[str, Any]

# What is compared: the hash inside the span, as the published study has it.
KEYS = ("tpm", "software")
# Scenario, curve, key: figures of these alone are set against each other.
_What = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class MessageTable:
    """Sizes in bytes, and a row for each operation, curve, key and source."""

    sizes: list[int]
    rows: list[Cells]

    def __bool__(self) -> bool:
        return bool(self.rows)


def _row(what: _What, who: Cells, values: dict[int, float], printed: dict[int, str]) -> Cells:
    return who | {"what": what, "values": values, "printed": printed}


def _measured(hosts: Iterable[Host]) -> list[Cells]:
    rows = []
    for model, members in by_model(hosts).items():
        means: dict[_What, dict[int, list[tuple[str, float]]]]
        means = defaultdict(lambda: defaultdict(list))
        for host in members:
            for scenario in host.scenarios:
                for arm in scenario.arms if scenario.status == "valid" else ():
                    key, _, size = arm.name.rpartition("-")
                    if key in KEYS and size.isdigit() and arm.durations is not None:
                        what = (scenario.name, scenario.curve or "", key)
                        means[what][int(size)].append((host.host, arm.durations.mean / 1e3))
        who = {
            "device": model.title,
            "where": sorted({host.host for host in members}),
            "source": "measured",
            "ranked": not model.emulated,
        }
        for what, by_size in means.items():
            rows.append(
                _row(what, who, {size: median_by_host(of) for size, of in by_size.items()}, {})
            )
    return rows


def _ranked(what: _What) -> bool:
    """Whether figures of others can have a place: not where nobody knows what was timed.

    A TPM's key does not make the TPM verify; only our own arm is known to run there.
    """
    scenario, _, key = what
    return (scenario, key) != ("message-size-verify", "tpm")


def _imported(documents: Iterable[Imported]) -> list[Cells]:
    rows: list[Cells] = []
    for one in sorted(documents, key=lambda one: one.path):
        found: dict[_What, dict[int, dict[str, Any]]] = defaultdict(dict)
        for row in message_rows(one.document):
            if "value_ns" in row.figures.get("mean", {}):
                found[row.scenario, row.curve, row.key][row.size] = row.figures["mean"]
        file = one.document["source"]["file"]
        who = {
            "device": one.document["device"] or file,
            "where": [f"imported from {file}"],
            "source": "imported",
        }
        # As with operations: of what is not said to be a chip nobody knows whether it is one.
        chip = bool(one.document["device"]) and not emulated([one.document["device"]])
        for what, by_size in found.items():
            values = {size: figure["value_ns"] / 1e3 for size, figure in by_size.items()}
            printed = {
                size: figure["printed"]
                for size, figure in by_size.items()
                if figure["unit"] in {"us", "\u03bcs", "\u00b5s"}
            }
            rows.append(
                _row(
                    what,
                    who | {"ranked": _ranked(what) and (chip or what[2] == "software")},
                    values,
                    printed,
                )
            )
    return rows


def _published(published: Iterable[Published]) -> list[Cells]:
    found: dict[tuple[_What, str, str], dict[int, str]] = defaultdict(dict)
    for one in published:
        key, _, size = one.arm.rpartition("-")
        if one.scenario.startswith("message-size-") and one.statistic == "mean" and key in KEYS:
            found[(one.scenario, one.curve, key), one.short, one.source][int(size)] = one.value
    return [
        _row(
            what,
            {
                "device": device,
                "where": [source],
                "source": "published",
                "ranked": _ranked(what),
            },
            {size: float(value) for size, value in printed.items()},
            printed,
        )
        for (what, device, source), printed in found.items()
    ]


def _rank(what: _What) -> tuple[object, ...]:
    scenario, curve, key = what
    return (*labels.scenario_rank(scenario, curve), labels.rank(labels.MESSAGE_ARMS, key))


def message_table(
    hosts: Iterable[Host], published: Sequence[Published], imported: Iterable[Imported]
) -> MessageTable:
    """The table; empty where nothing was measured or imported.

    Published rows are only there for what something here has too.

    Args:
        hosts: Hosts with the suite on message sizes.
        published: All published figures.
        imported: All imported documents.
    """
    here = [*_measured(hosts), *_imported(imported)]
    asked = {row["what"] for row in here}
    rows = here + [row for row in _published(published) if row["what"] in asked]
    sizes = sorted({size for row in rows for size in row["values"]})
    shown = []
    for row in sorted(rows, key=lambda row: _rank(row["what"])):
        rivals = [one for one in rows if one["what"] == row["what"] and one["ranked"]]
        cells = []
        for size in sizes:
            value = row["values"].get(size)
            ranked = [one["values"][size] for one in rivals if size in one["values"]]
            cells.append(
                {
                    "text": ""
                    if value is None
                    else row["printed"].get(size) or text.significant(value),
                    "place": place(value, ranked) if value is not None and row["ranked"] else "",
                }
            )
        scenario, curve, key = row["what"]
        words = {
            "operation": labels.title(labels.SCENARIOS, scenario),
            "curve": labels.curve_title(curve or None),
            "key": labels.title(labels.MESSAGE_ARMS, key) or "not stated",
        }
        shown.append(row | words | {"cells": cells})
    return MessageTable(sizes, shown)
