"""Statistics within one host.

Quantiles are numpy's default, ``method="linear"`` (Hyndman and Fan 1996, type 7).
"""

from __future__ import annotations

import functools
import math
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = npt.NDArray[np.float64]

DRAWS = 2000
SEED = 20240612


# Tuples, for a fleet has hundreds of thousands of each, and frozen dataclasses take three times
# as long to make.
class Interval(NamedTuple):
    """An estimate and its 95 % interval, whose ends are None where there are too few values."""

    value: float
    low: float | None
    high: float | None


class Distribution(NamedTuple):
    """What is kept of one arm's samples. Durations in nanoseconds.

    Attributes:
        n: How many samples.
        median: The median with its exact 95 % order-statistic interval.
        q1: First quartile.
        q3: Third quartile.
        p95: 95th percentile.
        p99: 99th percentile.
        minimum: Shortest sample.
        maximum: Longest sample.
        mean: Arithmetic mean.
        stddev: Standard deviation with n - 1; None for one sample.
        error: BenchmarkDotNet's Error; None for one sample.
        rate_per_s: n divided by the sum of the samples, per second; None when the sum is 0.
    """

    n: int
    median: Interval
    q1: float
    q3: float
    p95: float
    p99: float
    minimum: float
    maximum: float
    mean: float
    stddev: float | None
    error: float | None
    rate_per_s: float | None


@functools.lru_cache(maxsize=4096)
def median_ranks(n: int, confidence: float = 0.95) -> tuple[int, int] | None:
    """Ranks, from 1, of the order statistics that bound the median.

    The interval [x(k), x(n+1-k)] holds the median of any continuous distribution with
    probability 1 - 2 P(B <= k - 1), B binomial(n, 1/2). k is the largest rank for which
    this is at least ``confidence`` (David and Nagaraja, Order Statistics, 7.1).

    Returns:
        The two ranks, or None where even the extremes do not reach the confidence (n < 6 at 95 %).
    """
    tail = (1 - confidence) / 2
    k = 0
    while k < n // 2 and float(special.bdtr(k, n, 0.5)) <= tail:
        k += 1
    return (k, n + 1 - k) if k else None


@functools.lru_cache(maxsize=4096)
def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t with ``freedom`` degrees of freedom."""
    return float(special.stdtrit(freedom, probability))


def error_of_mean(stddev: float, n: int) -> float:
    """BenchmarkDotNet's Error: half of the 99.9 % confidence interval of the mean.

    t(0.9995, n - 1) * stddev / sqrt(n), in the unit of ``stddev``; n at least 2.
    """
    return student_t(0.9995, n - 1) * stddev / math.sqrt(n)


def quantile(ordered: Sequence[float] | Floats, share: float) -> float:
    """Quantile of ascending values, in their unit: numpy's ``method="linear"``, for one share."""
    place = share * (len(ordered) - 1)
    below = int(place)
    low = float(ordered[below])
    high = float(ordered[min(below + 1, len(ordered) - 1)])
    return low + (high - low) * (place - below)


_SHARES = (0.5, 0.25, 0.75, 0.95, 0.99)


