"""What an operation of the suite is made of, and the ways in which one does not run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tpm2_pytss import ESAPI

    from tpmbench.device.codes import Status
    from tpmbench.device.stage import Stage


class WrongAnswerError(Exception):
    """The TPM said success, and what it returned is wrong."""


class NotRunError(Exception):
    """The operation is not carried out here.

    Attributes:
        status: why, in a word.
        code: the response code that told, or None where it was known without asking.
    """

    def __init__(self, status: Status, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Stacked:
    """The same operation through ESAPI.

    Attributes:
        call: does it; keyword arguments ``session1`` to ``session3`` are handed on.
        judge: checks what it returned, and frees what it made; not timed.
        session: the keyword under which a further session goes in, behind the authorisations.
        encrypts: whether the command's and the response's first parameter can be encrypted.
    """

    call: Callable[..., Any]
    judge: Callable[[Any], None]
    session: str = "session2"
    encrypts: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Job:
    """An operation with everything that it needs in place.

    Attributes:
        once: does it once, over :meth:`Stage.ask`, and checks the answer.
        stack: makes ESAPI's way of doing it; None where it has none.
        bytes: how many bytes one operation processes; 0 where that says nothing.
    """

    once: Callable[[], None]
    stack: Callable[[ESAPI], Stacked] | None = None
    bytes: int = 0


@dataclass(frozen=True)
class Operation:
    """One row of the suite.

    Attributes:
        name: the scenario's name, which begins with ``device-``.
        title: as wolfTPM's bench prints it, where it has it.
        question: a line for ``tpm-tls-bench list``.
        prepare: puts in place what is needed, for the time of the block.
        commands: TPM commands that it takes.
        algorithms: TPM_ALG_IDs that it takes.
        slow: key generation, which wolfTPM's bench gives fifteen times as long.
    """

    name: str
    title: str
    question: str
    prepare: Callable[[Stage], AbstractContextManager[Job]]
    commands: tuple[str, ...] = ()
    algorithms: tuple[int, ...] = field(default=())
    slow: bool = False


def expect(found: object, wanted: object, what: str) -> None:
    """Raise :class:`WrongAnswerError` where an answer is not the one that software gives."""
    if found != wanted:
        raise WrongAnswerError(f"{what} is not what software computes")
