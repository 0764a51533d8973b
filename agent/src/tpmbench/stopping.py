"""Signals end a run between two samples, never inside one.

An exception raised out of a signal handler could strike between a TPM command and
its response, or inside OpenSSL; a flag that is looked at between samples cannot.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tpmbench.outcome import InterruptedRunError

if TYPE_CHECKING:
    from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Remembers that a signal asked for the end. Handlers stay for the process's life.

    A signal that whoever started us had ignored stays ignored, as nohup wants it.
    """

    def __init__(self) -> None:
        self._number = 0
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._number = number

    def check(self) -> None:
        """Raise :class:`InterruptedRunError` if a signal has arrived."""
        if self._number:
            raise InterruptedRunError(self._number)
