from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from collector import stats

SAMPLES = st.lists(st.integers(1, 10**9), min_size=2, max_size=120)


def ordered(values: list[int]) -> stats.Floats:
    return np.sort(np.array(values, dtype=np.float64))


def test_five_samples_by_hand() -> None:
    found = stats.describe(ordered([40, 10, 20, 30, 50]))
    assert (found.n, found.minimum, found.maximum) == (5, 10, 50)
    assert (found.median.value, found.q1, found.q3) == (30, 20, 40)
    # Linear interpolation: rank 1 + 0.95 * 4 = 4.8, a 0.8 of the way from 40 to 50.
    assert found.p95 == pytest.approx(48)
    assert found.mean == 30
    assert found.stddev == pytest.approx(math.sqrt(1000 / 4))
    # t(0.9995, 4) = 8.610, from any table of Student's t.
    assert found.error == pytest.approx(8.610 * math.sqrt(250) / math.sqrt(5), rel=1e-3)
    assert found.rate_per_s == pytest.approx(5 / 150e-9)
    assert found.median.low is None


def test_one_sample_has_no_deviation() -> None:
    found = stats.describe(ordered([7]))
    assert (found.median.value, found.stddev, found.error) == (7, None, None)


def test_no_rate_without_duration() -> None:
    assert stats.describe(ordered([0, 0])).rate_per_s is None


@given(SAMPLES)
@settings(deadline=None)
def test_against_other_implementations(values: list[int]) -> None:
    found = stats.describe(ordered(values))
    assert found.median.value == pytest.approx(statistics.median(values))
    assert found.stddev == pytest.approx(statistics.stdev(values), abs=1e-6)
    quantile = scipy_stats.mstats.mquantiles(values, [0.95, 0.99], alphap=1, betap=1)
    assert [found.p95, found.p99] == pytest.approx(list(quantile))
    low, high = scipy_stats.t.interval(
        0.999, len(values) - 1, statistics.fmean(values), scipy_stats.sem(values)
    )
    if statistics.stdev(values):
        assert found.error == pytest.approx((high - low) / 2)


@pytest.mark.parametrize(
    ("n", "ranks"),
    # The usual table of order-statistic intervals for the median (e.g. Conover, table A3).
    [(5, None), (6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (50, (18, 33)), (100, (40, 61))],
)
def test_ranks_of_the_median_interval(n: int, ranks: tuple[int, int] | None) -> None:
    assert stats.median_ranks(n) == ranks


@pytest.mark.parametrize("n", [6, 7, 13, 50, 99, 400])
def test_the_median_interval_is_the_shortest_that_covers(n: int) -> None:
    ranks = stats.median_ranks(n)
    assert ranks is not None
    coverage = 1 - 2 * scipy_stats.binom.cdf(ranks[0] - 1, n, 0.5)
    narrower = 1 - 2 * scipy_stats.binom.cdf(ranks[0], n, 0.5)
    assert narrower < 0.95 <= coverage


@pytest.mark.parametrize("values", [(3, 5, 11), (2, 3, 7, 20)])
def test_bootstrap_draws_follow_the_bootstrap_distribution(values: tuple[int, ...]) -> None:
    """Against every one of the n^n resamples."""
    exact = [
        statistics.median(resample) for resample in itertools.product(values, repeat=len(values))
    ]
    drawn = stats.bootstrap_medians(ordered(list(values)), "a", draws=40_000)
    for value in set(exact):
        share = exact.count(value) / len(exact)
        assert np.mean(drawn == value) == pytest.approx(share, abs=0.012)


def test_bootstrap_interval_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    values = np.sort(rng.lognormal(size=101))
    drawn = stats.bootstrap_medians(values, "b", draws=20_000)
    ours = stats.percentile_interval(float(np.median(values)), drawn)
    theirs = scipy_stats.bootstrap(
        (values,), np.median, n_resamples=20_000, method="percentile", random_state=3
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, rel=0.03)
    assert ours.high == pytest.approx(theirs.high, rel=0.03)
