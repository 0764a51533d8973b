"""Decides the claims for one host while its samples are at hand, and for all hosts after that."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from collector.claims import (
    CLAIMS,
    Claim,
    CountTest,
    KeyTest,
    MedianTest,
    RateTest,
    RatioTest,
    Ref,
    Test,
)
from collector.sample import Sample, ratio_of_medians
from collector.stats import Interval, percentile_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Verdict(StrEnum):
    """What a run says about a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


# By scenario, arm and curve. The arm is None where a whole scenario has no usable figures.
Samples = dict[tuple[str, str, str | None], Sample]
Reasons = dict[tuple[str, str | None, str | None], str]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one host says of one claim on one curve.

    Attributes:
        claim: The claim's name.
        curve: The curve; None where the claim spans curves or has none.
        verdict: The verdict.
        figure: The figure that decided, or None.
        unit: ``x`` ratio, ``%`` share (figure 0 to 1), ``ns``, ``/s``, ``of`` (a count), ``yes``.
        total: For ``of``: the number of samples the count stands beside.
        reason: Why it is undecided; None otherwise.
        asked: False where the claim could not be put to this host and curve at all: nothing
            was measured that bears on it. Such a case has no voice in :func:`overall`.
    """

    claim: str
    curve: str | None
    verdict: Verdict
    figure: Interval | None
    unit: str
    total: int | None = None
    reason: str | None = None
    asked: bool = True


def judge(figure: Interval, low: float | None, high: float | None) -> Verdict:
    """Decides by the whole interval: inside the band, outside it, or across an end of it."""
    bottom = figure.value if figure.low is None else figure.low
    top = figure.value if figure.high is None else figure.high
    if (low is not None and top < low) or (high is not None and bottom > high):
        return Verdict.REFUTED
    if (low is None or bottom >= low) and (high is None or top <= high):
        return Verdict.CONFIRMED
    return Verdict.UNDECIDED


def _judged(
    claim: str,
    curve: str | None,
    figure: Interval,
    band: tuple[float | None, float | None],
    unit: str,
) -> Finding:
    verdict = judge(figure, *band)
    reason = "the interval crosses the limit" if verdict is Verdict.UNDECIDED else None
    return Finding(claim, curve, verdict, figure, unit, reason=reason)


def _decide_ratio(
    test: RatioTest, claim: str, curve: str | None, samples: Sequence[Sample]
) -> Finding:
    ratio = ratio_of_medians(*samples)
    if ratio is None:
        reason = "no ratio: an arm without samples, or of no duration"
        return Finding(claim, curve, Verdict.UNDECIDED, None, test.unit, reason=reason)
    return _judged(claim, curve, ratio, (test.low, test.high), test.unit)


def _decide_median(
    test: MedianTest, claim: str, curve: str | None, samples: Sequence[Sample]
) -> Finding:
    (sample,) = samples
    figure = percentile_interval(sample.median, sample.draws)
    return _judged(claim, curve, figure, (test.low_ns, test.high_ns), "ns")


def _decide_rate(
    test: RateTest, claim: str, curve: str | None, samples: Sequence[Sample]
) -> Finding:
    (sample,) = samples
    total = float(sample.ordered.sum())
    if total <= 0:
        reason = "no rate: samples of no duration"
        return Finding(claim, curve, Verdict.UNDECIDED, None, "/s", reason=reason)
    rate = Interval(len(sample.ordered) * 1e9 / total, None, None)
    return _judged(claim, curve, rate, (test.low, test.high), "/s")


def _decide_count(
    test: CountTest, claim: str, curve: str | None, samples: Sequence[Sample]
) -> Finding:
    (sample,) = samples
    total = len(sample.ordered)
    wanted = total if test.signatures is None else test.signatures
    if not sample.signatures or (test.resumes and sample.resumed is None):
        reason = "nothing counted"
        return Finding(claim, curve, Verdict.UNDECIDED, None, "of", total, reason)
    right = set(sample.signatures) == {wanted}
    if test.resumes:
        right = right and sample.resumed == total - 1
    odd = next((count for count in sample.signatures if count != wanted), sample.signatures[0])
    verdict = Verdict.CONFIRMED if right else Verdict.REFUTED
    return Finding(claim, curve, verdict, Interval(float(odd), None, None), "of", total)


# The curves on which a scenario was measured, or was to be.
_Curves = dict[str, set[str | None]]


def _curves_of(samples: Samples, reasons: Reasons) -> _Curves:
    found: _Curves = defaultdict(set)
    for scenario, _, curve in itertools.chain(samples, reasons):
        found[scenario].add(curve)
    return found


def _curves(test: Test, known: _Curves) -> list[str | None]:
    if not test.refs or test.refs[0].curve is not None:
        return [None]
    curves = {curve for ref in test.refs for curve in known.get(ref.scenario, ())}
    return sorted(curves, key=str) or [None]


def _missing(claim: Claim, ref: Ref, curve: str | None, at: str | None, why: Reasons) -> Finding:
    """What a host says of a claim whose figures it does not have."""
    whole = why.get((ref.scenario, None, at), "not measured")
    reason = why.get((ref.scenario, ref.arm, at), whole)
    # An invalid scenario was asked, and its answer cannot be used.
    asked = whole.startswith("invalid: ")
    return Finding(claim.name, curve, Verdict.UNDECIDED, None, "x", reason=reason, asked=asked)


def _find(claim: Claim, curve: str | None, samples: Samples, reasons: Reasons) -> Finding:
    taken = []
    for ref in claim.test.refs:
        at = ref.curve or curve
        sample = samples.get((ref.scenario, ref.arm, at))
        if sample is None or not len(sample.ordered):
            return _missing(claim, ref, curve, at, reasons)
        taken.append(sample)
    match claim.test:
        case RatioTest():
            return _decide_ratio(claim.test, claim.name, curve, taken)
        case MedianTest():
            return _decide_median(claim.test, claim.name, curve, taken)
        case RateTest():
            return _decide_rate(claim.test, claim.name, curve, taken)
        case CountTest():
            return _decide_count(claim.test, claim.name, curve, taken)
        case KeyTest():
            raise TypeError("a claim on keys needs no samples")


def _find_keys(claim: str, keys: Iterable[Mapping[str, Any]]) -> list[Finding]:
    found = [
        Finding(
            claim,
            key["curve"],
            Verdict.CONFIRMED if key["non_exportable"] else Verdict.REFUTED,
            Interval(float(key["non_exportable"]), None, None),
            "yes",
        )
        for key in keys
    ]
    why = "no key was made"
    return found or [Finding(claim, None, Verdict.UNDECIDED, None, "yes", reason=why, asked=False)]


def findings(
    samples: Samples,
    reasons: Reasons,
    keys: Iterable[Mapping[str, Any]],
    resource_manager: str,
) -> tuple[Finding, ...]:
    """Decides every claim for one host.

    Args:
        samples: The usable arms.
        reasons: Why others are not usable, in the document's words.
        keys: The document's ``keys``.
        resource_manager: The document's word for what swaps objects on the transport.
    """
    found: list[Finding] = []
    known = _curves_of(samples, reasons)
    for claim in CLAIMS:
        if isinstance(claim.test, KeyTest):
            found.extend(_find_keys(claim.name, keys))
        elif claim.swaps and resource_manager == "none":
            why = "no resource manager on this transport"
            found.append(
                Finding(claim.name, None, Verdict.UNDECIDED, None, "x", reason=why, asked=False)
            )
        else:
            curves = _curves(claim.test, known)
            found.extend(_find(claim, curve, samples, reasons) for curve in curves)
    return tuple(found)


def overall(claim: Claim, found: Sequence[Finding]) -> Verdict:
    """The verdict over all cases (a host and a curve) that the claim could be put to.

    It takes at least half of them, and none that says the contrary. Counts and attributes are
    exact, so one counter-example refutes a claim on them, whatever the others say.
    """
    cases = [finding.verdict for finding in found if finding.asked]
    if Verdict.REFUTED in cases and isinstance(claim.test, CountTest | KeyTest):
        return Verdict.REFUTED
    for verdict, contrary in (
        (Verdict.CONFIRMED, Verdict.REFUTED),
        (Verdict.REFUTED, Verdict.CONFIRMED),
    ):
        if 0 < len(cases) <= 2 * cases.count(verdict) and contrary not in cases:
            return verdict
    return Verdict.UNDECIDED
