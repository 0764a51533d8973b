"""What the double can be told to do wrong, and errors in the API's form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass
class Fault:
    """One thing that goes wrong, the next ``times`` times a request fits.

    Attributes:
        on: pattern of ``VERB path``.
        naming: only if the body's ``name`` is this.
        status: answer with this status and nothing done.
        error: the answer's body, see :func:`refusal`.
        lose_response: do what was asked, then close the connection without an answer.
        operation_error: (code, message) that the operation ends with; nothing is made.
        slow: seconds that the operation takes longer.
        vanish: the VM that is made is gone as soon as its operation is done.
        alter: fields of the VM that is made, other than what was asked for.
        times: how often.
    """

    on: str
    naming: str = ""
    status: int = 0
    error: dict[str, Any] | None = None
    lose_response: bool = False
    operation_error: tuple[str, str] | None = None
    slow: float = 0.0
    vanish: bool = False
    alter: dict[str, Any] | None = None
    times: int = 1

    def fits(self, verb: str, path: str, body: Any) -> bool:
        """Whether it concerns this request."""
        if self.naming and (body or {}).get("name") != self.naming:
            return False
        return self.times > 0 and re.search(self.on, f"{verb} {path}") is not None


class RefusedError(Exception):
    """The double does not do what was asked.

    Args:
        status: HTTP status.
        reason: the API's, such as ``notFound``.
        message: the API's.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = refusal(status, reason, message)


def refusal(status: int, reason: str, message: str, info: str = "") -> dict[str, Any]:
    """A refusal as the API words it; ``info`` is the reason of a ``google.rpc.ErrorInfo``."""
    error: dict[str, Any] = {
        "code": status,
        "message": message,
        "errors": [{"message": message, "domain": "global", "reason": reason}],
    }
    if info:
        error |= {
            "status": "PERMISSION_DENIED",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": info}],
        }
    return {"error": error}
