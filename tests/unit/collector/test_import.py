"""Importers, on the outputs that others published (tests/fixtures/imports) and on what may come."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import importing, load, quantities
from tests.fixtures import documents as made

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from decimal import Decimal

    Collector = Callable[..., subprocess.CompletedProcess[str]]

IMPORTS = Path(__file__).resolve().parents[2] / "fixtures" / "imports"
GO = IMPORTS / "go-tpm-tls-bench-sev-snp.txt"
WOLF = IMPORTS / "wolftpm-slb9672.txt"
DOTNET = IMPORTS / "benchmarkdotnet-cng.md"
NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


def imported(tmp_path: Path, content: str | bytes, mark: str | None = None) -> dict[str, Any]:
    """Imports a file of this content; the document is checked against its schema."""
    path = tmp_path / "given.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    result = importing.import_file(path, mark=mark)
    return load.parse(importing.text(result).encode())


def figures(document: dict[str, Any], operation: str) -> dict[str, str]:
    """The printed figures of an operation, by statistic."""
    return {
        one["statistic"]: f"{one['printed']} {one['unit']}"
        for one in document["figures"]
        if one["operation"] == operation
    }


def test_the_published_output_of_go_tpm_tls_bench_to_the_last_digit(tmp_path: Path) -> None:
    document = imported(tmp_path, GO.read_bytes())
    rows = [line for line in GO.read_text().splitlines() if "median" in line]
    printed = [number for row in rows for number in NUMBER.findall(row.replace("p95", ""))]
    assert [one["printed"] for one in document["figures"]] == printed
    assert len(printed) == 12 * 3 + 6 + 2
    assert (document["format"], document["unknown"], document["missing"]) == (
        "go-tpm-tls-bench",
        [],
        [],
    )
    assert {"name": "transport", "value": "/dev/tpmrm0"} in document["about"]
    assert figures(document, "handshake-resumed/tpm-persistent") == {
        "median": "1.02 ms",
        "p95": "1.17 ms",
        "rate": "906 conn/s",
        "signatures": "1 signatures",
        "resumed": "49 resumed",
    }
    assert figures(document, "raw-signing/tpm-transient")["median"] == "21.70 ms"
    first = document["figures"][0]
    assert (first["value_ns"], first["samples"], first["parameters"]) == (
        2_160_000,
        100,
        {"curve": "p256"},
    )


def test_the_published_output_of_wolftpm_to_the_last_digit(tmp_path: Path) -> None:
    document = imported(tmp_path, WOLF.read_bytes())
    for line in WOLF.read_text().splitlines():
        found = re.fullmatch(r"(.+?) (\d+) (\S+) took (\S+) (\S+), (?:avg (\S+) ms, )?(.+)", line)
        if found is None:
            continue
        name, done, of, elapsed, unit, mean, rate = found.groups()
        words = " ".join(name.split())
        mine = {one["statistic"]: one for one in document["figures"] if one["name"] == words}
        assert mine["elapsed"]["printed"] == elapsed
        assert mine["elapsed"]["unit"] == unit.rstrip(",")
        assert f"{mine['rate']['printed']} {mine['rate']['unit']}" == rate
        if mean is None:
            assert (mine["processed"]["printed"], mine["processed"]["unit"]) == (done, of)
        else:
            assert (mine["mean"]["printed"], mine["mean"]["samples"]) == (mean, int(done))
    assert len(document["figures"]) == 8 * 3 + 9 * 3
    assert [one["operation"] for one in document["not_run"]] == [
        f"aes-{bits}-{mode}-{way}"
        for mode in ("cbc", "ctr")
        for bits in (128, 256)
        for way in ("enc", "dec")
    ]
    assert {one["reason"] for one in document["not_run"]} == {"not supported"}
    assert (document["unknown"], document["missing"]) == ([], [])
    rng = next(one for one in document["figures"] if one["operation"] == "rng")
    assert rng["value_bytes_per_s"] == pytest.approx(22.429 * 1024)


def test_the_published_tables_of_benchmarkdotnet_to_the_last_digit(tmp_path: Path) -> None:
    document = imported(tmp_path, DOTNET.read_bytes())
    rows = [line.split("|")[3:6] for line in DOTNET.read_text().splitlines() if " us " in line]
    printed = [cell.strip() for row in rows for cell in row]
    assert [f"{one['printed']} {one['unit']}" for one in document["figures"]] == printed
    assert len(printed) == 4 * 6 * 3
    assert document["unknown"] == []
    first = document["figures"][0]
    assert first["value_ns"] == 32_980_280
    assert first["section"] == "TPM ECDsa P256 - Windows"
    assert first["parameters"] == {"MessageInput": "High(...)ory. [1024]"}
    assert [one["statistic"] for one in document["figures"][:3]] == ["mean", "error", "stddev"]


WOLF_LINES = """\
TPM2 Benchmark using Wrapper API's
\tUse Parameter Encryption: CFB
TPM2: Caps 0x30000697, Did 0x001b, Vid 0x15d1, Rid 0x10
Loading SRK: Storage 0x81000200 (282 bytes)
TPM2_StartAuthSession: sessionHandle 0x2000000
RNG                 2 MB took 1.001 seconds,    2.123 MB/s
Benchmark symmetric AES-128-CBC-enc not supported!
Encrypt/Decrypt unavailable
AES-128-CFB-enc      0 bytes took 0.012 seconds,    0.000 bytes/s
SHA1              512 bytes took 1.000 seconds,  512.000 bytes/s
RSA     2048 key gen        2 ops took 16.200 sec, avg 8100.000 ms, 0.123 ops/sec
RSA     2048 Pub  OAEP    110 ops took 1.000 sec, avg 9.095 ms, 109.951 ops/sec
RSA     2048 Priv OAEP Skipped (not supported)
ECDHE    256 agree         16 ops took 1.055 sec, avg 65.948 ms, 15.164 ops/sec
ML-DSA    65 key gen        8 ops took 16.357 sec, avg 2044.679 ms, 0.489 ops/sec
HMLDSA    87 verifydig Skipped (sig 4627 > input buffer 1024)
       TPM is in failure mode, reset it and re-run
