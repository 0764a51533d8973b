"""Across hosts, where the host is the unit: intervals come from resampling hosts.

Hosts are only put together with hosts of their kind (the same TEE, the same place of
the TPM, emulated or not). A host measured in several runs counts once, with the median
of its runs' figures.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from collector import labels
from collector.ratios import COMPARISONS, Comparison
from collector.stats import Distribution, Interval, bootstrap_medians, percentile_interval, quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.summarise import Host


# Below this many hosts no 95 % interval of their median exists (2 * 0.5^5 > 0.05); the range
# is given in its place, and called that.
FEW = 6


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """What hosts must have in common to be put together. Emulated TPMs sort last."""

    emulated: bool
    tee: str
    tpm_location: str
    simulated_device: bool

    @classmethod
    def of(cls, host: Host) -> Kind:
        """The kind of a host."""
        simulated = bool(host.document["tpm"]["simulated_device"])
        return cls(host.emulated, host.tee, host.tpm_location, simulated)


@dataclass(frozen=True, slots=True)
class Figure:
    """An arm of a scenario on all hosts of a kind. Durations in nanoseconds.

    Attributes:
        kind: The hosts' kind.
        scenario: The scenario.
        curve: The curve, or None.
        arm: The arm.
        hosts: How many hosts it comes from.
        median: Median of the hosts' medians, with its interval from resampling hosts,
            or their range where they are few; with one host, that host's own interval
            from its samples.
        p95: Median of the hosts' 95th percentiles.
        rate_per_s: Median of the hosts' rates.
        between: Interquartile range of the hosts' medians over their median; None for one host.
        within: Median of the hosts' own interquartile range over median; None when a median is 0.
        medians: Each host's median, ascending.
    """

    kind: Kind
    scenario: str
    curve: str | None
    arm: str
    hosts: int
    median: Interval
    p95: float
    rate_per_s: float | None
    between: float | None
    within: float | None
    medians: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FleetRatio:
    """A comparison of two arms on all hosts of a kind.

    ``ratio`` is the median of the hosts' ratios, with its interval from resampling hosts,
    or their range where they are few; with one host, that host's own interval from its samples.
    """

    kind: Kind
    comparison: Comparison
    scenario: str
    curve: str | None
    hosts: int
    ratio: Interval


def median_of_hosts(values: Sequence[float], label: str) -> Interval:
    """Median of one value per host, with the interval from resampling hosts, or their range."""
    ordered = np.sort(np.array(values, dtype=np.float64))
    if len(ordered) < FEW:
        return Interval(float(np.median(ordered)), float(ordered[0]), float(ordered[-1]))
    return percentile_interval(quantile(ordered, 0.5), bootstrap_medians(ordered, label))


def _spread(values: Sequence[float]) -> float | None:
    ordered = np.sort(np.array(values, dtype=np.float64))
    q1, middle, q3 = (quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return (q3 - q1) / middle if middle > 0 else None


_Group = tuple[Kind, str, str | None, str]


def _group_rank(group: _Group) -> tuple[object, ...]:
    kind, scenario, curve, arm = group
    return (kind, *labels.scenario_rank(scenario, curve), labels.arm_rank(arm))


def figures(hosts: Iterable[Host]) -> list[Figure]:
    """Puts the valid scenarios' arms together, by kind of host, in order of presentation."""
    gathered: dict[_Group, dict[str, list[Distribution]]] = defaultdict(lambda: defaultdict(list))
    for host in hosts:
        kind = Kind.of(host)
        for scenario in host.scenarios:
            for arm in scenario.arms if scenario.status == "valid" else ():
                if arm.durations is not None:
                    group = (kind, scenario.name, scenario.curve, arm.name)
                    gathered[group][host.host].append(arm.durations)
    return [_figure(group, gathered[group]) for group in sorted(gathered, key=_group_rank)]


def _figure(group: _Group, by_host: dict[str, list[Distribution]]) -> Figure:
    runs = list(by_host.values())
    medians = [statistics.median(one.median.value for one in host) for host in runs]
    rates = [one.rate_per_s for host in runs for one in host if one.rate_per_s is not None]
    spreads = [
        (one.q3 - one.q1) / one.median.value for host in runs for one in host if one.median.value
    ]
    alone = len(runs) == 1 and len(runs[0]) == 1
    label = "/".join(str(part) for part in group[1:])
    return Figure(
        *group,
        hosts=len(runs),
        median=runs[0][0].median if alone else median_of_hosts(medians, label),
        p95=statistics.median(statistics.median(one.p95 for one in host) for host in runs),
        rate_per_s=statistics.median(rates) if rates else None,
        between=_spread(medians) if len(runs) > 1 else None,
        within=statistics.median(spreads) if spreads else None,
        medians=tuple(sorted(medians)),
    )


def ratios(hosts: Iterable[Host]) -> list[FleetRatio]:
    """Puts the hosts' ratios together, by kind of host, in order of presentation."""
    gathered: dict[tuple[Comparison, Kind, str, str | None], dict[str, list[Interval]]]
    gathered = defaultdict(lambda: defaultdict(list))
    for host in hosts:
        kind = Kind.of(host)
        for scenario in host.scenarios:
            for found in scenario.ratios:
                group = (found.comparison, kind, scenario.name, scenario.curve)
                gathered[group][host.host].append(found.ratio)

    def rank(group: tuple[Comparison, Kind, str, str | None]) -> tuple[object, ...]:
        comparison, kind, name, curve = group
        return (COMPARISONS.index(comparison), *labels.scenario_rank(name, curve), kind)

    together = []
    for group in sorted(gathered, key=rank):
        comparison, kind, name, curve = group
        runs = list(gathered[group].values())
        values = [statistics.median(one.value for one in host) for host in runs]
        alone = len(runs) == 1 and len(runs[0]) == 1
        label = f"{comparison.name}/{name}/{curve}"
        ratio = runs[0][0] if alone else median_of_hosts(values, label)
        together.append(FleetRatio(kind, comparison, name, curve, len(runs), ratio))
    return together
