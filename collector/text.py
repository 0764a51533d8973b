"""Escaping of what came from a host, and the way figures are written.

Everything from a host is untrusted: text passes through :func:`visible` and then
through the escaping of the format it is written to.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collector.stats import Interval

# Controls, format characters that reorder or hide text, line separators, half surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufffe\uffff]"
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~])")


def visible(text: str) -> str:
    r"""Replaces characters that a terminal would obey, or a page hide, by ``\\x1b`` forms."""
    return _INVISIBLE.sub(
        lambda found: (
            f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}"
        ),
        text,
    )


def markdown(text: str) -> Markup:
    """Escapes text for a GitHub table's cell or a line of prose; Markup passes through."""
    if isinstance(text, Markup):
        return text
    shown = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _MARKDOWN.sub(r"\\\1", shown)
    # GitHub makes links of addresses and of mentions, unless an entity stands in them.
    for sign, entity in (("://", ":&#47;&#47;"), ("www.", "www&#46;"), ("@", "&#64;")):
        shown = shown.replace(sign, entity)
    return Markup(shown)  # noqa: S704 - everything that Markdown would obey is escaped above


def plain(text: str) -> Markup:
    """Prepares text for a terminal or a text file; Markup passes through."""
    return text if isinstance(text, Markup) else Markup(visible(text))  # noqa: S704 - a text file obeys nothing


def label_value(text: str) -> str:
    """Escapes a label's value for the Prometheus and OpenMetrics text formats."""
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


def width(text: str) -> int:
    """Columns that text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def significant(value: float) -> str:
    """Three significant digits without an exponent: 0.0305, 2.16, 21.7, 456."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    for limit, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3), (0.01, 4), (0.001, 5)):
        # Against the rounded value, so that 99.96 is written 100 and not 100.0.
        if round(magnitude, digits) >= limit:
            return f"{value:.{digits}f}"
    return f"{value:.6f}"


def short(number: str) -> str:
    """Drops the zeros at the end of a decimal fraction, for an axis."""
    return number.rstrip("0").rstrip(".") if "." in number else number


def ms(value_ns: float | None) -> str:
    """Nanoseconds, written in milliseconds."""
    return "-" if value_ns is None else significant(value_ns / 1e6)


def duration(value_ns: float) -> str:
    """Nanoseconds, written in the unit that suits them."""
    for limit, scale, unit in ((1e9, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs")):
        if value_ns >= limit:
            return f"{significant(value_ns / scale)} {unit}"
    return f"{significant(value_ns)} ns"


def rate(per_s: float | None) -> str:
    """A rate per second."""
    return "-" if per_s is None else significant(per_s)


def count(number: int | None) -> str:
    """A count, or a dash where nothing was counted."""
    return "-" if number is None else str(number)


def percent(share: float | None) -> str:
    """A share (0 to 1) in per cent."""
    return "-" if share is None else f"{share * 100:.1f} %"


def ratio(value: float) -> str:
    """A ratio."""
    return significant(value)


def span(interval: Interval, scale: float = 1.0) -> str:
    """An interval's ends in brackets, each multiplied by ``scale``; empty where it has none."""
    if interval.low is None or interval.high is None:
        return ""
    return f"[{significant(interval.low * scale)}, {significant(interval.high * scale)}]"