"""


def test_every_kind_of_line_of_wolftpm(tmp_path: Path) -> None:
    document = imported(tmp_path, WOLF_LINES)
    assert {one["name"]: one["value"] for one in document["about"]} == {
        "program": "Wrapper API's",
        "parameter encryption": "CFB",
        "TPM": "Caps 0x30000697, Did 0x001b, Vid 0x15d1, Rid 0x10",
        "storage key": "Storage 0x81000200 (282 bytes)",
        "session": "sessionHandle 0x2000000",
    }
    assert {one["operation"]: one["reason"] for one in document["not_run"]} == {
        "aes-128-cbc-enc": "not supported",
        "aes-128-cfb-enc": "Encrypt/Decrypt unavailable",
        "rsa-2048-priv-oaep": "not supported",
        "hmldsa-87-verifydig": "sig 4627 > input buffer 1024",
    }
    assert figures(document, "rsa-2048-pub-oaep")["mean"] == "9.095 ms"
    assert figures(document, "ml-dsa-65-key-gen")["rate"] == "0.489 ops/sec"
    assert figures(document, "rng")["rate"] == "2.123 MB/s"
    assert [one["text"].strip() for one in document["unknown"]] == [
        "TPM is in failure mode, reset it and re-run"
    ]
    assert document["missing"] == []


def test_the_table_of_wolftpm(tmp_path: Path) -> None:
    table = """\
