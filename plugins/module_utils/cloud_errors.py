"""What every cloud's API may refuse: a class, and one sentence with its remedy."""

from __future__ import annotations

from typing import Any


class CloudError(Exception):
    """What went wrong with a request or an operation.

    Attributes:
        kind: the class: rules, quota, capacity, machine-type, image, permission, api-disabled,
            not-found, conflict, credentials, deadline, rate, server, unreachable, busy, not-ours,
            needs-recreation, mismatch, vanished, invalid.
        retriable: whether the same request may succeed if it is sent again soon.
        after: seconds that the cloud asked to wait before that; 0 where it did not.
        details: what the module returns besides the sentence.
    """

    def __init__(
        self,
        kind: str,
        sentence: str,
        *,
        retriable: bool = False,
        after: float = 0.0,
        **details: Any,
    ) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.retriable = retriable
        self.after = after
        self.details = details


def line(error: Exception) -> str:
    """An exception's message on one line, without the final stop."""
    # Some put a sentence and then details; an OSError begins with a number.
    words = error if isinstance(error, OSError) or not error.args else error.args[0]
    return " ".join(str(words).split()).rstrip(".")[:300]
