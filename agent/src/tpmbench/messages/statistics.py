"""Student's t, for intervals as BenchmarkDotNet has them, and a line through durations by size.

Computed here so that a measured host needs no scipy; the tests compare with it.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.999
"""BenchmarkDotNet's, of the interval whose half is its Error."""


@dataclass(frozen=True)
class Summary:
    """BenchmarkDotNet's columns, in the unit of the samples.

    Attributes:
        mean: arithmetic.
        error: half of the mean's 99.9 % confidence interval; NaN for a single sample.
        deviation: standard deviation with n - 1; NaN for a single sample.
    """

    mean: float
    error: float
    deviation: float


@dataclass(frozen=True)
class Line:
    """A straight line through durations by message size, by least squares.

    Attributes:
        slope: by which a byte more makes it longer, in the unit of the samples.
        error: standard error of the slope.
        p: probability of a slope as far from zero where size does not matter.
    """

    slope: float
    error: float
    p: float


def summary(samples: Sequence[float]) -> Summary:
    """Summarise samples; at least one. Nothing is left out, unlike BenchmarkDotNet's default."""
    mean, count = statistics.fmean(samples), len(samples)
    if count < 2:
        return Summary(mean, math.nan, math.nan)
    deviation = statistics.stdev(samples, mean)
    half = t_quantile(1 - (1 - CONFIDENCE) / 2, count - 1) * deviation / math.sqrt(count)
    return Summary(mean, half, deviation)


def line(sizes: Sequence[float], samples: Sequence[float]) -> Line:
    """Fit a line.

    Args:
        sizes: of each sample's message, in bytes; not all alike, three at the least.
        samples: durations.
    """
    slope, intercept = statistics.linear_regression(sizes, samples)
    freedom = len(sizes) - 2
    rest = math.fsum((y - intercept - slope * x) ** 2 for x, y in zip(sizes, samples, strict=True))
    middle = statistics.fmean(sizes)
    spread = math.fsum((x - middle) ** 2 for x in sizes)
    error = math.sqrt(rest / freedom / spread)
    if error == 0.0:
        return Line(slope, error, 1.0 if slope == 0.0 else 0.0)
    return Line(slope, error, 2 * (1 - t_cdf(abs(slope) / error, freedom)))


def t_cdf(t: float, freedom: float) -> float:
    """Return the probability that Student's t is at most ``t``.

    By the regularised incomplete beta function (Abramowitz and Stegun, 26.7.1).
    """
    whole = freedom + t * t
    tail = _beta(freedom / whole, t * t / whole, freedom / 2, 0.5) / 2
    return 1 - tail if t >= 0 else tail


def t_quantile(probability: float, freedom: float) -> float:
    """Return the value that Student's t stays below with a probability from 0.5 to 1.

    By bisection; exact to about ten digits.
    """
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); ``rest`` is 1 - x, exactly."""
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log(rest)
    )  # fmt: skip
    # The continued fraction converges fast below this point, its mirror image above.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of DLMF 8.17.22 by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d or tiny)
    value = d
    for m in range(1, 1000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + factor * d or tiny)
            c = 1 + factor / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
