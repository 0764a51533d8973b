"""Student's t and the slope, against scipy; the study's own figures."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tpmbench.messages import statistics as ours
from tpmbench.show_messages import decimals


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 14, 28, 99, 999, 49_999])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.975, 0.995, 0.9995, 0.99995])
def test_the_quantile_is_scipys(freedom: int, probability: float) -> None:
    found = ours.t_quantile(probability, freedom)
    assert found == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-7, abs=1e-9)


@given(st.floats(-200, 200), st.integers(1, 5000))
def test_the_distribution_is_scipys(t: float, freedom: int) -> None:
    assert ours.t_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-9, abs=1e-13)


@given(st.lists(st.integers(1, 10**10), min_size=2, max_size=60))
def test_error_is_half_the_interval(samples: list[int]) -> None:
    found = ours.summary(samples)
    deviation = statistics.stdev(samples)
    assert found.mean == pytest.approx(statistics.fmean(samples))
    assert found.deviation == pytest.approx(deviation)
    if deviation:
        low, high = stats.t.interval(
            0.999, len(samples) - 1, found.mean, deviation / math.sqrt(len(samples))
        )
        assert found.error == pytest.approx((high - low) / 2, rel=1e-6)


def test_one_sample_has_no_interval() -> None:
    found = ours.summary([7])
    assert found.mean == 7
    assert math.isnan(found.error)
    assert math.isnan(found.deviation)


@pytest.mark.parametrize(
    ("deviation", "samples", "error"),
    # Windows, TPM, P-256, from the study: StdDev and Error of a row, in microseconds. It does
    # not print n; with these, and no others near, the two columns belong together.
    [(0.577, 14, 0.651), (0.678, 15, 0.725), (991.242, 31, 649.098)],
)
def test_error_and_deviation_of_the_study(deviation: float, samples: int, error: float) -> None:
    half = ours.t_quantile(0.9995, samples - 1) * deviation / math.sqrt(samples)
    assert half == pytest.approx(error, abs=0.001)


@given(
    st.lists(
        st.tuples(st.sampled_from([17, 93, 1024]), st.floats(1e3, 1e7)), min_size=6, max_size=60
    ).filter(lambda pairs: len({size for size, _ in pairs}) > 1)
)
def test_the_slope_is_scipys(pairs: list[tuple[int, float]]) -> None:
    sizes, samples = zip(*pairs, strict=True)
    theirs = stats.linregress(sizes, samples)
    found = ours.line(sizes, samples)
    scale = max(samples) / 1024
    if math.isnan(theirs.stderr):  # nothing is left of the samples beside the line
        assert found.error == pytest.approx(0, abs=1e-6 * scale)
        return
    assert found.slope == pytest.approx(theirs.slope, rel=1e-6, abs=1e-9 * scale)
    assert found.error == pytest.approx(theirs.stderr, rel=1e-5, abs=1e-6 * scale)
    if theirs.stderr > 1e-4 * scale:
        assert found.p == pytest.approx(theirs.pvalue, rel=1e-4, abs=1e-9)


def test_a_size_that_matters_is_seen() -> None:
    sizes = [17, 93, 1024] * 20
    noise = [3, -1, 2, -2, 1, -3] * 10
    found = ours.line(
        sizes, [1000 + 2 * size + part for size, part in zip(sizes, noise, strict=True)]
    )
    assert found.p < 1e-9
    assert found.slope == pytest.approx(2, abs=0.01)
    assert ours.line(sizes, [1000 + part for part in noise]).p > 0.01


@pytest.mark.parametrize(
    ("smallest", "digits"),
    # The study's columns: the smallest mean and the decimals it is printed with.
    [(83.92, 2), (104.8, 1), (181.3, 1), (201.9, 1), (3.5, 3), (0.7, 4), (12345.0, 1)],
)
def test_decimals_are_benchmarkdotnets(smallest: float, digits: int) -> None:
    assert decimals(smallest) == digits
