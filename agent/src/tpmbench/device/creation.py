"""Key generation: ordinary objects, and primaries with the same and with varied templates."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tpm2_pytss import TPM2B_PUBLIC

from tpmbench.device import areas
from tpmbench.device.operation import Job, Stacked, WrongAnswerError
from tpmbench.device.stage import primary_parameters, private_and_public
from tpmtls import commands
from tpmtls.commands import password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpm2_pytss import ESAPI, ESYS_TR

    from tpmbench.device.stage import Stage

    Prepare = Callable[[Stage], AbstractContextManager[Job]]


def created(algorithm: str, attributes: str) -> Prepare:
    """Return what prepares TPM2_Create and TPM2_Load of a key below the storage key."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        public = areas.area(algorithm, attributes, stage.mark)
        stage.require_parameters(areas.parameters(public))
        stage.release()
        parent = stage.parent().handle
        parameters = primary_parameters(public)
        seen: set[bytes] = set()

        def once() -> None:
            made = stage.ask("TPM2_Create", (parent,), parameters, (password(),)).parameters
            pair = private_and_public(made)
            loaded = stage.ask("TPM2_Load", (parent,), pair, (password(),), 1).handles[0]
            _judge_new(stage, loaded, seen)

        def stack(esys: ESAPI) -> Stacked:
            handle = esys.tr_from_tpmpublic(parent)
            area, nothing = TPM2B_PUBLIC(publicArea=public), areas.sensitive_create()

            def call(**sessions: object) -> ESYS_TR:
                private, made, *_ = esys.create(handle, nothing, area, **sessions)
                return esys.load(handle, private, made, **sessions)

            def judge(loaded: ESYS_TR) -> None:
                _judge_new(stage, esys.tr_get_tpm_handle(loaded), seen)
                esys.tr_close(loaded)

            return Stacked(call, judge, encrypts=(True, True))

        yield Job(once, stack)

    return prepare


def primary(algorithm: str, attributes: str, *, varied: bool) -> Prepare:
    """Return what prepares TPM2_CreatePrimary.

    Args:
        algorithm: of the key.
        attributes: of the key.
        varied: whether each template has a ``unique`` of its own. Some TPMs derive primaries
            from the template or keep them, so that the same template again costs less.
    """

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        public = areas.area(algorithm, attributes, stage.mark)
        stage.require_parameters(areas.parameters(public))
        stage.release()
        seen: set[bytes] = set()
        number = 0

        def once() -> None:
            nonlocal number, public
            number += 1
            if varied:
                public = areas.area(algorithm, attributes, stage.mark, number.to_bytes(32))
            made = stage.ask(
                "TPM2_CreatePrimary",
                (stage.OWNER,),
                primary_parameters(public),
                (password(stage.owner.auth),),
                1,
            )
            if varied:
                _judge_new(stage, made.handles[0], seen)
            else:
                stage.flush(made.handles[0])

        yield Job(once)

    return prepare


def _judge_new(stage: Stage, handle: int, seen: set[bytes]) -> None:
    """Check that a new key is none that was there before, and flush it."""
    try:
        _, name = commands.read_public(stage.transport, handle)
        if name in seen:
            raise WrongAnswerError("the TPM made the same key twice")
        seen.add(name)
    finally:
        stage.flush(handle)


@contextlib.contextmanager
def loading(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_Load of one and the same P-256 key."""
    stage.release()
    parent = stage.parent().handle
    public = areas.area("ecc256:ecdsa-sha256", areas.SIGNING, stage.mark)
    made = stage.tell("TPM2_Create", (parent,), primary_parameters(public), (password(),))
    pair = private_and_public(made.parameters)
    names: set[bytes] = set()

    def once() -> None:
        loaded = stage.ask("TPM2_Load", (parent,), pair, (password(),), 1)
        names.add(loaded.parameters)
        stage.flush(loaded.handles[0])
        if len(names) != 1:
            raise WrongAnswerError("the same object has two Names")

    yield Job(once)


@contextlib.contextmanager
def saving(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_ContextSave of a loaded P-256 key."""
    key = stage.primary("ecc256:ecdsa-sha256", areas.SIGNING)
    tail = key.handle.to_bytes(4)

    def once() -> None:
        context = stage.ask("TPM2_ContextSave", (key.handle,)).parameters
        if tail[:1] != context[8:9]:
            raise WrongAnswerError("the context is of another kind of handle")

    yield Job(once)


@contextlib.contextmanager
def restoring(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_ContextLoad of a P-256 key."""
    key = stage.primary("ecc256:ecdsa-sha256", areas.SIGNING)
    context = stage.tell("TPM2_ContextSave", (key.handle,)).parameters

    def once() -> None:
        loaded = stage.ask("TPM2_ContextLoad", (), context, (), 1).handles[0]
        try:
            _, name = commands.read_public(stage.transport, loaded)
        finally:
            stage.flush(loaded)
        if name != key.name:
            raise WrongAnswerError("another object came back")

    yield Job(once)
