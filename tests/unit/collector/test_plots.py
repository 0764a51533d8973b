from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.plots import LEFT, RIGHT, Block, Row, place, ticks
from collector.stats import Interval

POSITIVE = st.floats(1e-3, 1e12)


def row(value: float, *dots: float) -> Row:
    return Row("a", "b", Interval(value, None, None), "bar", dots)


def test_equal_ratios_are_equally_far_apart() -> None:
    plot = place([Block("x", [row(1), row(10), row(100)])])
    assert plot is not None
    first, second, third = (mark.x for mark in plot.blocks[0].marks)
    assert second - first == pytest.approx(third - second, abs=0.2)
    assert LEFT < first < third < RIGHT


def test_the_reference_is_always_on_the_axis() -> None:
    plot = place([Block("x", [row(40), row(60)])], reference=1.0)
    assert plot is not None
    assert plot.reference is not None
    assert LEFT <= plot.reference < plot.blocks[0].marks[0].x


def test_every_sample_is_drawn() -> None:
    plot = place([Block("x", [row(5, *range(1, 101))])])
    assert plot is not None
    assert plot.blocks[0].marks[0].dots.count("M") == 100


def test_zero_is_drawn_at_the_lower_end_and_nothing_above_zero_is_no_plot() -> None:
    plot = place([Block("x", [row(0), row(10)])])
    assert plot is not None
    assert plot.blocks[0].marks[0].x == LEFT
    assert place([Block("x", [row(0)])]) is None
    assert place([]) is None


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.9, 60, [1, 2, 5, 10, 20, 50]),
        (1, 1e6, [1, 10, 100, 1000, 1e4, 1e5, 1e6]),
        (2.1, 2.9, [2.2, 2.4, 2.6, 2.8]),
    ],
)
def test_ticks(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@given(POSITIVE, st.floats(1.001, 1e9))
def test_there_are_ticks_on_any_axis_and_never_too_many(low: float, factor: float) -> None:
    found = ticks(low, low * factor)
    assert 1 <= len(found) <= 10
    assert found == sorted(found)
    assert all(low * (1 - 1e-9) <= value <= low * factor * (1 + 1e-9) for value in found)
