"""Progress: a live line on a terminal, plain lines elsewhere, and no reader needed."""

from __future__ import annotations

import io
import os
import pty
import sys

import pytest

from tpmbench.progress import Progress


def go_through(progress: Progress) -> None:
    progress.say("freed 1 object")
    progress.begin("p256 raw-signing")
    for done in range(3):
        progress._last = 0.0
        progress.step(done, 2)
    progress.end()
    progress.begin("p256 handshake-new")
    progress.end()


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    go_through(Progress(stream))
    assert stream.getvalue() == "freed 1 object\np256 raw-signing\np256 handshake-new\n"


def test_one_live_line_on_a_terminal() -> None:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream:  # noqa: PTH123  # a descriptor
        go_through(Progress(stream))
        seen = b""
        while not seen.endswith(b"2/2\r\x1b[K\r\x1b[K"):
            seen += os.read(master, 4096)
    os.close(master)
    steps = [part for part in seen.decode().split("\r\x1b[K") if part.strip()]
    assert steps == [
        "freed 1 object\r\n",
        "p256 raw-signing 0/2",
        "p256 raw-signing 1/2",
        "p256 raw-signing 2/2",
    ]


def test_the_live_line_does_not_change_at_every_sample() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    progress = Progress(stream)
    progress.begin("p256 raw-signing")
    for done in range(1000):
        progress.step(done, 1000)
    assert 1 <= stream.getvalue().count("raw-signing") < 20


def test_a_reader_that_goes_away_is_not_missed() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = open(writing, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # closed below
    progress = Progress(stream)
    go_through(progress)
    go_through(progress)
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_closed_stderr_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    progress = Progress()
    go_through(progress)
    assert not progress._live
