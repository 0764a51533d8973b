"""Compares two runs of the same hosts, arm by arm, and then over all hosts.

Within a host the samples of an arm are compared with the Mann-Whitney U test, two-sided
(Mann and Whitney 1947; scipy), corrected for the number of comparisons by Holm's procedure
(Holm 1979). The effect size is Cliff's delta (Cliff 1993): how much more often a new sample
is above a base sample than below it, from -1 to 1. Across hosts, the hosts' ratios are
resampled. There is no t test: durations are not normal, and a mean hides what a tail does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from scipy import stats as scipy_stats

from collector.fleet import FEW, Kind, median_of_hosts
from collector.sample import Sample, ratio_of_medians
from collector.sides import Key, Measured, Side, rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.stats import Interval

# asv's limit for calling a difference one.
P_LIMIT = 0.002
# The least change of a median that matters, as a ratio; and the least |Cliff's delta| that is
# not negligible (Romano and others 2006).
MIN_RATIO = 1.05
MIN_DELTA = 0.147


class Change(StrEnum):
    """What became of an arm."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Compared:
    """One arm on one host, base against new. Durations in nanoseconds.

    Attributes:
        host: The host.
        kind: Its kind, on the new side.
        key: Scenario, curve and arm.
        base_n: Samples on the base side.
        new_n: Samples on the new side.
        base_ns: Median on the base side.
        new_ns: Median on the new side.
        ratio: New median over base median, with its 95 % bootstrap interval; None where the
            base can be 0.
        p: Of the Mann-Whitney U test, two-sided.
        p_holm: The same after Holm's correction over all comparisons.
        delta: Cliff's delta, above 0 where new samples are longer.
        change: The verdict.
    """

    host: str
    kind: Kind
    key: Key
    base_n: int
    new_n: int
    base_ns: float
    new_ns: float
    ratio: Interval | None
    p: float
    p_holm: float
    delta: float
    change: Change


@dataclass(frozen=True, slots=True)
class Together:
    """One arm on all hosts of a kind: the median of their ratios.

    Its interval comes from resampling hosts, or is their range where they are few.
    """

    kind: Kind
    key: Key
    hosts: int
    ratio: Interval
    change: Change

    @property
    def few(self) -> bool:
        """Whether the interval is only a range."""
        return self.hosts < FEW


@dataclass(frozen=True, slots=True)
class Unmatched:
    """What is on one side only, or usable on one side only.

    Attributes:
        side: The side it is missing or unusable on: ``base``, ``new`` or ``both``.
        host: The host.
        key: Scenario, curve and arm; the arm is empty for a whole scenario; None for a host.
        status: ``absent``, or the scenario's status.
        reason: Why, where the document says so.
    """

    side: str
    host: str
    key: Key | None
    status: str
    reason: str


@dataclass
class Comparison:
    """The outcome.

    ``differing`` holds, for each host, what of its circumstances is not as it was: the place
    in the document, base and new.
    """

    base: Side
    new: Side
    arms: list[Compared] = field(default_factory=list)
    together: list[Together] = field(default_factory=list)
    unmatched: list[Unmatched] = field(default_factory=list)
    differing: list[tuple[str, str, str, str]] = field(default_factory=list)

    def count(self, change: Change) -> int:
        """How many arms on hosts have this verdict."""
        return sum(one.change is change for one in self.arms)

    @property
    def regressed(self) -> bool:
        """Whether anything got slower, on a host or over hosts."""
        changes = [*(one.change for one in self.arms), *(one.change for one in self.together)]
        return Change.SLOWER in changes


