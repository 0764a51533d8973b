"""A helper process of ours: settings in on its stdin, lines back on its stdout."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpmbench.outcome import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpmbench.memory import PeakMemory


class Child:
    """A running helper process.

    Args:
        process: the process, its stdin and stdout pipes.
        what: what it is, for messages.
    """

    def __init__(self, process: subprocess.Popen[str], what: str) -> None:
        self._process = process
        self._what = what

    def tell(self, line: str = "") -> None:
        """Send a line."""
        assert self._process.stdin is not None  # noqa: S101  # a pipe, see below
        with contextlib.suppress(BrokenPipeError):  # the answer that is missing tells
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def hear(self) -> str:
        """Return the next line.

        Raises:
            BenchError: the process is gone.
        """
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the {self._what} process ended early; see its message above")
        return line.strip()


@contextlib.contextmanager
def running(
    module: str, what: str, settings: dict[str, Any], memory: PeakMemory | None = None
) -> Iterator[Child]:
    """Run a module of ours for the time of the block. It ends when its stdin does.

    Args:
        module: such as ``tpmbench.server``.
        what: what it is, for messages.
        settings: its first line of input.
        memory: is shown the process before it ends.
    """
    source = str(Path(__file__).resolve().parents[1])
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
        start_new_session=True,  # Ctrl-C is for the agent, which ends its helpers itself
        text=True,
    )
    try:
        child = Child(process, what)
        child.tell(json.dumps(settings))
        yield child
    finally:
        if memory:
            memory.observe(process.pid)
        try:
            with contextlib.suppress(BrokenPipeError):
                process.communicate(timeout=5)
        finally:
            process.kill()  # does nothing where it has ended
            process.wait()
