"""Importing BenchmarkDotNet's JSON and tables: notations of numbers, settings, the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from collector import importing
from tests.fixtures.outputs import (
    dotnet,
    imported,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_json_brief_and_full(tmp_path: Path) -> None:
    brief = imported(tmp_path, dotnet())
    full = imported(tmp_path, dotnet(Measurements=[{"Nanoseconds": 1}], Memory={"Gen0": 0}))
    assert brief["figures"] == full["figures"]
    assert {one["statistic"]: one["value_ns"] for one in brief["figures"]} == {
        "mean": 33480280.175,
        "median": 33480280.175,
        "minimum": 32980280.1,
        "maximum": 33980280.25,
        "q1": 33230280.1375,
        "q3": 33730280.2125,
        "stderr": 500000.075,
        "stddev": 707106.887,
        "error": 318309933.1,
        "p95": 33930280.2425,
    }
    assert {one["samples"] for one in brief["figures"]} == {2}
    assert brief["figures"][0]["parameters"] == {"MessageInput": "some secret value"}
    assert {"name": "OsVersion", "value": "Windows 11"} in brief["about"]
    assert brief["unknown"] == []
    assert [one["where"] for one in full["unknown"]] == [
        "/Benchmarks/*/Measurements",
        "/Benchmarks/*/Memory",
    ]


def test_a_benchmark_of_the_json_that_failed(tmp_path: Path) -> None:
    document = imported(tmp_path, dotnet(Statistics=None))
    assert document["figures"] == []
    assert document["not_run"][0]["operation"] == "ECDSA_Sign"


@pytest.mark.parametrize(
    ("text", "printed", "value_ns"),
    [
        ("Method,Mean,Error\nSign,33.02 ms,0.64 ms\n", "33.02", 33_020_000),
        ("Method,Mean [us],Error [us]\nSign,33021.76,641.456\n", "33021.76", 33_021_760),
        ('Method,Mean [us],Error [us]\nSign,"33,021.76",641.456\n', "33,021.76", 33_021_760),
        ("Method;Mean;Error\nSign;33.021,76 us;641,456 us\n", "33.021,76", 33_021_760),
        ("Method;Mean [us];Error [us]\nSign;33021,76;641,456\n", "33021,76", 33_021_760),
        (
            "Method;Mean;Error\nSign;33\u202f021,76 \u03bcs;641,456 \u03bcs\n",
            "33021,76",
            33_021_760,
        ),
        ("Method\tMean\nSign\t0,641 \u00b5s\n", "0,641", 641),
        ("Method,Mean\nSign,1.5 s\n", "1.5", 1_500_000_000),
        ("Method,Mean\nSign,649.098 us\n", "649.098", 649_098),
        ("Method;Mean\nSign;1.234.567,8 ns\n", "1.234.567,8", 1_234_567.8),
        ("Method;Mean\nSign;1'234.5 ns\n", "1234.5", 1234.5),
        (
            "| Method | Mean |\n|--- |---:|\n| **Sign** | **1,234.5 \u03bcs** |\n",
            "1,234.5",
            1_234_500,
        ),
        ("| Method | Mean [ms] |\n|--- |---:|\n| Sign | 33.02 |\n", "33.02", 33_020_000),
    ],
)
def test_numbers_and_units(tmp_path: Path, text: str, printed: str, value_ns: float) -> None:
    first = imported(tmp_path, text)["figures"][0]
    assert (first["printed"], first["value_ns"]) == (printed, value_ns)
    assert first["operation"] == "Sign"


@pytest.mark.parametrize(
    "text",
    ["Method;Mean\nSign;649,098 us\n", "Method;Mean;Error\nSign;33.02 us;0,64 us\n"],
)
def test_numbers_that_cannot_be_told_are_asked_about(tmp_path: Path, text: str) -> None:
    with pytest.raises(importing.NotImportableError, match="say which with --decimal-mark"):
        imported(tmp_path, text)


def test_the_user_names_the_decimal_mark(tmp_path: Path) -> None:
    text = "Method;Mean\nSign;649,098 us\n"
    assert imported(tmp_path, text, ",")["figures"][0]["value_ns"] == 649_098
    assert imported(tmp_path, text, ".")["figures"][0]["value_ns"] == 649_098_000


def test_settings_parameters_and_columns_without_durations(tmp_path: Path) -> None:
    text = """\
Method,Job,Runtime,IterationCount,MessageInput,Mean,Ratio,Allocated
Sign,DefaultJob,.NET 9.0,Default,short,33.02 ms,1.00,96 B
Sign,DefaultJob,.NET 10.0,Default,long,NA,?,-
Sign
"""
    document = imported(tmp_path, text)
    assert document["about"] == [{"name": "Job", "value": "DefaultJob"}]
    assert document["figures"][0]["parameters"] == {"Runtime": ".NET 9.0", "MessageInput": "short"}
    assert document["not_run"][0]["parameters"]["MessageInput"] == "long"
    assert {one["where"] for one in document["unknown"]} == {
        "line 4",
        "column Ratio",
        "column Allocated",
    }


def test_the_machine_that_benchmarkdotnet_names_and_other_text(tmp_path: Path) -> None:
    text = """\
``` ini

BenchmarkDotNet=v0.13.5, OS=Windows 11
Intel Core i7, 1 CPU
  [Host]     : .NET 9.0

```
|  Method |     N |      Mean |
|-------- |------ |----------:|
|    **Sign** | **1** | **1.5 ms** |
|  Verify |     1 |     NA |

Signing is slow.
"""
    document = imported(tmp_path, text)
    assert [one["value"] for one in document["about"]] == [
        "BenchmarkDotNet=v0.13.5, OS=Windows 11",
        "Intel Core i7, 1 CPU",
        "[Host]     : .NET 9.0",
    ]
    assert document["figures"][0]["name"] == "Sign"
    assert document["unknown"] == [{"where": "line 13", "text": "Signing is slow."}]
