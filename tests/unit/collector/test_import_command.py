"""Importing through the command line, and imported figures in the report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.fixtures import documents as made
from tests.fixtures.outputs import (
    DOTNET,
    GO,
    WOLF,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]


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
