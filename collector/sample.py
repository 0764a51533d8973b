"""An arm's samples while its document is at hand."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from collector.stats import Floats, Interval, bootstrap_medians, percentile_interval, quantile


# Not frozen: a fleet has hundreds of thousands, and those take three times as long to make.
@dataclass(eq=False)
class Sample:
    """One arm's samples, with what the claims need of its counts.

    Attributes:
        arm: The arm's name.
        ordered: Durations in nanoseconds, ascending.
        stream: Names the arm within its document, and with that its bootstrap's random numbers.
        signatures: The counts of signatures that are known, in the document's order.
        resumed: Connections resumed; None without connections.
    """

    arm: str
    ordered: Floats
    stream: str
    signatures: tuple[int, ...]
    resumed: int | None

    @classmethod
    def of(cls, arm: dict[str, Any], stream: str, ordered: Floats | None = None) -> Sample:
        """Takes an arm out of a document.

        Args:
            arm: The arm.
            stream: Its name within the document.
            ordered: Its samples as they are kept, where they were put in order already.
        """
        if ordered is None:
            ordered = np.sort(np.array(arm["samples_ns"], dtype=np.float64))
        counts = arm["signatures"]
        known = (counts["signer"], counts["transport"], counts["peer"])
        signatures = tuple([count for count in known if count is not None])
        return cls(arm["name"], ordered, stream, signatures, arm["resumed"])

    @functools.cached_property
    def median(self) -> float:
        """The median, in nanoseconds."""
        return quantile(self.ordered, 0.5)

    @functools.cached_property
    def draws(self) -> Floats:
        """Bootstrap draws of the median, in nanoseconds."""
        return bootstrap_medians(self.ordered, self.stream)

    @functools.cached_property
    def known_ratios(self) -> dict[str, Interval | None]:
        """Ratios to other arms that were worked out already, by the other's ``stream``."""
        return {}


def ratio_of_medians(numerator: Sample, denominator: Sample) -> Interval | None:
    """The ratio of two medians with its 95 % interval from resampling the samples of each.

    Returns:
        None where either has no samples, or where the denominator can be 0.
    """
    known = numerator.known_ratios
    if denominator.stream not in known:
        known[denominator.stream] = _ratio(numerator, denominator)
    return known[denominator.stream]


def _ratio(numerator: Sample, denominator: Sample) -> Interval | None:
    if not len(numerator.ordered) or not len(denominator.ordered) or denominator.ordered[0] <= 0:
        return None
    return percentile_interval(
        numerator.median / denominator.median, numerator.draws / denominator.draws
    )
