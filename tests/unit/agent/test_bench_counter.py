"""The program that tells how many commands the TPM has been given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tpmbench.cli import main
from tpmbench.counting import CommandCounter
from tpmbench.outcome import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_it_reads_the_number_again_each_time(tmp_path: Path) -> None:
    log = tmp_path / "a log"
    counter = CommandCounter(f"grep -c SWTPM_IO_Read '{log}'")
    log.write_text("SWTPM_IO_Read: length 12\n 80 01\nSWTPM_IO_Write: length 10\n" * 3)
    assert counter.read() == 3
    with log.open("a") as more:
        more.write("SWTPM_IO_Read: length 12\n")
    assert counter.read() == 4


@pytest.mark.parametrize(
    "line",
    ["no-such-program-here", "echo many", "false", "", "unbalanced '", "echo"],
)
def test_one_that_does_not_count_is_named(line: str) -> None:
    with pytest.raises(UsageError, match=r"command counter .* must print one number") as caught:
        CommandCounter(line).read()
    assert repr(line) in str(caught.value)


def test_a_number_that_still_grows_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommandCounter, "_PAUSE", 0.0)
    asked = tmp_path / "asked"
    # Says 1, 2, 3 and then 3 for ever.
    line = f"""sh -c 'echo >> "{asked}"; n=$(wc -l < "{asked}"); echo $((n < 3 ? n : 3))'"""
    assert CommandCounter(line).settled() == 3
    assert len(asked.read_text()) == 4


def test_a_number_that_never_rests_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommandCounter, "_PAUSE", 0.0)
    asked = tmp_path / "asked"
    with pytest.raises(UsageError, match="never rests"):
        CommandCounter(f"""sh -c 'echo >> "{asked}"; wc -l < "{asked}"'""").settled()


def test_it_is_asked_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tcti = f"swtpm:path={tmp_path}/nobody-listens"
    assert main(["run", "--tcti", tcti, "--command-counter", "echo none"]) == 2
    assert "command counter 'echo none' does not count" in capsys.readouterr().err
