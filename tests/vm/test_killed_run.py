"""A machine that a test has started ends with the tests, even where they are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.support import vm as virtual

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = """
import pathlib, sys
from tests.support.vm import Machine
Machine(pathlib.Path(sys.argv[1])).start()
"""
PATIENCE_SECONDS = 120


def _wait_until(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _programs(directory: Path) -> set[str]:
    return {virtual.command_line(pid)[0] for pid in virtual.processes(directory)}


def test_no_part_of_a_machine_stays(short_dir: Path) -> None:
    directory = short_dir / "killed"
    virtual.image()  # so that it is not built first
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, directory], cwd=virtual.TREE, stdin=subprocess.DEVNULL
    ) as run:
        # Both are daemons: they have left the process that started them.
        started = _wait_until(lambda: {"swtpm", "qemu-system-x86_64"} <= _programs(directory))
        run.send_signal(signal.SIGKILL)
    assert started
    assert _wait_until(lambda: not virtual.processes(directory)), _programs(directory)
