"""Tests leave nothing when they are killed, and run alike however they were started."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import guard, swtpm

if TYPE_CHECKING:
    from collections.abc import Callable

TREE = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 60
# Stands for a process that the tests run in; says the number of what it has started.
STARTS = {
    "swtpm": """
from tests.support.swtpm import Swtpm
tpm = Swtpm(pathlib.Path(sys.argv[1]))
tpm.start()
print(tpm.pid, flush=True)
""",
    # As QEMU and Ansible's jobs do: in a session of its own, with no parent but the first process.
    "a daemon": """
from tests.support import guard
guard.watch()
program = '''
import os, time
if os.fork():
    os._exit(0)
os.setsid()
print(os.getpid(), flush=True)
time.sleep(600)
'''
subprocess.Popen([sys.executable, "-c", program]).wait()
""",
    "what a watched process of its own starts": """
from tests.support import guard
guard.watch()
program = '''
import subprocess, time
from tests.support import guard
guard.watch()
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
'''
subprocess.Popen([sys.executable, "-c", program])
""",
}


def _python(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def _ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def _parent_and_session(pid: int) -> tuple[int, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[1]), int(fields[3])


def _wait_until(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.swtpm
@pytest.mark.parametrize("what", STARTS)
def test_what_was_started_ends_with_a_killed_run(what: str, tmp_path: Path) -> None:
    program = f"import pathlib, subprocess, sys, time\n{STARTS[what]}\ntime.sleep(600)"
    with subprocess.Popen(
        _python(program, tmp_path), cwd=TREE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        started = int(run.stdout.readline())
        assert not _ended(started)
        run.send_signal(signal.SIGKILL)
        ended = _wait_until(lambda: _ended(started))
    assert ended, f"process {started} is still there"


def test_this_run_is_watched() -> None:
    mark = guard.watch()
    assert f"{guard.VARIABLE}={os.environ[guard.VARIABLE]}" == mark
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        try:
            assert _wait_until(lambda: sleeping.pid in guard.marked(mark))
        finally:
            sleeping.kill()
    watchers = [pid for pid in guard.marked(mark) if _parent_and_session(pid) == (os.getpid(), pid)]
    assert len(watchers) == 1


IGNORED_BY_NOHUP = """
import signal, subprocess, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True, restore_signals=False)
"""
SHOW = 'subprocess.run(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"], check=True)'


@pytest.mark.parametrize("undone", [True, False])
def test_ignored_and_blocked_signals_are_not_inherited(undone: bool) -> None:
    prepare = "guard.ordinary_signals()" if undone else ""
    program = f"import subprocess\nfrom tests.support import guard\n{prepare}\n{SHOW}"
    said = subprocess.run(
        _python(IGNORED_BY_NOHUP, program), cwd=TREE, capture_output=True, text=True, check=True
    ).stdout
    masks = {name: int(value, 16) for name, value in re.findall(r"Sig(\w+):\s*(\w+)", said)}
    blocked, ignored = (
        {number for number in range(1, 32) if masks[name] >> number - 1 & 1}
        for name in ("Blk", "Ign")
    )
    wrong = (set(), set())
    if not undone:  # so the test would see it
        wrong = ({signal.SIGTERM}, {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})
    assert (blocked, ignored) == wrong


def test_a_socket_listens_only_when_it_takes_connections(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        assert not swtpm._path_listens(path)
        server.bind(str(path))
        assert path.exists()
        assert not swtpm._path_listens(path)
        server.listen()
        assert swtpm._path_listens(path)
