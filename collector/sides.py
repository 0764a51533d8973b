"""The two sides of a comparison: each host's latest result with its samples, by host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from collector import labels
from collector.fleet import Kind
from collector.load import Broken, Imported, documents
from collector.sample import Sample
from collector.summarise import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from collector.load import Loaded

# Scenario, curve, arm.
Key = tuple[str, str | None, str]

# What is worth naming where it differs between the two sides: where it stands in a document.
CIRCUMSTANCES = (
    *(("system", name) for name in ("kernel", "cpu_model", "cpus_usable", "cpu_governor")),
    *(("agent", name) for name in ("version", "python", "openssl", "tpm2_pytss")),
    *(("tpm", name) for name in ("manufacturer", "firmware_version", "tcti", "resource_manager")),
    *(("platform", name) for name in ("tee", "tpm_location")),
)


@dataclass(frozen=True)
class Measured:
    """One host on one side.

    Attributes:
        host: The host.
        run: Its run.
        kind: Its kind.
        finished_at: When the run ended.
        samples: The samples of each arm of a valid scenario.
        unusable: Scenarios that are not valid, by name and curve, with status and reason.
        circumstances: What :data:`CIRCUMSTANCES` names.
    """

    host: str
    run: str
    kind: Kind
    finished_at: str
    samples: Mapping[Key, Sample]
    unusable: Mapping[tuple[str, str | None], tuple[str, str]]
    circumstances: Mapping[str, Any]


@dataclass
class Side:
    """All hosts of one side, and what could not be used of it.

    Attributes:
        name: ``base`` or ``new``.
        hosts: Each host's latest result.
        older: Hosts and runs that were set aside for a later run of the same host.
        broken: Files that are no usable documents.
        imported: Imported documents, which have no samples to compare.
    """

    name: str
    hosts: dict[str, Measured] = field(default_factory=dict)
    older: list[tuple[str, str]] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)


def _measured(loaded: Loaded, side: str) -> Measured:
    document = loaded.document
    samples: dict[Key, Sample] = {}
    unusable = {}
    for scenario in document["scenarios"]:
        name, curve = scenario["name"], scenario["curve"]
        if scenario["status"] != "valid":
            unusable[name, curve] = (scenario["status"], scenario["reason"])
            continue
        for arm in scenario["arms"]:
            if arm["samples_ns"]:
                stream = f"{side}/{name}/{curve}/{arm['name']}"
                samples[name, curve, arm["name"]] = Sample.of(arm, stream)
    bare = document | {"scenarios": [], "keys": [], "other_transports": []}
    host = summarise(type(loaded)(loaded.path, bare), keep_samples=False)
    return Measured(
        host=host.host,
        run=host.run_id,
        kind=Kind.of(host),
        finished_at=host.finished_at,
        samples=samples,
        unusable=unusable,
        circumstances={f"{part}.{name}": document[part][name] for part, name in CIRCUMSTANCES},
    )


def read_side(name: str, paths: Iterable[Path]) -> Side:
    """Reads one side. Of several runs of a host the latest counts."""
    side = Side(name)
    for loaded in documents(paths):
        if isinstance(loaded, Broken):
            side.broken.append(loaded)
        elif isinstance(loaded, Imported):
            side.imported.append(loaded.path)
        else:
            found = _measured(loaded, name)
            known = side.hosts.get(found.host)
            if known is not None:
                older, found = sorted((known, found), key=lambda one: (one.finished_at, one.run))
                side.older.append((older.host, older.run))
            side.hosts[found.host] = found
    return side


def rank(key: Key) -> tuple[object, ...]:
    """Sort key of an arm of a scenario on a curve, in order of presentation."""
    name, curve, arm = key
    return (*labels.scenario_rank(name, curve), labels.arm_rank(arm))
