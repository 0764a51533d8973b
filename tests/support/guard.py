"""What a run of tests owes to its surroundings: it ends what it started, however it ends itself.

A process that is killed by SIGKILL cleans up nothing, and QEMU, swtpm and Ansible's jobs leave
their parents on purpose. So whatever a test starts inherits a mark, and a watcher outside ends
everything that carries the mark when the process that the tests run in is gone.

    python guard.py PID MARK    the watcher; uses nothing but the standard library
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import sys
import time
import uuid
from pathlib import Path

VARIABLE = "TPM_FLEET_BENCH_TESTS"
"""The mark's name in the environment."""

_SETTLE_SECONDS = 0.05
_LONGEST_SECONDS = 60  # a process that waits for a disk does not end at once
_ORDINARY = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}


def watch() -> str:
    """Have everything that this process starts from now on end with it; return the mark.

    For a program that overwrites its environment, put the mark on its command line.
    """
    return _watch(os.getpid())


@functools.cache
def _watch(pid: int) -> str:  # once for a process, and again for one that it forks
    mark = f"{VARIABLE}={uuid.uuid4().hex}"
    # Without a mark, so that no other watcher ends this one before its work is done.
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", __file__, str(pid), mark],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ],
        setsid=True,  # what is sent to the group of the tests' processes is not for it
    )
    os.environ[VARIABLE] = mark.partition("=")[2]
    return mark


def marked(mark: str) -> list[int]:
    """Find the processes that carry a mark, this one left out."""
    wanted, found = mark.encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if any(wanted in (entry / name).read_bytes() for name in ("environ", "cmdline")):
                found.append(int(entry.name))
    return found


def ordinary_signals() -> None:
    """Undo what this process inherited: signals that are ignored (by nohup, say) or blocked.

    SIGPIPE needs nothing: Python ignores it itself, and gives it back to what it starts.
    """
    for number, handler in _ORDINARY.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [*_ORDINARY, signal.SIGPIPE])


def _wait_for_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(pid)
        if os.getppid() == pid:  # else it has ended already, and the number may be another's
            select.select([watched], [], [])


def _end_all(mark: str) -> None:
    until = time.monotonic() + _LONGEST_SECONDS
    while (found := marked(mark)) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_SETTLE_SECONDS)


if __name__ == "__main__":
    _wait_for_end(int(sys.argv[1]))
    _end_all(sys.argv[2])