TPM2 Benchmark using Wrapper API's
| Algorithm | Level | Operation | Avg latency | Throughput |
|---|---|---|---|---|
| RNG |  |  | - | 22.429 KB/s |
| AES-128-CBC-enc |  |  | N/A | not supported |
| RSA | 2048 | key gen | 1567.7 ms | 0.638 ops/s |
| ML-DSA | 65 | sign | 581.0 ms | 1.720 ops/s |
"""
    document = imported(tmp_path, table)
    assert document["format"] == "wolftpm-bench"
    assert figures(document, "rng") == {"rate": "22.429 KB/s"}
    assert figures(document, "rsa-2048-key-gen") == {"mean": "1567.7 ms", "rate": "0.638 ops/s"}
    assert figures(document, "ml-dsa-65-sign")["mean"] == "581.0 ms"
    assert document["not_run"][0]["operation"] == "aes-128-cbc-enc"
    assert document["unknown"] == []


@pytest.mark.parametrize("kept", range(6, 29))
def test_a_truncated_run_says_what_is_missing(tmp_path: Path, kept: int) -> None:
    whole = WOLF.read_text().splitlines()
    document = imported(tmp_path, "\n".join(whole[:kept]) + "\n" + whole[kept][:20])
    assert document["missing"][-1] == "ecdhe-256-agree"
    assert [one["where"] for one in document["unknown"]] == [f"line {kept + 1}"]
    seen = {one["operation"] for one in (*document["figures"], *document["not_run"])}
    assert not seen & set(document["missing"])


def test_a_run_that_failed_keeps_the_reason(tmp_path: Path) -> None:
    text = "\n".join(WOLF.read_text().splitlines()[:20]) + "\nFailure 0x2ca: TPM_RC_TYPE\n"
    document = imported(tmp_path, text)
    assert {"name": "failure", "value": "Failure 0x2ca: TPM_RC_TYPE"} in document["about"]
    assert document["missing"]


def test_a_truncated_run_of_go_tpm_tls_bench(tmp_path: Path) -> None:
    text = GO.read_text().split("One connection reused")[0] + "  TPM k"
    document = imported(tmp_path, text)
    assert document["missing"] == ["connection-reused"]
    assert document["unknown"] == [{"where": "line 21", "text": "  TPM k"}]


def test_two_runs_in_one_file_are_told_apart_by_their_curve(tmp_path: Path) -> None:
    text = GO.read_text()
    document = imported(tmp_path, text + text.replace("p256", "p384"))
    assert {one["parameters"]["curve"] for one in document["figures"]} == {"p256", "p384"}
    assert len(document["figures"]) == 2 * 44


STATISTICS = {
    "OriginalValues": [32980280.1, 33980280.25],
    "N": 2,
    "Min": 32980280.1,
    "Q1": 33230280.1375,
    "Median": 33480280.175,
    "Mean": 33480280.175,
    "Q3": 33730280.2125,
    "Max": 33980280.25,
    "StandardError": 500000.075,
    "StandardDeviation": 707106.887,
    "Skewness": "NaN",
    "ConfidenceInterval": {"N": 2, "Level": "L999", "Margin": 318309933.1},
    "Percentiles": {"P0": 32980280.1, "P95": 33930280.2425},
}


def dotnet(**changes: Any) -> str:
    """BenchmarkDotNet's JSON; the full form has Measurements, the brief one has not."""
    benchmark = {
        "DisplayInfo": "Tpm.ECDSA_Sign: DefaultJob [MessageInput=some secret value]",
        "Namespace": "Signatures",
        "Type": "Tpm",
        "Method": "ECDSA_Sign",
        "MethodTitle": "ECDSA_Sign",
        "Parameters": "MessageInput=some secret value",
        "FullName": 'Signatures.Tpm.ECDSA_Sign(MessageInput: "some secret value")',
        "Statistics": STATISTICS,
    }
    host = {
        "BenchmarkDotNetCaption": "BenchmarkDotNet",
        "OsVersion": "Windows 11",
        "PhysicalCoreCount": 8,
        "ChronometerFrequency": {"Hertz": 10000000},
    }
    return json.dumps(
        {"Title": "Tpm-1", "HostEnvironmentInfo": host, "Benchmarks": [benchmark | changes]}
    )


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


def test_a_file_from_powershell_and_one_in_an_old_code_page(tmp_path: Path) -> None:
    text = "Method,Mean\nSign,1.5 \u00b5s\n"
    for encoding in ("utf-16", "utf-8-sig", "cp1252"):
        assert imported(tmp_path, text.encode(encoding))["figures"][0]["value_ns"] == 1500


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


