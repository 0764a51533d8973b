"""Whatever ends a run, the TPM is as it was before."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import tpm
from tests.support.agent import QUICK, Agent, sentence, wait_for_line

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm

LONG = ("run", *QUICK, "--signatures", "300", "--connections", "20")
MOMENTS = ("raw-signing", "handshake-new", "handshake-resumed", "connection-reused")
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_ends_the_run_and_frees_the_key(
    agent: Agent, swtpm: Swtpm, number: signal.Signals, moment: str
) -> None:
    tpm.put_key(swtpm.tcti, 0x81000004)
    before = swtpm.handles()
    process = agent.start(
        *LONG, "--connections", "3000", "--scenario", moment, "--output", str(agent.output)
    )
    try:
        wait_for_line(process, f"p256 {moment}")
        time.sleep(0.1)
        process.send_signal(number)
        sent_at = time.monotonic()
        out, error = process.communicate(timeout=20)
        took = time.monotonic() - sent_at
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == STATUS[number]
    said = sentence(subprocess.CompletedProcess([], process.returncode, out, error))
    assert f"ended by signal {int(number)}" in said
    assert "the TPM is as it was before" in said
    assert took < 10
    assert swtpm.handles() == before
    assert agent.journal_files() == []
    assert not agent.output.exists()
    assert out == ""


def test_a_signal_during_provisioning_frees_the_key(agent: Agent, swtpm: Swtpm) -> None:
    process = agent.start(*LONG)
    try:
        while not agent.journal_files():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143, error
    assert swtpm.handles() == (frozenset(), frozenset())
    assert agent.journal_files() == []


def test_ctrl_c_on_a_terminal_reaches_the_whole_group_and_frees_the_key(
    agent: Agent, swtpm: Swtpm
) -> None:
    master, slave = pty.openpty()
    process = agent.start(
        *LONG, stdin=slave, stdout=slave, stderr=slave, text=False, start_new_session=True,
        preexec_fn=_take_terminal,
    )  # fmt: skip
    os.close(slave)
    try:
        seen = _read_until(master, b"handshake-new ")
        os.write(master, b"\x03")
        seen += _read_until(master, b"as it was before")
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert b"Traceback" not in seen
    assert swtpm.handles() == (frozenset(), frozenset())
    assert agent.journal_files() == []


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read_until(descriptor: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # the other side is gone
            piece = b""
        assert piece, f"{wanted!r} did not come; seen: {seen[-2000:]!r}"
        seen += piece
    return seen


def test_under_nohup_a_hang_up_does_not_end_the_run(agent: Agent, swtpm: Swtpm) -> None:
    process = agent.start(
        *LONG,
        "--scenario",
        "raw-signing",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    try:
        wait_for_line(process, "p256 raw-signing")
        process.send_signal(signal.SIGHUP)
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, error
    assert swtpm.handles() == (frozenset(), frozenset())


def test_a_reader_that_goes_away_changes_nothing(agent: Agent, swtpm: Swtpm) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = agent(
            "run", *QUICK, "--scenario", "raw-signing", "--output", str(agent.output),
            stdout=writing,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert agent.document()["scenarios"][0]["status"] == "valid"
    assert swtpm.handles() == (frozenset(), frozenset())


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_changes_nothing(agent: Agent, swtpm: Swtpm, closed: int) -> None:
    done = agent(
        "run", *QUICK, "--scenario", "raw-signing", "--output", str(agent.output),
        preexec_fn=lambda: os.close(closed),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert agent.document()["scenarios"][0]["status"] == "valid"
    assert swtpm.handles() == (frozenset(), frozenset())
    assert agent.journal_files() == []


def test_a_stderr_that_breaks_in_the_middle_does_not_leave_a_key(
    agent: Agent, swtpm: Swtpm
) -> None:
    process = agent.start(*LONG, "--scenario", "raw-signing", "--scenario", "handshake-new")
    try:
        wait_for_line(process, "p256 raw-signing")
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        assert process.stdout is not None
        assert "signatures" in process.stdout.read()
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert swtpm.handles() == (frozenset(), frozenset())


def test_a_full_disk_for_stdout_is_said(agent: Agent, swtpm: Swtpm) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = agent(
            "run", *QUICK, "--scenario", "raw-signing", "--output", str(agent.output), stdout=full
        )
    finally:
        os.close(full)
    assert done.returncode == 3
    assert "stdout" in sentence(done)
    assert agent.document()["scenarios"][0]["status"] == "valid"
    assert swtpm.handles() == (frozenset(), frozenset())
