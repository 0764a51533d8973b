"""Progress on stderr: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Says what is being measured. A reader that goes away does not end the run.

    Args:
        stream: where to write; None for stderr, which may be closed.
    """

    _EVERY = 0.1  # seconds between two changes of the live line

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._live = self._stream is not None and self._stream.isatty()
        self._title = ""
        self._last = 0.0

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._clear()
        self._write(f"{text}\n")

    def begin(self, title: str) -> None:
        """Name the step that begins."""
        self._title = title
        if not self._live:
            self._write(f"{title}\n")

    def step(self, done: int, total: int) -> None:
        """Show how far the step is."""
        now = time.monotonic()
        if self._live and now - self._last >= self._EVERY:
            self._last = now
            self._write(f"\r\x1b[K{self._title} {done}/{total}")

    def end(self) -> None:
        """Take the live line away."""
        self._clear()

    def _clear(self) -> None:
        if self._live:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal or the pipe's reader is gone
            self._stream = None
