"""NV storage: an index of ours, 32 bytes at a time."""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING

from tpmbench.device.leftovers import NV_FIRST, NV_LAST
from tpmbench.device.operation import Job, NotRunError, Stacked, expect
from tpmtls import commands
from tpmtls.commands import password, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpm2_pytss import ESAPI

    from tpmbench.device.stage import Stage

_SIZE = 32
_SHA256 = 0x000B
_NV_RANGE = 0x01000000
# TPMA_NV (part 2, 13.4): AUTHWRITE, AUTHREAD, NO_DA
_ATTRIBUTES = 1 << 2 | 1 << 18 | 1 << 25


def storage(*, write: bool) -> Callable[[Stage], AbstractContextManager[Job]]:
    """Return what prepares TPM2_NV_Write or TPM2_NV_Read of 32 bytes."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        with _index(stage) as index:
            data = os.urandom(_SIZE)
            where, auth = (index, index), (password(),)
            stage.tell("TPM2_NV_Write", where, sized(data) + bytes(2), auth)
            span = struct.pack(">HH", _SIZE, 0)

            def written(wanted: bytes) -> None:
                found = stage.tell("TPM2_NV_Read", where, span, auth).parameters
                expect(found, sized(wanted), "what was stored")

            def once() -> None:
                if write:
                    fresh = os.urandom(_SIZE)
                    stage.ask("TPM2_NV_Write", where, sized(fresh) + bytes(2), auth)
                    written(fresh)
                else:
                    answer = stage.ask("TPM2_NV_Read", where, span, auth)
                    expect(answer.parameters, sized(data), "what was stored")

            def stack(esys: ESAPI) -> Stacked:
                handle = esys.tr_from_tpmpublic(index)
                if write:
                    return Stacked(
                        lambda **sessions: esys.nv_write(handle, data, **sessions),
                        lambda _: written(data),
                        encrypts=(True, False),
                    )
                return Stacked(
                    lambda **sessions: esys.nv_read(handle, _SIZE, **sessions),
                    lambda answer: expect(bytes(answer), data, "what was stored"),
                    encrypts=(False, True),
                )

            if not write:  # ESAPI's and ours read the same
                stage.tell("TPM2_NV_Write", where, sized(data) + bytes(2), auth)
            yield Job(once, stack, _SIZE)

    return prepare


@contextlib.contextmanager
def _index(stage: Stage) -> Iterator[int]:
    taken = set(commands.handles(stage.transport, _NV_RANGE))
    index = next((item for item in range(NV_FIRST, NV_LAST + 1) if item not in taken), None)
    if index is None:
        raise NotRunError("blocked", f"no NV index is free from {NV_FIRST:#010x} up")
    with stage.noted(index) as mark:
        public = struct.pack(">IHI", index, _SHA256, _ATTRIBUTES) + sized(mark)
        public += struct.pack(">H", _SIZE)
        stage.tell(
            "TPM2_NV_DefineSpace",
            (stage.OWNER,),
            sized(b"") + sized(public),
            (password(stage.owner.auth),),
        )
        yield index
