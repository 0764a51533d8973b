"""Importers on whatever may come: damaged files, lines in any order, any JSON, any number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collector import importing, load, quantities
from tests.fixtures.outputs import (
    DOTNET,
    GO,
    STATISTICS,
    WOLF,
    WOLF_LINES,
    dotnet,
)

if TYPE_CHECKING:
    from decimal import Decimal


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_arbitrary_bytes_hold_no_figures(content: bytes) -> None:
    assert importing.recognise(content) is None


SOURCES = [GO.read_text(), WOLF.read_text(), DOTNET.read_text(), WOLF_LINES, dotnet()]
PIECES = st.sampled_from([line for source in SOURCES for line in source.splitlines()]) | st.text(
    st.sampled_from("|,;.0123456789 \n\t*[]()`\u03bcusmnMKB/-\x1b\u202e"), max_size=30
)


def check(content: bytes) -> None:
    """Whatever it holds, the outcome is a valid document, a question, or nothing."""
    try:
        found = importing.recognise(content)
    except quantities.AmbiguousNumbersError:
        return
    if found is not None:
        made_of = importing.document(
            found, file="x", sha256="0" * 64, size_bytes=len(content), device=None
        )
        assert load.parse(json.dumps(made_of).encode()) == made_of


@given(st.lists(PIECES, max_size=25))
@settings(deadline=None, max_examples=100)
def test_lines_in_any_order_make_a_valid_document_or_none(lines: list[str]) -> None:
    check("\n".join(lines).encode())


@given(st.sampled_from(SOURCES), st.integers(0, 4000), st.integers(0, 40), st.binary(max_size=12))
@settings(deadline=None, max_examples=100)
def test_damaged_files_make_a_valid_document_or_none(
    source: str, at: int, gone: int, instead: bytes
) -> None:
    content = source.encode()
    check(content[:at] + instead + content[at + gone :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([*STATISTICS, "Method", "Parameters", "Statistics", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(JSON, JSON, JSON)
@settings(deadline=None, max_examples=100)
def test_any_json_makes_a_valid_document_or_none(host: Any, inside: Any, whole: Any) -> None:
    benchmarks = [{"Method": "m", "Statistics": inside}, whole]
    check(json.dumps({"HostEnvironmentInfo": host, "Benchmarks": benchmarks}).encode())
    check(json.dumps(whole).encode())


@given(st.decimals("0.001", "99999999", places=3), st.sampled_from(",."), st.booleans())
def test_a_number_is_read_as_it_was_written(value: Decimal, mark: str, grouped: bool) -> None:
    text = f"{value:,.3f}" if grouped else f"{value:.3f}"
    if mark == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    assert quantities.exact(text, mark) == value
    assert quantities.decimal_mark([text, f"1{mark}5"]) == mark