def mann_whitney(base: Sample, new: Sample) -> tuple[float, float]:
    """The p of the two-sided Mann-Whitney U test, and Cliff's delta of new against base."""
    if base.ordered[0] == base.ordered[-1] == new.ordered[0] == new.ordered[-1]:
        return 1.0, 0.0
    found = scipy_stats.mannwhitneyu(new.ordered, base.ordered, alternative="two-sided")
    pairs = len(new.ordered) * len(base.ordered)
    return float(found.pvalue), 2 * float(found.statistic) / pairs - 1


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p values, in their order."""
    adjusted = [1.0] * len(values)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, values[index] * (len(values) - place)))
        adjusted[index] = highest
    return adjusted


def _same(ratio: Interval) -> bool:
    """Whether the whole interval is closer to 1 than a change that matters."""
    low = ratio.value if ratio.low is None else ratio.low
    high = ratio.value if ratio.high is None else ratio.high
    return low > 1 / MIN_RATIO and high < MIN_RATIO


def judge(ratio: Interval | None, p_holm: float, delta: float) -> Change:
    """The verdict on one arm of one host."""
    if ratio is None:
        return Change.UNDECIDED
    if p_holm < P_LIMIT and abs(delta) >= MIN_DELTA:
        if ratio.value >= MIN_RATIO and delta > 0:
            return Change.SLOWER
        if ratio.value <= 1 / MIN_RATIO and delta < 0:
            return Change.FASTER
    return Change.SAME if _same(ratio) else Change.UNDECIDED


def judge_hosts(ratio: Interval) -> Change:
    """The verdict on several hosts: by the whole interval, and by the size of the change."""
    if ratio.low is not None and ratio.low > 1 and ratio.value >= MIN_RATIO:
        return Change.SLOWER
    if ratio.high is not None and ratio.high < 1 and ratio.value <= 1 / MIN_RATIO:
        return Change.FASTER
    return Change.SAME if _same(ratio) else Change.UNDECIDED


def _arms(pairs: Iterable[tuple[Measured, Measured]]) -> list[Compared]:
    found = [
        (old, new, key, mann_whitney(old.samples[key], new.samples[key]))
        for old, new in pairs
        for key in sorted(old.samples.keys() & new.samples.keys(), key=rank)
    ]
    corrected = holm([p for *_, (p, _) in found])
    arms = []
    for (old, new, key, (p, delta)), p_holm in zip(found, corrected, strict=True):
        base_sample, new_sample = old.samples[key], new.samples[key]
        ratio = ratio_of_medians(new_sample, base_sample)
        arms.append(
            Compared(
                host=new.host,
                kind=new.kind,
                key=key,
                base_n=len(base_sample.ordered),
                new_n=len(new_sample.ordered),
                base_ns=base_sample.median,
                new_ns=new_sample.median,
                ratio=ratio,
                p=p,
                p_holm=p_holm,
                delta=delta,
                change=judge(ratio, p_holm, delta),
            )
        )
    return arms


def _together(arms: Iterable[Compared]) -> list[Together]:
    gathered: dict[tuple[Kind, Key], list[float]] = defaultdict(list)
    for one in arms:
        if one.ratio is not None:
            gathered[one.kind, one.key].append(one.ratio.value)
    found = []
    for (kind, key), ratios in sorted(gathered.items(), key=lambda of: (of[0][0], rank(of[0][1]))):
        if len(ratios) > 1:
            label = "/".join(str(part) for part in ("compare", *key))
            ratio = median_of_hosts(ratios, label)
            found.append(Together(kind, key, len(ratios), ratio, judge_hosts(ratio)))
    return found


def _lacking(side: str, here: Measured, there: Measured) -> list[Unmatched]:
    """Arms that ``there`` has and ``here``, on this side, has not, in no scenario of its own."""
    missing = there.samples.keys() - here.samples.keys()
    return [
        Unmatched(side, here.host, key, "absent", "")
        for key in sorted(missing, key=rank)
        if key[:2] not in here.unusable
    ]


def _unusable(old: Measured, new: Measured) -> list[Unmatched]:
    """Scenarios that are not valid on a side; said once where both sides say the same."""
    found: list[Unmatched] = []
    for key in sorted(old.unusable.keys() | new.unusable.keys(), key=lambda key: rank((*key, ""))):
        sides = {"base": old.unusable.get(key), "new": new.unusable.get(key)}
        if sides["base"] == sides["new"]:
            sides = {"both": sides["base"]}
        found.extend(
            Unmatched(side, new.host, (*key, ""), *why)
            for side, why in sides.items()
            if why is not None
        )
    return found


def compare(base: Side, new: Side) -> Comparison:
    """Compares the hosts that are on both sides, matched by name."""
    names = sorted(base.hosts.keys() & new.hosts.keys())
    pairs = [(base.hosts[name], new.hosts[name]) for name in names]
    comparison = Comparison(base, new)
    for here, there in ((base, new), (new, base)):
        comparison.unmatched.extend(
            Unmatched(here.name, name, None, "absent", "")
            for name in sorted(there.hosts.keys() - here.hosts.keys())
        )
    for old, later in pairs:
        comparison.unmatched.extend(_unusable(old, later))
        comparison.unmatched.extend(_lacking(base.name, old, later))
        comparison.unmatched.extend(_lacking(new.name, later, old))
        comparison.differing.extend(
            (later.host, place, str(was), str(later.circumstances[place]))
            for place, was in old.circumstances.items()
            if later.circumstances[place] != was
        )
    comparison.arms = _arms(pairs)
    comparison.together = _together(comparison.arms)
    return comparison
