"""Random numbers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tpmbench.device.operation import Job, Stacked, WrongAnswerError
from tpmtls.commands import sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpm2_pytss import ESAPI

    from tpmbench.device.stage import Stage

_MOST = 1024


def random_bytes(wanted: int | None) -> Callable[[Stage], AbstractContextManager[Job]]:
    """Return what prepares TPM2_GetRandom.

    Args:
        wanted: bytes in a request; None: as many as the TPM gives at once, up to 1024.
    """

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        size = wanted
        if size is None:
            asked = _MOST.to_bytes(2)
            size = len(stage.tell("TPM2_GetRandom", parameters=asked).parameters) - 2
        seen: set[bytes] = set()
        asked = size.to_bytes(2)

        def judge(data: bytes) -> None:
            if len(data) != size or data in seen:
                raise WrongAnswerError("the TPM returned fewer bytes than asked for, or old ones")
            seen.add(data)

        def once() -> None:
            answer = stage.ask("TPM2_GetRandom", parameters=asked).parameters
            judge(answer[2:])
            if sized(answer[2:]) != answer:
                raise WrongAnswerError("the answer's length is wrong")

        def stack(esys: ESAPI) -> Stacked:
            return Stacked(
                lambda **sessions: esys.get_random(size, **sessions),
                lambda answer: judge(bytes(answer)),
                "session1",
                (False, True),
            )

        yield Job(once, stack, size)

    return prepare
