"""Commands that a TPM was given for one signature, as the report shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from collector.commands import command_rows
from collector.load import Loaded, parse
from collector.summarise import Host, summarise
from tests.fixtures import documents as made
from tests.support.page import Page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]


def host(document: made.Document) -> Host:
    return summarise(Loaded("x.json", document), keep_samples=False)


def counted(name: str = "vm-1") -> made.Document:
    return made.counted_at_tpm(made.document(name, curves=("p256",)))


def test_the_fixture_is_a_valid_document() -> None:
    assert parse(json.dumps(counted()).encode()) == counted()


def test_each_arm_with_its_commands_beside_its_time() -> None:
    rows = {(row["scenario"], row["arm"]): row for row in command_rows([host(counted())])}
    assert {
        arm: (row["behind"], row["sent"])
        for (scenario, arm), row in rows.items()
        if scenario == "Signing beside a loaded object"
    } == {
        "nothing loaded": ("1", "1"),
        "same transport": ("4", "1"),
        "same transport, 2 objects": ("7", "1"),
        "same transport, HMAC session": ("3", "1"),
        "other transport": ("1", "1"),
    }
    raw = rows["Signing alone, no TLS", "TPM key, transient"]
    assert (raw["behind"], raw["signatures"], raw["manager"]) == ("4", "100", "kernel")
    assert raw["median"].startswith("22.")
    # One signature for 50 connections: the count is for the signature, not for the sample.
    assert rows["Resumed connection per request", "TPM key"]["behind"] == "1"
    assert not any(arm.startswith("software") for _, arm in rows)


def test_where_nobody_counted_nothing_is_shown(tmp_path: Path, inside: Collector) -> None:
    assert command_rows([host(made.document())]) == []
    made.write(tmp_path / "results", made.document())
    inside("report", tmp_path / "results", "--output", tmp_path / "report")
    for name in ("index.html", "report.md", "report.txt"):
        assert "TPM commands behind one signature" not in (tmp_path / "report" / name).read_text()
    assert "behind_manager" not in (tmp_path / "report" / "results.csv").read_text()


@pytest.mark.parametrize(("commands", "shown"), [(400, "4"), (401, "4.01"), (0, "0")])
def test_a_count_that_does_not_divide_is_a_fraction(commands: int, shown: str) -> None:
    document = counted()
    document["scenarios"][0]["arms"][0]["tpm_commands_behind_manager"] = commands
    assert command_rows([host(document)])[0]["behind"] == shown


def test_an_invalid_scenario_and_an_arm_without_signatures_have_no_count() -> None:
    document = counted()
    document["scenarios"][0].update(status="invalid", reason="counts disagree")
    document["scenarios"][1]["arms"][0]["signatures"]["transport"] = 0
    shown = {(row["scenario"], row["arm"]) for row in command_rows([host(document)])}
    assert not any(scenario == "Signing alone, no TLS" for scenario, _ in shown)
    assert ("Signing beside a loaded object", "nothing loaded") not in shown
    assert ("Signing beside a loaded object", "same transport") in shown


def test_in_every_form_of_the_report(tmp_path: Path, inside: Collector) -> None:
    made.write(tmp_path / "results", counted())
    made.write(tmp_path / "results", made.document("vm-2", curves=("p256",)))
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = ["same transport, 2 objects", "P-256", "vm-1", "kernel", "7", "1"]
    assert any(row[1:7] == wanted for row in Page(out / "index.html").rows)
    assert "| same transport, 2 objects | P-256 | vm-1 | kernel | 7 | 1 |" in (
        (out / "report.md").read_text().replace("\\", "")
    )
    (line,) = [
        line.split()
        for line in (out / "report.txt").read_text().splitlines()
        if "2 objects" in line and "kernel" in line
    ]
    assert line[4:7] == ["kernel", "7", "1"]
    rows = [json.loads(line) for line in (out / "results.ndjson").read_text().splitlines()]
    raw = {
        row["metadata"]["arm"]: (row["value"], row["unit"])
        for row in rows
        if row["metric"] == "tpm_commands_behind_manager"
        and row["metadata"]["scenario"] == "raw-signing"
    }
    assert raw == {
        "tpm-persistent": (100, "commands"),
        "tpm-transient": (400, "commands"),
        "floor": (100, "commands"),
    }
    assert (
        'tpm_tls_bench_commands_per_signature{run="run-1",host="vm-1",scenario="raw-signing",'
        'curve="p256",arm="tpm-transient"} 4.0\n'
    ) in (out / "metrics.prom").read_text()
    assert 'commands_per_signature{run="run-1",host="vm-2"' not in (
        (out / "metrics.prom").read_text()
    )


def test_the_answer_comes_before_the_details_and_the_evidence_last(
    tmp_path: Path, inside: Collector
) -> None:
    made.write(tmp_path / "results", counted())
    out = tmp_path / "report"
    inside("report", tmp_path / "results", "--output", out)
    page = Page(out / "index.html")
    sections = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert sections[:3] == ["verdicts", "medians", "commands"]
    assert sections[-7:] == [
        "per_host", "hosts", "evidence", "warnings", "failures", "broken", "method",
    ]  # fmt: skip
    linked = [
        (attributes["href"] or "")[1:]
        for tag, attributes in page.tags
        if tag == "a" and (attributes["href"] or "").startswith("#")
    ]
    assert linked == sections
    for name in ("report.md", "report.txt"):
        content = (out / name).read_text()
        places = [
            content.index(title)
            for title in (
                "Verdicts on the published claims",
                "Medians across machines and curves",
                "TPM commands behind one signature",
                "What the TPM costs: ratios",
                "Each host",
                "What was measured, and on what",
                "Warnings",
            )
        ]
        assert places == sorted(places)
