"""Waiting for a cloud: retries with back-off, and looks at what is under way, until a deadline."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ansible.module_utils.cloud_errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPTS = 7  # of one request
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 16.0  # seconds between attempts, doubling
LONGEST_LOOK = 5.0  # seconds between two looks at something that is under way
LONGEST_AFTER = 120.0  # seconds that a cloud is waited for at its own word
# Looks at what was just made and is not known yet; a cloud's parts learn of it one after another.
SOON = 6

Answer = TypeVar("Answer")


def retry_after(said: str | None) -> float:
    """Seconds that a ``Retry-After`` asks for, in seconds or as a date; 0 where it cannot be read.

    Args:
        said: the header's value.
    """
    text = (said or "").strip()
    try:
        if text.isdecimal():
            seconds = float(text)
        else:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_AFTER)


class Deadline:
    """The end of everything that one task does.

    Args:
        seconds: from now.
        pauses: replaces :func:`time.sleep` in tests.
        error: the cloud's own class of :class:`CloudError`.
    """

    def __init__(
        self, seconds: float, pauses: Any = time.sleep, error: type[CloudError] = CloudError
    ) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._pause = pauses
        self._error = error

    def wait(self, seconds: float, waiting_for: str) -> None:
        """Sleep.

        Raises:
            CloudError: the deadline would pass; kind ``deadline``.
        """
        if time.monotonic() + seconds > self._end:
            raise self._error(
                "deadline",
                f"After {self._seconds} s {waiting_for}. Run again to go on waiting, or raise "
                "timeout.",
            )
        self._pause(seconds)

    def until(self, look: Callable[[], Answer], waiting_for: str | Callable[[], str]) -> Answer:
        """Call ``look`` until it returns something true, and return that.

        Args:
            look: asks the cloud.
            waiting_for: what is still so, for the message; or what says it at the end.

        Raises:
            CloudError: the deadline passed; kind ``deadline``.
        """
        every = FIRST_PAUSE
        while not (seen := look()):
            self.wait(every, waiting_for if isinstance(waiting_for, str) else waiting_for())
            every = min(every * 2, LONGEST_LOOK)
        return seen

    def soon(self, look: Callable[[], Answer]) -> Answer:
        """Call ``look`` :data:`SOON` times at most until it returns something true.

        Returns:
            What it returned last.

        Raises:
            CloudError: the deadline passed; kind ``deadline``.
        """
        every, seen = FIRST_PAUSE, look()
        for _ in range(SOON - 1):
            if seen:
                break
            self.wait(every, "it is not known to the cloud yet")
            every = min(every * 2, LONGEST_LOOK)
            seen = look()
        return seen

    def attempts(self, send: Callable[[], Answer]) -> Answer:
        """Call ``send`` again while it fails with what may pass, at most :data:`ATTEMPTS` times.

        A time that the cloud asked to wait for is kept to.

        Raises:
            CloudError: of the last attempt.
        """
        pause, attempt = FIRST_PAUSE, 1
        while True:
            try:
                return send()
            except CloudError as error:
                # Half of it by chance, so that many hosts do not come back at once.
                wait = max(error.after, pause * (0.5 + random.random() / 2))  # noqa: S311
                late = time.monotonic() + max(error.after, pause) > self._end
                if not error.retriable or late or attempt == ATTEMPTS:
                    raise
            self._pause(wait)
            pause, attempt = min(pause * 2, LONGEST_PAUSE), attempt + 1