def test_import_through_the_command_line(tmp_path: Path, collector: Collector) -> None:
    odd = tmp_path / "notes.txt"
    odd.write_text("nothing of the kind\n")
    out = tmp_path / "imported"
    done = collector("import", GO, odd, tmp_path / "gone", "--output", out, "--device", "Lab <b>")
    assert done.returncode == 1
    none = (
        "holds no figures of go-tpm-tls-bench (text), wolfTPM's bench (text) or "
        "BenchmarkDotNet (JSON, CSV or Markdown)"
    )
    assert done.stderr.splitlines() == [
        f"collector: {odd}: {none}",
        f"collector: {tmp_path / 'gone'}: cannot be read: No such file or directory",
    ]
    (path,) = out.iterdir()
    assert done.stdout == f"{GO}: text of go-tpm-tls-bench, 44 figures: {path}\n"
    document = json.loads(path.read_text())
    assert document["source"]["file"] == GO.name
    assert document["device"] == "Lab <b>"
    assert collector("validate", path).stdout == f"{path}: valid\n"


def test_imported_figures_stand_apart_in_the_report(tmp_path: Path, inside: Collector) -> None:
    results = tmp_path / "results"
    made.write(results, made.document("vm-1", curves=("p256",)))
    out = {name: tmp_path / name for name in ("without", "with")}
    assert inside("report", results, "--output", out["without"]).returncode == 0
    imports = [GO, WOLF, DOTNET]
    inside("import", *imports, "--output", tmp_path / "more", "--device", "A <b>lab</b>")
    done = inside("report", results, tmp_path / "more", "--output", out["with"])
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("results.csv", "results.ndjson", "metrics.prom"):
        assert (out["with"] / name).read_bytes() == (out["without"] / name).read_bytes()
    for name in ("index.html", "report.md", "report.txt"):
        with_them = (out["with"] / name).read_text()
        assert "Imported from other benchmarks" in with_them
        assert "Imported from other benchmarks" not in (out["without"] / name).read_text()
        for path in imports:
            assert path.name in with_them.replace("\\_", "_")
        for figure in ("32,980.28 us", "22.429 KB/s", "21.70 ms"):
            assert figure in with_them
        assert "<b>lab" not in with_them or name == "report.txt"
    text = (out["with"] / "report.txt").read_text()
    assert [
        line for line in text.splitlines() if len(line) > 100 and str(tmp_path) not in line
    ] == []


def test_imported_medians_stand_in_columns_of_their_own(tmp_path: Path, inside: Collector) -> None:
    results, more = tmp_path / "results", tmp_path / "more"
    made.write(results, made.document("vm-1", curves=("p256",)))
    inside("import", GO, "--output", more, "--device", "Lab VM")
    out = tmp_path / "out"
    assert inside("report", results, more, "--output", out).returncode == 0
    lines = (out / "report.md").read_text().splitlines()
    (head,) = (line for line in lines if line.startswith("| Scenario | Key or load | vm-1"))
    (transient,) = (line for line in lines if "no TLS | TPM key, transient |" in line[:60])
    column = [cell.strip() for cell in head.split("|")].index("Lab VM (imported) P-256")
    assert transient.split("|")[column].strip() == "21.70"
    assert "imported from " + GO.name in (out / "index.html").read_text()
    # The claims, ratios and flat files know nothing of it; an import alone makes the table too.
    assert inside("report", more, "--output", tmp_path / "alone").returncode == 0
    alone = (tmp_path / "alone" / "report.md").read_text()
    assert "Lab VM (imported) P-256" in alone
    assert "Nothing to decide on." in alone


def test_the_same_file_imported_twice_counts_once(tmp_path: Path, inside: Collector) -> None:
    for folder in ("a", "b"):
        inside("import", WOLF, "--output", tmp_path / "more" / folder)
    done = inside("report", tmp_path / "more", "--output", tmp_path / "r")
    assert done.returncode == 1
    assert "the same imported file as" in " ".join(done.stdout.split())
