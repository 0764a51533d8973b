"""Signals are remembered and looked at between samples."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tpmbench.outcome import InterruptedRunError
from tpmbench.stopping import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_remembered_until_the_check(number: signal.Signals) -> None:
    stop = Stop()
    stop.check()
    os.kill(os.getpid(), number)
    for _ in range(2):
        with pytest.raises(InterruptedRunError) as caught:
            stop.check()
        assert caught.value.number == number


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = Stop()
    os.kill(os.getpid(), signal.SIGHUP)
    stop.check()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(InterruptedRunError):
        stop.check()
