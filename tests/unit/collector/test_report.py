"""The report as a user gets it: through the command line, on files."""

from __future__ import annotations

import csv
import itertools
import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.fixtures import documents as made
from tests.fixtures.hostile import HOSTILE, hostile
from tests.support.page import Page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]

FILES = ["index.html", "report.md", "report.txt", "results.csv", "results.ndjson", "metrics.prom"]


def test_a_report_is_written_and_summed_up(two: Path, tmp_path: Path, collector: Collector) -> None:
    out = tmp_path / "report"
    done = collector("report", two, "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    *_, changed = done.stdout.splitlines()
    assert done.stdout.splitlines()[-7:-1] == [str(out / name) for name in FILES]
    assert changed == "Files changed: 6 of 6."
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    assert "software TPM" in done.stdout
    assert "published" in done.stdout


def test_medians_are_those_of_the_documents(two: Path, tmp_path: Path, inside: Collector) -> None:
    inside("report", two, "--output", tmp_path / "report")
    with (tmp_path / "report" / "results.csv").open(newline="") as file:
        rows = [row | {"metadata": json.loads(row["metadata"])} for row in csv.DictReader(file)]
    lines = (tmp_path / "report" / "results.ndjson").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [
        pytest.approx(float(row["value"])) for row in rows
    ]
    of_hosts = {row["metadata"]["host"]: row for row in rows if row["metric"] == "host"}
    assert of_hosts["vm-1"]["metadata"]["tee"] == "sev-snp"
    assert of_hosts["vm-1"]["metadata"]["document"] == str(two / "vm-1.json")
    assert {host: row["metadata"]["emulated"] for host, row in of_hosts.items()} == {
        "vm-1": False,
        "local-1": True,
    }
    rows = [row for row in rows if row["metric"] != "host"]
    checked = 0
    for path in two.iterdir():
        document = json.loads(path.read_text())
        for scenario in document["scenarios"]:
            for arm in scenario["arms"]:
                mine = {
                    row["metric"]: row
                    for row in rows
                    if (
                        row["metadata"]["host"],
                        row["metadata"]["scenario"],
                        row["metadata"]["curve"],
                        row["metadata"]["arm"],
                    )
                    == (document["host"], scenario["name"], scenario["curve"], arm["name"])
                }
                samples = sorted(arm["samples_ns"])
                middle = (samples[len(samples) // 2] + samples[len(samples) // 2 - 1]) / 2
                assert float(mine["median"]["value"]) == middle
                assert mine["median"]["unit"] == "ns"
                assert float(mine["rate"]["value"]) == pytest.approx(
                    len(samples) * 1e9 / sum(samples)
                )
                assert mine["rate"]["unit"] == f"{scenario['unit']}/s"
                assert int(mine["signatures_signer"]["value"]) == arm["signatures"]["signer"]
                assert (
                    mine["median"]["timestamp"] == "1772359270"
                )  # date -d 2026-03-01T10:01:10Z +%s
                checked += 1
    assert checked == 16 * 2 + 12 * 2


def test_the_page_is_whole_and_needs_nothing_else(
    two: Path, tmp_path: Path, inside: Collector
) -> None:
    inside("report", two, "--output", tmp_path / "report")
    page = Page(tmp_path / "report" / "index.html")
    names = [tag for tag, _ in page.tags]
    assert "script" not in names
    assert ("html", {"lang": "en-GB"}) in page.tags
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on") or name == "src"}
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    css = (tmp_path / "report" / "index.html").read_text()
    assert "@import" not in css
    assert "url(" not in css
    levels = [int(name[1]) for name in names if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    plots = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(plots) == 5 + 2
    for plot in plots:
        assert plot["role"] == "img"
        assert set((plot["aria-labelledby"] or "").split()) <= set(identifiers)
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert names.count("caption") == names.count("table")


def test_software_tpms_are_marked_and_published_figures_too(
    two: Path, tmp_path: Path, inside: Collector
) -> None:
    inside("report", two, "--output", tmp_path / "report")
    page = Page(tmp_path / "report" / "index.html")
    heads = [cell for row in page.rows if row[:2] == ["Scenario", "Key or load"] for cell in row]
    assert {"local-1software TPMP-256", "local-1software TPMP-384", "vm-1P-256"} <= set(heads)
    assert "GCE SEV-SNPREADMEpublishedP-256" in heads
    in_markdown = (tmp_path / "report" / "report.md").read_text()
    assert "local-1 (software TPM) P-256" in in_markdown
    assert "GCE SEV-SNP, README (published) P-256" in in_markdown
    # The forest plot, the verdicts and the ratios say so as well.
    assert "local-1 (software TPM)" in page.text
    assert any(
        row[0].endswith("software TPM") and row[1].endswith("confirmed") for row in page.rows
    )


def test_hostile_text_is_shown_and_obeyed_nowhere(tmp_path: Path, inside: Collector) -> None:
    made.write(tmp_path / "results", hostile())
    failures = tmp_path / "failures.json"
    failures.write_text(json.dumps([{"host": "=cmd", "stage": HOSTILE, "reason": HOSTILE}]))
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", "--output", out, "--failures", failures)
    assert done.returncode == 1
    page = Page(out / "index.html")
    assert "script" not in [tag for tag, _ in page.tags]
    assert "<script>alert(1)</script>" in "".join(page.text)
    for name in FILES:
        content = (out / name).read_text(encoding="utf-8")
        assert "\x1b" not in content
        assert "\u202e" not in content
    assert "\x1b" not in done.stdout
    in_markdown = (out / "report.md").read_text()
    assert "<script" not in in_markdown
    assert "](http" not in in_markdown.replace("\\](", "")
    for block in re.findall(r"(?:^\|.*\n)+", in_markdown, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, "no cell breaks out of its table"
    with (out / "results.csv").open(newline="") as file:
        for row in csv.reader(file):
            assert len(row) == 5
            assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in row)
            assert not any(cell.startswith("-") for cell in row)
    sample = re.compile(
        r'[a-z_]+\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,(?=[a-z]))?)*\} -?[0-9.e+-]+'
    )
    for line in (out / "metrics.prom").read_text().splitlines():
        assert line.startswith("# ") or sample.fullmatch(line), line


def test_metrics_agree_with_the_documents(two: Path, tmp_path: Path, inside: Collector) -> None:
    inside("report", two, "--output", tmp_path / "report")
    text = (tmp_path / "report" / "metrics.prom").read_text()
    assert text.endswith("# EOF\n")
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(types) == len(dict(types))
    assert set(dict(types).values()) <= {"gauge", "summary"}
    document = json.loads((two / "vm-1.json").read_text())
    arm = document["scenarios"][0]["arms"][0]
    labels = f'run="run-1",host="vm-1",scenario="raw-signing",curve="p256",arm="{arm["name"]}"'
    total = re.search(rf"^tpm_tls_bench_sample_seconds_sum{{{labels}}} (\S+)$", text, re.MULTILINE)
    assert total
    assert float(total[1]) == pytest.approx(sum(arm["samples_ns"]) / 1e9)
    assert f"tpm_tls_bench_sample_seconds_count{{{labels}}} 100\n" in text
    valid = 'tpm_tls_bench_scenario_valid{run="run-1",host="local-1",scenario="loaded-transport"'
    assert f'{valid},curve="p256"}} 0\n' in text


def test_invalid_scenarios_are_shown_and_enter_no_figure(tmp_path: Path, inside: Collector) -> None:
    for host, factor in (("vm-1", 1), ("vm-2", 1), ("vm-3", 100)):
        document = made.document(host, curves=("p256",))
        if factor != 1:
            found = document["scenarios"][2]
            found.update(status="invalid", reason="49 signatures on the transport, not 50")
            for arm in found["arms"]:
                arm["samples_ns"] = [value * factor for value in arm["samples_ns"]]
        made.write(tmp_path / "results", document)
    out = tmp_path / "report"
    assert inside("report", tmp_path / "results", "--output", out).returncode == 0
    page = Page(out / "index.html")
    fleet = [row for row in page.rows if row[0] == "New connection per request" and len(row) == 11]
    assert [row[4] for row in fleet] == ["2", "2", "2"]
    assert all(float(row[5]) < 10 for row in fleet)
    medians = [row for row in page.rows if row[:2] == ["New connection per request", "TPM key"]]
    assert "invalid" in medians[0]
    assert "49 signatures on the transport, not 50" in "".join(page.text)
    rows = [json.loads(line) for line in (out / "results.ndjson").read_text().splitlines()]
    statuses = {
        row["metadata"]["status"]
        for row in rows
        if row["metric"] == "median"
        and (row["metadata"]["host"], row["metadata"]["scenario"]) == ("vm-3", "handshake-new")
    }
    assert statuses == {"invalid"}
    assert 'host="vm-3",scenario="handshake-new",curve="p256",arm' not in (
        (out / "metrics.prom").read_text()
    )


def test_unknown_scenarios_and_arms_are_shown_under_their_own_names(
    tmp_path: Path, inside: Collector
) -> None:
    document = made.document(curves=("p256",))
    document["scenarios"].append(
        made.scenario(
            "device-rng", None, [made.arm("bytes-32", [500_000, 510_000, 505_000])], unit="request"
        )
    )
    document["scenarios"][0]["arms"].append(made.arm("hsm", [3_000_000, 3_100_000]))
    made.write(tmp_path / "results", document)
    out = tmp_path / "report"
    assert inside("report", tmp_path / "results", "--output", out).returncode == 0
    page = Page(out / "index.html")
    assert any(row[:2] == ["device-rng", "bytes-32"] and "0.505" in row for row in page.rows)
    assert any(row[0] == "hsm" and "3.05" in row for row in page.rows)
    assert "device-rng" in (out / "report.txt").read_text()
    assert "bytes-32" in (out / "report.md").read_text()


def test_a_large_fleet_is_shown_by_kind(tmp_path: Path, inside: Collector) -> None:
    for index in range(14):
        made.write(
            tmp_path / "results",
            made.document(
                f"vm-{index:02}", seed=index, curves=("p256",), signatures=12, connections=10
            ),
        )
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", "--output", out)
    assert done.returncode == 0
    assert "14 hosts" in done.stdout
    page = Page(out / "index.html")
    ratios = [row for row in page.rows if row[0] == "TPM key / software key"]
    assert [row[-1] for row in ratios] == ["14 hosts"] * 4
    assert "medians of all hosts" in "".join(page.text)


def test_text_fits_a_terminal(two: Path, tmp_path: Path, inside: Collector) -> None:
    done = inside("report", two, "--output", tmp_path / "r")
    for text in (done.stdout, (tmp_path / "r" / "report.txt").read_text()):
        long = [line for line in text.splitlines() if len(line) > 100 and str(tmp_path) not in line]
        assert long == []


def test_a_curve_without_a_figure_has_no_column_but_a_reason(
    tmp_path: Path, inside: Collector
) -> None:
    document = made.local("vm-1")
    reason = "this Python's OpenSSL has no ML-DSA"
    document["scenarios"].append(made.not_applicable("handshake-new", "mldsa65", reason))
    made.write(tmp_path / "results", document)
    inside("report", tmp_path / "results", "--output", tmp_path / "report")
    text = (tmp_path / "report" / "report.txt").read_text()
    heads = [line for line in text.splitlines() if line.startswith("key or load")]
    assert heads
    assert not [line for line in heads if "ML-DSA-65" in line]
    assert f"{reason} (vm-1 ML-DSA-65)" in " ".join(text.split())
