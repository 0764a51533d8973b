"""Writing a result document: wholly or not at all, and only where a file belongs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tpmbench import document
from tpmbench.outcome import BenchError

if TYPE_CHECKING:
    from pathlib import Path


def test_it_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    document.write({"host": "ä"}, path)
    assert json.loads(path.read_text(encoding="utf-8")) == {"host": "ä"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_document_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BenchError, match=r"No space left on device.*--output"):
        document.write({"host": "h"}, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_never_sees_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    path.write_text('"old"')
    seen: list[Any] = []
    flush = os.fsync

    def look(descriptor: int) -> None:
        flush(descriptor)
        seen.append(json.loads(path.read_text()))

    monkeypatch.setattr(os, "fsync", look)
    document.write({"samples": list(range(100_000))}, path)
    assert seen == ["old"]
    assert json.loads(path.read_text())["samples"][-1] == 99_999


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    document.check_writable(link)
    document.write({"host": "h"}, link)
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"host": "h"}


@pytest.mark.parametrize("kind", ["fifo", "device", "directory"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "result.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(BenchError, match="no regular file"):
        document.check_writable(path)


def test_the_instant_is_utc_to_the_second() -> None:
    assert len(document.now()) == len("2025-01-01T00:00:00Z")
    assert document.now().endswith("Z")


def test_the_agent_names_its_parts() -> None:
    assert set(document.agent()) == {"version", "python", "openssl", "cryptography", "tpm2_pytss"}
    assert all(document.agent().values())
