"""Importers, on what others published (tests/fixtures/imports) and on runs cut short."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.outputs import (
    DOTNET,
    GO,
    WOLF,
    WOLF_LINES,
    figures,
    imported,
)

if TYPE_CHECKING:
    from pathlib import Path

NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


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


def test_a_file_from_powershell_and_one_in_an_old_code_page(tmp_path: Path) -> None:
    text = "Method,Mean\nSign,1.5 \u00b5s\n"
    for encoding in ("utf-16", "utf-8-sig", "cp1252"):
        assert imported(tmp_path, text.encode(encoding))["figures"][0]["value_ns"] == 1500
