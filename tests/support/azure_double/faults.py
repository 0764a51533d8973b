"""What the double can be told to do wrong, and errors in Azure's form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fault:
    """One thing that goes wrong, the next ``times`` times a request fits.

    Attributes:
        on: pattern of ``VERB path``.
        status: answer with this status and nothing done.
        error: the answer's body, see :func:`refusal`.
        headers: of that answer.
        lose_response: do what was asked, then close the connection without an answer.
        operation_error: (code, message) that the operation ends with.
        slow: seconds that the operation takes longer.
        vanish: the VM that is made is gone as soon as its operation is done.
        alter: properties of the VM that is made, other than what was asked for.
        times: how often.
    """

    on: str
    status: int = 0
    error: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    lose_response: bool = False
    operation_error: tuple[str, str] | None = None
    slow: float = 0.0
    vanish: bool = False
    alter: dict[str, Any] | None = None
    times: int = 1

    def fits(self, verb: str, path: str) -> bool:
        """Whether it concerns this request."""
        return self.times > 0 and re.search(self.on, f"{verb} {path}") is not None


class RefusedError(Exception):
    """The double does not do what was asked.

    Args:
        status: HTTP status.
        code: Azure's, such as ``ResourceNotFound``.
        message: Azure's.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = refusal(code, message)


def refusal(code: str, message: str) -> dict[str, Any]:
    """A refusal as Azure words it."""
    return {"error": {"code": code, "message": message}}
