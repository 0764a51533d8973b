"""What the double can be told to do wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass
class Fault:
    """One thing that goes wrong, the next ``times`` times a request fits.

    Attributes:
        on: pattern of the operation's name.
        naming: only if the VM that is made has this name.
        status: answer with this status and nothing done.
        code: AWS's error code of that answer.
        message: its message.
        lose_response: do what was asked, then close the connection without an answer.
        slow: seconds that the VM takes longer to start or to go.
        unseen: how many times the API does not list the VM that is made.
        vanish: the VM that is made terminates as soon as it has started.
        alter: fields of the VM that is made, other than what was asked for.
        times: how often.
    """

    on: str
    naming: str = ""
    status: int = 0
    code: str = ""
    message: str = "-"
    lose_response: bool = False
    slow: float = 0.0
    unseen: int = 0
    vanish: bool = False
    alter: dict[str, Any] | None = None
    times: int = 1

    def fits(self, operation: str, parameters: dict[str, Any]) -> bool:
        """Whether it concerns this request."""
        if self.naming and self.naming not in str(parameters.get("TagSpecifications")):
            return False
        return self.times > 0 and re.search(self.on, operation) is not None


class RefusedError(Exception):
    """The double does not do what was asked.

    Args:
        status: HTTP status.
        code: AWS's, such as ``InvalidInstanceID.NotFound``.
        message: AWS's.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
