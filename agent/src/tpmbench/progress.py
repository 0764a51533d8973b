"""Progress on stderr: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Says what is being measured.

    Args:
        stream: where to write.
    """

    _EVERY = 0.1  # seconds between two changes of the live line

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._title = ""
        self._last = 0.0

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def begin(self, title: str) -> None:
        """Name the step that begins."""
        self._title = title
        if not self._live:
            print(title, file=self._stream, flush=True)

    def step(self, done: int, total: int) -> None:
        """Show how far the step is."""
        now = time.monotonic()
        if self._live and now - self._last >= self._EVERY:
            self._last = now
            print(f"\r\x1b[K{self._title} {done}/{total}", end="", file=self._stream, flush=True)

    def end(self) -> None:
        """Take the live line away."""
        self._clear()

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
