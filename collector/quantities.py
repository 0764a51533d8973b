"""Printed figures: numbers as several programs and cultures write them, and their units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A unit as printed: the field of an imported document that holds it, and its size in that field.
UNITS: Mapping[str, tuple[str, Decimal]] = {
    "ns": ("value_ns", Decimal(1)),
    "us": ("value_ns", Decimal(10**3)),
    "\u03bcs": ("value_ns", Decimal(10**3)),  # Greek mu, as BenchmarkDotNet prints it
    "\u00b5s": ("value_ns", Decimal(10**3)),  # micro sign
    "ms": ("value_ns", Decimal(10**6)),
    "s": ("value_ns", Decimal(10**9)),
    "sec": ("value_ns", Decimal(10**9)),
    "seconds": ("value_ns", Decimal(10**9)),
    "m": ("value_ns", Decimal(60 * 10**9)),
    "ops/sec": ("value_per_s", Decimal(1)),
    "ops/s": ("value_per_s", Decimal(1)),
    "signature/s": ("value_per_s", Decimal(1)),
    "conn/s": ("value_per_s", Decimal(1)),
    "req/s": ("value_per_s", Decimal(1)),
    "op/s": ("value_per_s", Decimal(1)),
    "bytes/s": ("value_bytes_per_s", Decimal(1)),
    "KB/s": ("value_bytes_per_s", Decimal(1024)),
    "MB/s": ("value_bytes_per_s", Decimal(1024**2)),
    # wolfTPM's bench in base 10.
    "kB/s": ("value_bytes_per_s", Decimal(1000)),
    "mB/s": ("value_bytes_per_s", Decimal(1000**2)),
    "bytes": ("value_bytes", Decimal(1)),
    "KB": ("value_bytes", Decimal(1024)),
    "MB": ("value_bytes", Decimal(1024**2)),
    "kB": ("value_bytes", Decimal(1000)),
    "mB": ("value_bytes", Decimal(1000**2)),
    "signatures": ("value_count", Decimal(1)),
    "resumed": ("value_count", Decimal(1)),
    "ops": ("value_count", Decimal(1)),
}
DECIMAL_MARKS: Mapping[str, str] = {"point": ".", "comma": ","}

_QUANTITY = re.compile(
    r"(?P<number>[0-9](?:[0-9.,]|['\u2019\u00a0\u202f ](?=[0-9]))*)[\s]*(?P<unit>\D*)"
)
_GROUPING = re.compile("['\u2019\u00a0\u202f ]")
# A comma or a point before exactly three last digits, and no other: 1,234 may be either; 0,234 not.
_EITHER = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")


class AmbiguousNumbersError(ValueError):
    """Numbers of one file that can be read in more than one way."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit, as printed; grouping marks other than comma and point are gone."""

    number: str
    unit: str


def quantity(cell: str) -> Quantity | None:
    """Splits what is printed, such as ``32,980.28 us``; None where it starts with no digit."""
    found = _QUANTITY.fullmatch(cell.strip())
    if found is None:
        return None
    return Quantity(_GROUPING.sub("", found["number"]), found["unit"].strip())


def _mark_in(number: str) -> str | None:
    """Which mark sets off the fraction of this number; None where it does not tell."""
    last = max(number.rfind("."), number.rfind(","))
    if last < 0 or _EITHER.fullmatch(number):
        return None
    mark, other = (".", ",") if number[last] == "." else (",", ".")
    # 1.234.567: a mark that stands twice groups.
    return other if number.count(mark) > 1 else mark


def decimal_mark(numbers: Iterable[str]) -> str:
    """Finds the mark that sets off fractions in all numbers of one file.

    A file follows one culture, so a number that can be read in one way only decides for all
    of them. Where there is none and no comma either, the mark is the point.

    Raises:
        AmbiguousNumbersError: The numbers contradict each other, or all of those with a
            comma have it before three digits.
    """
    given = list(numbers)
    told = {mark for mark in map(_mark_in, given) if mark is not None}
    if len(told) > 1:
        raise AmbiguousNumbersError("numbers with a decimal comma and with a decimal point")
    if told:
        return told.pop()
    if any("," in number for number in given):
        example = next(number for number in given if "," in number)
        raise AmbiguousNumbersError(f"{example} can be read in two ways")
    return "."


def exact(number: str, mark: str = ".") -> Decimal | None:
    """The number, to the last digit; None where it is none in this notation."""
    grouping = "," if mark == "." else "."
    try:
        value = Decimal(number.replace(grouping, "").replace(mark, "."))
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def in_field(value: Decimal, unit: str) -> tuple[str, float | int] | None:
    """Converts to the unit of an imported document's field.

    Returns:
        The field and the value, or None where the unit is unknown, or the value is below 0 or
        too large.
    """
    if unit not in UNITS:
        return None
    field, size = UNITS[unit]
    converted = value * size
    if not 0 <= converted <= 2**53:
        return None
    whole = converted == converted.to_integral_value()
    return field, int(converted) if whole else float(converted)
