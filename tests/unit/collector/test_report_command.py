"""The commands ``report`` and ``validate`` as a user calls them: inputs, failures, wrong usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import documents as made

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]

FILES = ["index.html", "report.md", "report.txt", "results.csv", "results.ndjson", "metrics.prom"]


def test_the_order_of_inputs_does_not_matter(two: Path, tmp_path: Path, inside: Collector) -> None:
    broken = two / "zz.json"
    broken.write_text("{")
    paths = sorted(two.iterdir())
    for folder, inputs in (("a", paths), ("b", paths[::-1]), ("c", [two, paths[1]])):
        inside("report", *inputs, "--output", tmp_path / folder)
    for name in FILES:
        first = (tmp_path / "a" / name).read_bytes()
        assert (tmp_path / "b" / name).read_bytes() == first
        assert (tmp_path / "c" / name).read_bytes() == first


def test_a_file_that_is_the_same_is_not_touched(
    two: Path, tmp_path: Path, inside: Collector
) -> None:
    out = tmp_path / "report"
    inside("report", two, "--output", out)
    before = {name: (out / name).stat() for name in FILES}
    (out / "report.txt").write_text("something else")
    again = inside("report", two, "--output", out)
    assert again.stdout.splitlines()[-1] == "Files changed: 1 of 6."
    for name in FILES:
        now = (out / name).stat()
        same = (now.st_ino, now.st_mtime_ns) == (before[name].st_ino, before[name].st_mtime_ns)
        assert same == (name != "report.txt")
    assert (out / "report.txt").read_text() != "something else"
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES), "nothing is left beside"


@pytest.mark.parametrize("named", ["folder", "files"])
def test_the_runs_own_files_are_no_results(
    two: Path, tmp_path: Path, inside: Collector, named: str
) -> None:
    for name in ("run.json", "failures.json", "vm-1.done.json", "vm-9.failed.json", "a.job.json"):
        (two / name).write_text('{"host": "vm-9", "stage": "run", "reason": "off"}')
    given = [two] if named == "folder" else sorted(two.glob("*.json"))
    done = inside("report", *given, "--output", tmp_path / "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert "LEFT OUT" not in done.stdout
    checked = inside("validate", *given)
    assert (checked.returncode, len(checked.stdout.splitlines())) == (0, 2)
    none = inside("validate", two / "run.json")
    assert (none.returncode, none.stdout) == (2, "")
    assert "no result document in" in none.stderr


def test_broken_and_failed_are_named_and_the_report_still_written(
    two: Path, tmp_path: Path, inside: Collector
) -> None:
    bad = made.document("vm-9")
    bad["scenarios"][1]["arms"][0]["samples_ns"][4] = -5
    made.write(two, bad)
    (two / "half.json").write_text('{"schema": "tpm-fleet-bench/result/1", "run_id"')
    made.write(two, made.document("vm-1", seed=8), "vm-1-again.json")
    failures = tmp_path / "failed.json"
    failures.write_text(
        json.dumps([{"host": "vm-7", "stage": "measure", "reason": "the TPM stopped answering"}])
    )
    out = tmp_path / "report"
    done = inside("report", two, "--output", out, "--failures", failures)
    assert done.returncode == 1
    assert done.stderr == ""
    for name in ("index.html", "report.md", "report.txt"):
        text = " ".join((out / name).read_text().replace("\\_", "_").split())
        for expected in (
            "/scenarios/1/arms/0/samples_ns/4",
            "half.json",
            "the same run and host as",
            "vm-7",
            "the TPM stopped answering",
        ):
            assert expected in text, (name, expected)
    assert "FAILED vm-7 (measure): the TPM stopped answering" in done.stdout
    hosts = {json.loads(line)["metadata"]["host"] for line in (out / "results.ndjson").open()}
    assert hosts == {"vm-1", "local-1"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "{tmp}/gone"], "no such file or directory"),
        (["report", "{tmp}/empty"], "no result document in"),
        (["report", "{tmp}/results", "--failures", "{tmp}/gone"], "cannot be read"),
        (["report", "{tmp}/results", "--failures", "{tmp}/odd.json"], "must hold a JSON list"),
        (["report", "{tmp}/results", "--output", "{tmp}/odd.json"], "cannot be written"),
        (["report"], "required: RESULTS"),
        (["sell"], "invalid choice"),
        ([], "required: COMMAND"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], says: str, two: Path, tmp_path: Path, inside: Collector
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.json").write_text('{"host": "a"}')
    done = inside(*(argument.format(tmp=two.parent) for argument in arguments))
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_failures_alone_make_a_report(tmp_path: Path, inside: Collector) -> None:
    (tmp_path / "results").mkdir()
    failures = tmp_path / "f.json"
    failures.write_text('[{"host": "vm-1", "stage": "install", "reason": "no Python"}]')
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", "--output", out, "--failures", failures)
    assert done.returncode == 1
    for name in ("index.html", "report.md", "report.txt"):
        assert "no Python" in (out / name).read_text()


def test_validate_gives_a_line_for_each_file(tmp_path: Path, inside: Collector) -> None:
    good = made.write(tmp_path, made.document("vm-1"))
    wrong: dict[str, Any] = made.document("vm-2")
    wrong["tpm"]["tcti"] = 5
    bad = made.write(tmp_path, wrong)
    gone = tmp_path / "gone.json"
    done = inside("validate", good, bad, gone)
    assert done.returncode == 1
    first, second, third = done.stdout.splitlines()
    assert first == f"{good}: valid"
    assert second.startswith(f"{bad}: broken: /tpm/tcti: ")
    assert third == f"{gone}: broken: (whole document): cannot be read: No such file or directory"
    assert inside("validate", good).returncode == 0
