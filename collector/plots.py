"""Numbers to SVG coordinates. The templates draw; nothing here holds a word of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from collector.stats import Interval

WIDTH = 960
LEFT = 310
RIGHT = 790
ROW = 24
HEADING = 26
# Characters that fit left of the axis, and above it.
LABEL = 40
HEADING_LABEL = 90
TOP = 8
AXIS = 44
_JITTER = 12.0
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a plot, in data units.

    Attributes:
        label: What stands left of it.
        text: What stands right of it.
        estimate: Where the mark goes, with the interval's ends.
        shape: The mark: ``bar``, ``circle`` or ``diamond``.
        dots: Values drawn as dots behind the mark.
        tail: Where a dashed tick goes; None for none.
        series: Number of the colour; the label says the same in words.
    """

    label: str
    text: str
    estimate: Interval
    shape: str
    dots: Sequence[float] = ()
    tail: float | None = None
    series: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Lines under one heading."""

    heading: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Mark:
    """A row, placed. Lengths in the SVG's user units; ``low`` equals ``high`` without interval."""

    label: str
    text: str
    shape: str
    series: int
    y: float
    x: float
    low: float
    high: float
    tail: float | None
    dots: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A heading and the marks below it."""

    heading: str
    y: float
    marks: list[Mark]


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on the axis and its label, in data units, unformatted."""

    x: float
    value: float


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot ready to draw on a logarithmic axis.

    Attributes:
        height: Height; the width is ``WIDTH``.
        blocks: What is drawn.
        ticks: The axis.
        reference: Where the line of equality goes; None for none.
        axis_y: Where the axis lies.
    """

    height: float
    blocks: list[Placed]
    ticks: list[Tick]
    reference: float | None
    axis_y: float
    width: int = WIDTH
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def ticks(low: float, high: float) -> list[float]:
    """Values for a logarithmic axis from ``low`` to ``high``, both above 0.

    They are 1, 2 and 5 times powers of ten; powers only where that is more than nine;
    evenly spaced where it is fewer than three.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1,)):
        found = [step * 10.0**decade for decade in decades for step in steps]
        found = [value for value in found if low <= value <= high]
        if len(found) <= 9:
            break
    if len(found) >= 3:
        return found[:: math.ceil(len(found) / 9)]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _values(blocks: Sequence[Block]) -> list[float]:
    found: list[float] = []
    for block in blocks:
        for row in block.rows:
            ends = (row.estimate.value, row.estimate.low, row.estimate.high, row.tail)
            found.extend(value for value in ends if value is not None)
            found.extend(row.dots)
    return [value for value in found if value > 0]


def place(blocks: Sequence[Block], reference: float | None = None) -> Plot | None:
    """Places blocks of rows on one logarithmic axis.

    Args:
        blocks: What to draw. Values that are not above 0 are drawn at the axis's lower end.
        reference: A value to mark by a line over all rows, always within the axis.

    Returns:
        The plot; None where there is nothing above 0 to draw.
    """
    values = _values(blocks)
    if not values:
        return None
    if reference is not None:
        values.append(reference)
    low, high = min(values), max(values)
    room = max((high / low) ** 0.04, 1.02)
    low, high = low / room, high * room

    def x(value: float) -> float:
        inside = min(max(value, low), high)
        share = math.log(inside / low) / math.log(high / low)
        return round(LEFT + (RIGHT - LEFT) * share, 1)

    y = float(TOP)
    placed = []
    for block in blocks:
        y += HEADING
        heading_y = y - 8
        marks = []
        for row in block.rows:
            marks.append(_mark(row, y + ROW / 2, x))
            y += ROW
        placed.append(Placed(_shorten(block.heading, HEADING_LABEL), heading_y, marks))
    return Plot(
        height=y + AXIS,
        blocks=placed,
        ticks=[Tick(x(value), value) for value in ticks(low, high)],
        reference=None if reference is None else x(reference),
        axis_y=y + 4,
    )


def _mark(row: Row, y: float, x: Callable[[float], float]) -> Mark:
    estimate = row.estimate
    # The golden ratio spreads neighbours evenly, and the same way every time.
    dots = "".join(
        f"M{x(value):g} {y + ((index * _GOLDEN) % 1 - 0.5) * _JITTER:.1f}h0"
        for index, value in enumerate(row.dots)
    )
    return Mark(
        label=_shorten(row.label, LABEL),
        text=row.text,
        shape=row.shape,
        series=row.series,
        y=y,
        x=x(estimate.value),
        low=x(estimate.value if estimate.low is None else estimate.low),
        high=x(estimate.value if estimate.high is None else estimate.high),
        tail=None if row.tail is None else x(row.tail),
        dots=dots,
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """Points that belong together, ascending in x; both coordinates in data units, above 0."""

    label: str
    points: Sequence[tuple[float, float]]
    series: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve, placed: its path, its marks, and where its label goes."""

    label: str
    series: int
    path: str
    marks: list[tuple[float, float]]
    label_y: float


@dataclass(frozen=True, slots=True)
class Lines:
    """Curves over a horizontal axis that doubles and a vertical one that starts at 0.

    Attributes:
        curves: What is drawn.
        x_ticks: The horizontal axis.
        y_ticks: The vertical axis; ``x`` of a tick is its height.
        limit: Where a horizontal line goes that no curve can pass; None for none.
    """

    curves: list[Drawn]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    limit: float | None
    width: int = 620
    height: int = 250
    left: int = 70
    right: int = 450
    top: int = 14
    bottom: int = 205


def lines(curves: Sequence[Curve], limit: float | None = None) -> Lines | None:
    """Places curves; None where there is no point, or none above 0."""
    points = [point for curve in curves for point in curve.points]
    highest = max([*(y for _, y in points), limit or 0.0]) if points else 0.0
    if highest <= 0:
        return None
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    doublings = max(math.log2(last / first), 1.0)
    frame = Lines([], [], [], None)
    step = next(n * 10.0**e for e in range(-9, 16) for n in (1, 2, 5) if n * 10.0**e * 5 >= highest)
    top = step * math.ceil(highest / step)

    def place_x(value: float) -> float:
        share = math.log2(value / first) / doublings
        return round(frame.left + (frame.right - frame.left) * share, 1)

    def place_y(value: float) -> float:
        return round(frame.bottom - (frame.bottom - frame.top) * value / top, 1)

    drawn: list[Drawn] = []
    for curve in sorted(curves, key=lambda curve: -curve.points[-1][1]):
        marks = [(place_x(x), place_y(y)) for x, y in curve.points]
        # Labels stand in the order of the curves' ends, a line apart at least.
        label_y = max(marks[-1][1], drawn[-1].label_y + 15 if drawn else 0.0)
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in marks)
        drawn.append(Drawn(curve.label, curve.series, path, marks, label_y))
    return Lines(
        curves=drawn,
        x_ticks=[Tick(place_x(x), x) for x in sorted({x for x, _ in points})],
        y_ticks=[Tick(place_y(n * step), n * step) for n in range(round(top / step) + 1)],
        limit=None if limit is None else place_y(limit),
    )
