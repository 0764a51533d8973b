"""The same operations through the TSS's ESAPI, over the very transport that is measured."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import tpm2_pytss
from tpm2_pytss import (
    ESAPI,
    ESYS_TR,
    TPM2_ALG,
    TPM2_SE,
    TPM2B_DIGEST,
    TPMA_SESSION,
    TPML_DIGEST,
    TPMT_SYM_DEF,
    TPMU_SYM_KEY_BITS,
    TPMU_SYM_MODE,
    TSS2_Exception,
)

from tpmbench.device import codes
from tpmbench.device.leftovers import next_session, session_digests
from tpmbench.measuring import Absent
from tpmbench.sampling import OneByOne

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpmbench.device.operation import Job, Stacked
    from tpmbench.device.stage import Stage

ARM = "esapi"
NO_STACK = "tpm2-pytss has no TCTI to be written in Python; version 3 or newer has"


def _cfb(bits: int) -> TPMT_SYM_DEF:
    return TPMT_SYM_DEF(
        algorithm=TPM2_ALG.AES,
        keyBits=TPMU_SYM_KEY_BITS(aes=bits),
        mode=TPMU_SYM_MODE(aes=TPM2_ALG.CFB),
    )


def _xor() -> TPMT_SYM_DEF:
    return TPMT_SYM_DEF(
        algorithm=TPM2_ALG.XOR, keyBits=TPMU_SYM_KEY_BITS(exclusiveOr=TPM2_ALG.SHA256)
    )


_CIPHERS: dict[str, Callable[[], TPMT_SYM_DEF]] = {
    f"{ARM}-xor": _xor,
    f"{ARM}-aes-128-cfb": partial(_cfb, 128),
    f"{ARM}-aes-256-cfb": partial(_cfb, 256),
}


class Esys(ESAPI):  # type: ignore[misc]
    """ESAPI that can let go of every object it was told of.

    It remembers the Name behind a handle, and the TPM gives the same handle out again.
    """

    def __init__(self, tcti: object) -> None:
        super().__init__(tcti)
        self._known: dict[int, ESYS_TR] = {}

    def tr_from_tpmpublic(self, handle: int, *sessions: ESYS_TR) -> ESYS_TR:
        """Return ESAPI's number for an object."""
        if handle not in self._known:
            self._known[handle] = super().tr_from_tpmpublic(handle, *sessions)
        return self._known[handle]

    def let_go(self) -> None:
        """Forget every object; nothing is changed in the TPM."""
        while self._known:
            self.tr_close(self._known.popitem()[1])


@dataclass(frozen=True)
class Stack:
    """ESAPI on a transport, with a session for each way to encrypt parameters.

    Attributes:
        esys: ESAPI.
        sessions: by arm.
        refused: arms that the TPM or the stack does not have, and why.
    """

    esys: Esys
    sessions: dict[str, ESYS_TR]
    refused: tuple[Absent, ...]


@contextlib.contextmanager
def opened(stage: Stage) -> Iterator[Stack | None]:
    """Open ESAPI over a stage's transport for the time of the block; None where it cannot be."""
    base = getattr(tpm2_pytss, "PyTCTI", None)
    if base is None:
        yield None
        return

    class Carrier(base):  # type: ignore[misc, valid-type]
        """Hands ESAPI's commands to the transport's channel."""

        def do_transmit(self, command: bytes) -> None:
            try:
                stage.transport.channel.send(bytes(command))
            except OSError as error:
                raise stage.transport.failure(error, "ESAPI's command") from error

        def do_receive(self, _timeout: int) -> bytes:
            try:
                return stage.transport.channel.receive(stage.deadline)
            except OSError as error:
                raise stage.transport.failure(error, "ESAPI's command") from error

    with Esys(Carrier()) as esys, contextlib.ExitStack() as ours:
        sessions, refused = {}, []
        for name, cipher in _CIPHERS.items():
            try:
                sessions[name] = ours.enter_context(_session(stage, esys, cipher()))
            except TSS2_Exception as error:
                refused.append(Absent(name, f"no session: {said(error)}"))
        esys.let_go()
        yield Stack(esys, sessions, tuple(refused))


@contextlib.contextmanager
def _session(stage: Stage, esys: ESAPI, cipher: TPMT_SYM_DEF) -> Iterator[ESYS_TR]:
    """Keep a session salted with the storage key, P-256, for the time of the block."""
    salt = esys.tr_from_tpmpublic(stage.parent().handle)
    with stage.noted(next_session(stage.transport)) as mark:
        # A policy session carries a mark that can be read back; it encrypts like any other.
        session = esys.start_auth_session(
            salt, ESYS_TR.NONE, TPM2_SE.POLICY, cipher, TPM2_ALG.SHA256
        )
        try:
            digests = [TPM2B_DIGEST(digest) for digest in session_digests(mark)]
            esys.policy_or(session, TPML_DIGEST(digests))
            yield session
        finally:
            esys.flush_context(session)


def said(error: TSS2_Exception) -> str:
    """Return an ESAPI error with the response code's name, where the TPM gave one."""
    return f"{codes.name(error.rc)} ({error.rc:#x})" if error.rc < 0x10000 else str(error)


class StackArm(OneByOne):
    """An operation by one call of ESAPI's, timed as a whole.

    Args:
        name: the arm's name.
        stacked: the call.
        esys: what it goes to.
        session: encrypts parameters; None for none.
    """

    def __init__(
        self, name: str, stacked: Stacked, esys: ESAPI, session: ESYS_TR | None = None
    ) -> None:
        self.name = name
        self.ready = contextlib.nullcontext
        self._stacked = stacked
        self._sessions = {}
        if session is not None:
            self._sessions[stacked.session] = session
            command, response = stacked.encrypts
            wanted = TPMA_SESSION.CONTINUESESSION
            wanted |= TPMA_SESSION.DECRYPT if command else 0
            wanted |= TPMA_SESSION.ENCRYPT if response else 0
            mask = TPMA_SESSION.CONTINUESESSION | TPMA_SESSION.DECRYPT | TPMA_SESSION.ENCRYPT
            self._attributes = (esys, session, wanted, mask)

    def begin(self) -> None:
        """Nothing is counted here."""

    def sample(self) -> int:
        """Call once and return how long it took, in nanoseconds."""
        if self._sessions:
            esys, session, wanted, mask = self._attributes
            esys.trsess_set_attributes(session, wanted, mask)
        started = time.perf_counter_ns()
        answer = self._stacked.call(**self._sessions)
        duration = time.perf_counter_ns() - started
        self._stacked.judge(answer)
        return duration

    def resubmissions(self) -> int:
        """ESAPI sends again by itself, unseen."""
        return 0


def arms(stack: Stack, job: Job, *, encrypted: bool) -> list[StackArm]:
    """Return an operation's arms through ESAPI.

    Args:
        stack: ESAPI and its sessions.
        job: the operation.
        encrypted: also those with encrypted parameters, where the operation has such.
    """
    if job.stack is None:
        return []
    stacked = job.stack(stack.esys)
    made = [StackArm(ARM, stacked, stack.esys)]
    if encrypted and any(stacked.encrypts):
        made += [
            StackArm(name, stacked, stack.esys, session) for name, session in stack.sessions.items()
        ]
    return made
