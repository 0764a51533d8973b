"""The journal: written whole, read with distrust, open to one run at a time."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tpmbench.journal import Entry, Journal, default_state_directory
from tpmbench.outcome import BenchError, Status

ENTRY = Entry("ab" * 32, "device:/dev/tpmrm0", 0x817FF000, None, "boot")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def test_an_entry_is_kept_named_and_forgotten(journal: Journal, tmp_path: Path) -> None:
    journal.write(ENTRY)
    assert Journal(tmp_path).entries() == [ENTRY]
    named = journal.name(ENTRY, b"\x00\x0b\x01")
    assert named == replace(ENTRY, name="000b01")
    assert Journal(tmp_path).entries() == [named]
    journal.remove(named)
    journal.remove(named)
    assert Journal(tmp_path).entries() == []


def test_a_name_that_cannot_be_written_leaves_the_entry_as_it_was(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(ENTRY)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BenchError, match=r"No space left on device.*--state-dir"):
        journal.name(ENTRY, b"\x01")
    monkeypatch.undo()
    assert journal.entries() == [ENTRY]


def test_an_entry_is_on_the_disk_before_write_returns(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    flush = os.fsync

    def note(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    journal.write(ENTRY)
    directory = str(tmp_path / "journal")
    assert synced == [f"{directory}/{ENTRY.mark}.new", directory]


def test_drafts_of_a_killed_run_go_with_the_next(journal: Journal, tmp_path: Path) -> None:
    journal.write(ENTRY)
    draft = tmp_path / "journal" / f"{'cd' * 32}.new"
    draft.write_text('{"mark"')
    with journal.locked():
        assert not draft.exists()
        assert journal.entries() == [ENTRY]


def test_one_run_at_a_time(journal: Journal, tmp_path: Path) -> None:
    with (
        journal.locked(),
        pytest.raises(BenchError, match="another tpm-tls-bench is at work") as caught,
        Journal(tmp_path).locked(),
    ):
        raise AssertionError("both runs hold the lock")
    assert caught.value.status == Status.UNUSABLE
    with Journal(tmp_path).locked():
        pass


WRONG: dict[str, Any] = {
    "half": '{"mark": ',
    "a list": "[]",
    "a field too many": json.dumps({**asdict(ENTRY), "colour": "blue"}),
    "a field too few": json.dumps({"mark": ENTRY.mark}),
    # An object is ours by its mark. No policy at all is what every other key has.
    "an empty mark": json.dumps(asdict(replace(ENTRY, mark=""))),
    "a short mark": json.dumps(asdict(replace(ENTRY, mark="ab"))),
    "another's mark": json.dumps(asdict(replace(ENTRY, mark="cd" * 32))),
    "no text as mark": json.dumps({**asdict(ENTRY), "mark": 5}),
    "no text as TCTI": json.dumps({**asdict(ENTRY), "tcti": None}),
    "no text as Name": json.dumps({**asdict(ENTRY), "name": 7}),
    "no number as handle": json.dumps({**asdict(ENTRY), "handle": "0x81000001"}),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_an_entry_that_we_did_not_write_proves_nothing(
    journal: Journal, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "journal" / f"{ENTRY.mark}.json"
    path.write_text(text)
    with pytest.raises(BenchError, match="cannot be read") as caught:
        journal.entries()
    assert str(path) in str(caught.value)
    assert "remove the file" in str(caught.value)


@pytest.mark.parametrize("mark", ["", "ab", "AB" * 32, "zz" * 32])
def test_a_file_name_that_is_no_mark_proves_nothing(
    journal: Journal, tmp_path: Path, mark: str
) -> None:
    path = tmp_path / "journal" / f"{mark or 'x'}.json"
    path.write_text(json.dumps(asdict(replace(ENTRY, mark=mark))))
    with pytest.raises(BenchError, match="its mark is not that of its file"):
        journal.entries()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BenchError, match="--state-dir"):
        Journal(tmp_path / "file")


def test_only_the_owner_may_look(journal: Journal, tmp_path: Path) -> None:
    with journal.locked():
        assert (tmp_path / "journal").stat().st_mode & 0o077 == 0
        assert (tmp_path / "lock").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("user", "base", "expected"),
    [
        (0, "/x", "/var/lib/tpm-tls-bench"),
        (1000, "/x", "/x/tpm-tls-bench"),
        (1000, "", "/home/u/.local/state/tpm-tls-bench"),
    ],
)
def test_the_state_directory_by_user(
    monkeypatch: pytest.MonkeyPatch, user: int, base: str, expected: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("XDG_STATE_HOME", base)
    monkeypatch.setenv("HOME", "/home/u")
    assert str(default_state_directory()) == expected