@functools.lru_cache(maxsize=4096)
def _places(n: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """Where quantiles of n ascending values lie, and how far past the lower of two neighbours.

    Columns: the values below the quantiles of ``_SHARES``, those above them, the ends of the
    median's interval (the first value twice, where it has none), the first and the last value.
    """
    places = [share * (n - 1) for share in _SHARES]
    below = [int(place) for place in places]
    above = [min(place + 1, n - 1) for place in below]
    ends = [rank - 1 for rank in median_ranks(n) or (1, 1)]
    past = [place - low for place, low in zip(places, below, strict=True)]
    return np.array([*below, *above, *ends, 0, n - 1]), np.array(past)


def _describe_rows(rows: Floats) -> list[Distribution]:
    """Summarises arms of as many samples each: array of shape (arms, samples), ascending."""
    n = rows.shape[1]
    places, past = _places(n)
    bounded = median_ranks(n) is not None
    known = rows[:, places]
    count = len(_SHARES)
    low = known[:, :count]
    quantiles = (low + (known[:, count : 2 * count] - low) * past).tolist()
    totals = rows.sum(axis=1)
    means = totals / n
    deviations = rows - means[:, np.newaxis]
    squares = np.einsum("ij,ij->i", deviations, deviations)
    found = []
    for (median, q1, q3, p95, p99), (bottom, top, first, last), total, mean, square in zip(
        quantiles,
        known[:, 2 * count :].tolist(),
        totals.tolist(),
        means.tolist(),
        squares.tolist(),
        strict=True,
    ):
        stddev = math.sqrt(square / (n - 1)) if n > 1 else None
        found.append(
            # In the order of its attributes: names would take as long as all the rest.
            Distribution(
                n,
                Interval(median, bottom, top) if bounded else Interval(median, None, None),
                *(q1, q3, p95, p99, first, last, mean, stddev),
                None if stddev is None else error_of_mean(stddev, n),
                n * 1e9 / total if total > 0 else None,
            )
        )
    return found


def order_and_describe(
    durations: Sequence[Sequence[float]],
) -> list[tuple[Floats, Distribution | None]]:
    """Sorts and summarises arms' samples in nanoseconds; no summary for an arm without any.

    Arms of as many samples are worked out at once: numpy is slow on short arrays, one by one.
    """
    found: list[tuple[Floats, Distribution | None]] = [(np.empty(0), None)] * len(durations)
    by_length: dict[int, list[int]] = {}
    for place, taken in enumerate(durations):
        by_length.setdefault(len(taken), []).append(place)
    for length, places in by_length.items():
        if length:
            rows = np.array([durations[place] for place in places], dtype=np.float64)
            rows.sort(axis=1)
            for place, one in zip(
                places, zip(rows, _describe_rows(rows), strict=True), strict=True
            ):
                found[place] = one
    return found


def describe(ordered: Floats) -> Distribution:
    """Summarises samples in nanoseconds, ascending, at least one."""
    return _describe_rows(ordered[np.newaxis, :])[0]


Ranks = npt.NDArray[np.intp]


@functools.lru_cache(maxsize=512)
def _median_ranks_drawn(n: int, stream: str, draws: int) -> tuple[Ranks, Ranks]:
    """Draws which of n ascending values are the two middle ones of a resample, counted from 0.

    The k-th smallest of n values drawn with replacement is x(ceil(n U)), U the k-th
    smallest of n uniform numbers, which is Beta(k, n + 1 - k); so one such number
    replaces n. With n even the lower middle one is, given the upper one v, the largest
    of k uniform numbers below v, that is v W^(1/k).
    """
    rng = np.random.default_rng([SEED, zlib.crc32(stream.encode())])
    k = (n + 1) // 2
    if n % 2:
        upper = lower = rng.beta(k, n + 1 - k, draws)
    else:
        upper = rng.beta(k + 1, n - k, draws)
        lower = upper * rng.random(draws) ** (1 / k)
    low, high = (np.minimum((part * n).astype(np.intp), n - 1) for part in (lower, upper))
    return (high, high) if n % 2 else (low, high)


def bootstrap_medians(ordered: Floats, stream: str, draws: int = DRAWS) -> Floats:
    """Medians of ``draws`` bootstrap resamples of ascending values.

    Args:
        ordered: The values, at least one.
        stream: Names the stream of random numbers; the same name gives the same draws.
            What is set against each other needs streams of different names.
        draws: How many.

    Returns:
        Array of shape (draws,), in the unit of the values.
    """
    lower, upper = _median_ranks_drawn(len(ordered), stream, draws)
    if lower is upper:
        return ordered.take(lower)
    middle = ordered.take(lower)
    middle += ordered.take(upper)
    middle /= 2
    return middle


def percentile_interval(value: float, draws: Floats) -> Interval:
    """The estimate with the 2.5th and 97.5th percentiles of its bootstrap draws."""
    ordered = np.sort(draws)
    return Interval(value, quantile(ordered, 0.025), quantile(ordered, 0.975))
