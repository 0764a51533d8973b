"""The command line without a TPM: what it refuses, and how it says so."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tpmbench import cli
from tpmbench.scenarios import SCENARIOS, chosen

if TYPE_CHECKING:
    from pathlib import Path


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Run, expect a usage error, and return the one sentence on stderr."""
    try:
        status = cli.main(list(argv))
    except SystemExit as ended:
        status = ended.code
    out, error = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert "Traceback" not in error
    said = [line for line in error.splitlines() if line.startswith("tpm-tls-bench")]
    assert len(said) == 1, error
    return said[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--curve", "p224"], "p224"),
        (["--handle", "0x40000001"], "no persistent handle of the owner's"),
        (["--handle", "0x81800000"], "0x81000000 to 0x817fffff"),
        (["--handle", "four"], "'four'"),
        (["--signatures", "0"], "at least 1 is needed"),
        (["--signatures", "-1"], "'-1'"),
        (["--connections", "1.5"], "'1.5' is no whole number"),
        (["--connections", "²"], "'²' is no whole number"),
        (["--warmup", "many"], "'many' is no whole number"),
        (["--block", "0"], "at least 1 is needed"),
        (["--deadline", "0"], "from 0.01 to 3600 seconds"),
        (["--deadline", "nan"], "'nan'"),
        (["--deadline", "soon"], "'soon'"),
        (["--run-id", "../up"], "'../up' is no name"),
        (["--host", ""], "'' is no name"),
        (["--suite", "ssh"], "ssh"),
        (["--scenario", "handshake-old"], "there is no scenario 'handshake-old'"),
        (["--scenario", "raw-singing"], "did you mean raw-signing? tpm-tls-bench list"),
        (["--suite", "tls", "--scenario", "raw-singing"], "did you mean raw-signing?"),
        (["--suite", "device", "--scenario", "raw-signing"], "raw-signing is of the suite tls"),
        (
            ["--suite", "device", "--suite", "messages", "--scenario", "raw-signing"],
            "--suite asks for device and messages only; add --suite tls, or leave --suite out",
        ),
        (["--tcti", "device:/dev/tpm0", "--tcti", "device:/dev/tpm0"], "is given twice"),
        (
            ["--tcti", "a:", "--tcti", "b:", "--scenario", "handshake-new"],
            "ask for the suites device or messages, or for raw-signing",
        ),
        (["--curve", "mldsa65", "--scenario", "raw-signing"], "is for handshake-new only"),
        (["--metadata", "always"], "always"),
        (["--speed", "11"], "--speed"),
    ],
)
def test_wrong_options_are_named(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert said in refused(capsys, "run", *options)


@pytest.mark.parametrize("argv", [[], ["measure"], ["show"], ["provision"]])
def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert "error: " in refused(capsys, *argv)


def test_list_has_a_line_for_each_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [scenario.name, scenario.suite] for scenario in SCENARIOS
    ]
    columns = {tuple(part.start() for part in re.finditer(r"(?<=  )\S", line)) for line in lines}
    assert len(columns) == 1, "the columns are not aligned"
    assert len(columns.pop()) == 2


def test_a_scenario_narrows_the_suites_that_are_asked_for() -> None:
    assert {item.suite for item in chosen(["tls", "messages"], [])} == {"tls", "messages"}
    assert [item.name for item in chosen(["tls", "device"], ["device-rng"])] == ["device-rng"]
    assert [item.name for item in chosen([], ["device-rng", "raw-signing"])] == [
        "raw-signing", "device-rng",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read as a result document"),
        ("", "cannot be read as a result document"),
        ("[" * 200_000, "cannot be read as a result document"),
        ("\xff", "cannot be read as a result document"),
        ("[]", "is no result document of format"),
        ('{"schema": "tpm-fleet-bench/result/2"}', "is no result document of format"),
        ('{"schema": "tpm-fleet-bench/result/1"}', "does not follow the format"),
    ],
)
def test_show_refuses_what_is_no_result_document(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "result.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    message = refused(capsys, "show", str(path))
    assert said in message
    assert str(path) in message


def test_show_names_what_a_document_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"schema": "tpm-fleet-bench/result/1"}))
    assert "KeyError('tpm')" in refused(capsys, "show", str(path))


@pytest.mark.parametrize("name", ["no/such/directory/r.json", "."])
def test_an_output_that_cannot_be_written_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    status = cli.main(["run", "--output", str(tmp_path / name), "--state-dir", str(tmp_path)])
    assert status == 3
    assert "name another --output" in capsys.readouterr().err
