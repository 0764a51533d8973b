"""The post-quantum rows of the device suite."""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING

from tpmbench.device import ecc
from tpmbench.device.operation import Job, NotRunError, Operation, WrongAnswerError, expect
from tpmbench.device.stage import NO_DATA_NO_PCR
from tpmbench.pqc import software, structures
from tpmbench.pqc.structures import HASH_ML_DSA, KINDS, ML_DSA, PT_ML_PARAMETER_SETS
from tpmtls import commands
from tpmtls.commands import password, sized
from tpmtls.errors import TpmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpmbench.device.stage import Stage
    from tpmbench.pqc.structures import Kind

    Prepare = Callable[[Stage], AbstractContextManager[Job]]

_MESSAGE_SIZE = 32  # as wolfTPM's bench has it
_RC_SIGNATURE = 0x9B
_NO_SENSITIVE = sized(sized(b"") + sized(b""))


def require(stage: Stage, kind: Kind, *, external_mu: bool = False) -> None:
    """Check that the TPM has a parameter set.

    Raises:
        NotRunError: it does not.
        TpmError: it could not be asked.
    """
    sets = commands.properties(stage.transport, PT_ML_PARAMETER_SETS, 1).get(PT_ML_PARAMETER_SETS)
    if sets is not None and not sets >> kind.bit & 1:
        raise NotRunError("unsupported", f"{kind.name} is not among the TPM's parameter sets")
    stage.require_parameters(structures.parameters(kind, external_mu=external_mu))


def _primary_parameters(public: bytes) -> bytes:
    return _NO_SENSITIVE + public + NO_DATA_NO_PCR


def make(stage: Stage, kind: Kind, *, external_mu: bool) -> tuple[int, bytes]:
    """Make a primary key; return its transient handle and its public key.

    Raises:
        TpmError: the TPM refused.
        MalformedError: its answer is not of this kind.
    """
    public = structures.template(kind, stage.mark, external_mu=external_mu)
    made = stage.tell(
        "TPM2_CreatePrimary",
        (stage.OWNER,),
        _primary_parameters(public),
        (password(stage.owner.auth),),
        1,
    )
    return made.handles[0], structures.public_key(kind, _first(made.parameters))


def _first(answer: bytes) -> bytes:
    """Return the TPM2B at the front, with its size."""
    return answer[: 2 + int.from_bytes(answer[:2])]


def _key(stage: Stage, kind: Kind, *, external_mu: bool = False) -> tuple[int, bytes]:
    require(stage, kind, external_mu=external_mu)
    role = f"{kind.name} {external_mu}"
    return stage.keep(role, partial(make, stage, kind, external_mu=external_mu))


def generating(kind: Kind) -> Prepare:
    """Return what prepares TPM2_CreatePrimary with another template each time."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        require(stage, kind)
        stage.release()
        seen: set[bytes] = set()

        def once() -> None:
            # Some TPMs derive primaries from the template, and keep them.
            public = structures.template(kind, stage.mark, os.urandom(32))
            made = stage.ask(
                "TPM2_CreatePrimary",
                (stage.OWNER,),
                _primary_parameters(public),
                (password(stage.owner.auth),),
                1,
            )
            stage.flush(made.handles[0])
            key = structures.public_key(kind, _first(made.parameters))
            if key in seen:
                raise WrongAnswerError("the TPM made the same key twice")
            seen.add(key)

        yield Job(once)

    return prepare


def sign_sequence(stage: Stage, kind: Kind, handle: int, message: bytes, *, timed: bool) -> bytes:
    """Sign a message by a sequence and return the TPMT_SIGNATURE."""
    send = stage.ask if timed else stage.tell
    start = structures.sign_sequence_start(stage.mark)
    sequence = send("TPM2_SignSequenceStart", (handle,), start, (), 1).handles[0]
    with _flushed_on_error(stage, sequence):
        made = send(
            "TPM2_SignSequenceComplete",
            (sequence, handle),
            sized(message),
            (password(stage.mark), password()),
        ).parameters
    structures.raw_signature(kind, made)
    return made


@contextlib.contextmanager
def _flushed_on_error(stage: Stage, sequence: int) -> Iterator[None]:
    """Flush a sequence that its completion, which would have done so, did not complete."""
    try:
        yield
    except TpmError:
        with contextlib.suppress(TpmError):
            stage.flush(sequence)
        raise


def _sign_digest(stage: Stage, kind: Kind, handle: int, digest: bytes, *, timed: bool) -> bytes:
    send = stage.ask if timed else stage.tell
    what = structures.sign_digest(digest, ecc.NO_TICKET)
    made = send("TPM2_SignDigest", (handle,), what, (password(),)).parameters
    structures.raw_signature(kind, made)
    return made


def _judge(kind: Kind, key: bytes, message: bytes, made: bytes) -> None:
    """Verify a TPMT_SIGNATURE over a message (its hash, for Hash-ML-DSA) in software."""
    public = software.public(kind, key)
    if public is None:
        raise NotRunError("error", f"no software here verifies {kind.name}; see docs/device.md")
    mu = software.representative(kind, key, message)
    if not software.verifies(public, mu, structures.raw_signature(kind, made)):
        raise WrongAnswerError("the signature does not verify in software")


def _hashed(kind: Kind, message: bytes) -> bytes:
    return hashlib.sha512(message).digest() if kind.algorithm == HASH_ML_DSA else message


def signing(kind: Kind) -> Prepare:
    """Return what prepares a signature by a sequence: start and complete, over 32 bytes."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        handle, key = _key(stage, kind)

        def once() -> None:
            message = os.urandom(_MESSAGE_SIZE)
            made = sign_sequence(stage, kind, handle, message, timed=True)
            _judge(kind, key, _hashed(kind, message), made)

        yield Job(once)

    return prepare


def verifying(kind: Kind) -> Prepare:
    """Return what prepares a verification by a sequence: start, update, complete."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        handle, key = _key(stage, kind)
        message = os.urandom(_MESSAGE_SIZE)
        made = sign_sequence(stage, kind, handle, message, timed=False)
        _judge(kind, key, _hashed(kind, message), made)
        start = structures.verify_sequence_start(stage.mark)

        def verify(data: bytes, *, timed: bool) -> int:
            send = stage.ask if timed else stage.tell
            auth = (password(stage.mark),)
            sequence = send("TPM2_VerifySequenceStart", (handle,), start, (), 1).handles[0]
            with _flushed_on_error(stage, sequence):
                send("TPM2_SequenceUpdate", (sequence,), sized(data), auth)
                answer = send("TPM2_VerifySequenceComplete", (sequence, handle), made, auth)
            return int.from_bytes(answer.parameters[:2])

        _refuses(partial(verify, bytes(_MESSAGE_SIZE), timed=False))

        def once() -> None:
            expect(verify(message, timed=True), structures.MESSAGE_VERIFIED, "the ticket")

        yield Job(once)

    return prepare


def _digest(kind: Kind, key: bytes, message: bytes) -> bytes:
    """Return what TPM2_SignDigest is given: the hash, or ML-DSA's message representative."""
    if kind.algorithm == HASH_ML_DSA:
        return _hashed(kind, message)
    return software.representative(kind, key, message)


def signing_digests(kind: Kind) -> Prepare:
    """Return what prepares TPM2_SignDigest."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        handle, key = _key(stage, kind, external_mu=kind.algorithm == ML_DSA)

        def once() -> None:
            message = os.urandom(_MESSAGE_SIZE)
            digest = _digest(kind, key, message)
            made = _sign_digest(stage, kind, handle, digest, timed=True)
            _judge(kind, key, _hashed(kind, message), made)

        yield Job(once)

    return prepare


def verifying_digests(kind: Kind) -> Prepare:
    """Return what prepares TPM2_VerifyDigestSignature."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        handle, key = _key(stage, kind, external_mu=kind.algorithm == ML_DSA)
        message = os.urandom(_MESSAGE_SIZE)
        digest = _digest(kind, key, message)
        made = _sign_digest(stage, kind, handle, digest, timed=False)
        _judge(kind, key, _hashed(kind, message), made)
        name = "TPM2_VerifyDigestSignature"
        wrong = structures.verify_digest(bytes(len(digest)), made)
        _refuses(lambda: stage.tell(name, (handle,), wrong))
        right = structures.verify_digest(digest, made)

        def once() -> None:
            ticket = stage.ask(name, (handle,), right).parameters
            expect(int.from_bytes(ticket[:2]), structures.DIGEST_VERIFIED, "the ticket")

        yield Job(once)

    return prepare


def _refuses(verify: Callable[[], object]) -> None:
    """Check that the TPM does not verify a signature over something else."""
    try:
        verify()
    except TpmError as error:
        if commands.base_code(error.code) != _RC_SIGNATURE:
            raise
    else:
        raise WrongAnswerError("the TPM verified a signature over something else")


def encapsulating(kind: Kind) -> Prepare:
    """Return what prepares TPM2_Encapsulate; the TPM that holds the key takes it back."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        handle, _ = _key(stage, kind)

        def once() -> None:
            answer = stage.ask("TPM2_Encapsulate", (handle,)).parameters
            secret, ciphertext = structures.encapsulated(answer)
            expect(len(secret), structures.SHARED_SECRET_SIZE, "the shared secret's length")
            expect(len(ciphertext), kind.output_size, "the ciphertext's length")
            back = stage.tell("TPM2_Decapsulate", (handle,), sized(ciphertext), (password(),))
            expect(back.parameters, sized(secret), "the shared secret")

        yield Job(once)

    return prepare


def decapsulating(kind: Kind) -> Prepare:
    """Return what prepares TPM2_Decapsulate of what software encapsulated.

    The TPM encapsulates where the cryptography package does not have the parameter set.
    """

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        handle, key = _key(stage, kind)
        recipient = software.public(kind, key)
        if recipient is None:
            answer = stage.tell("TPM2_Encapsulate", (handle,)).parameters
            secret, ciphertext = structures.encapsulated(answer)
        else:
            secret, ciphertext = sorted(recipient.encapsulate(), key=len)
        parameters = sized(ciphertext)

        def once() -> None:
            answer = stage.ask("TPM2_Decapsulate", (handle,), parameters, (password(),))
            expect(answer.parameters, sized(secret), "the shared secret")

        yield Job(once)

    return prepare


# Suffix of name and title, what prepares it, and the commands.
_SIGNATURE_ROWS = (
    ("keygen", "key gen", "a new key, another template each time", generating,
     ("TPM2_CreatePrimary",)),
    ("sign", "sign", "a message of 32 bytes signed: start, complete", signing,
     ("TPM2_SignSequenceStart", "TPM2_SignSequenceComplete")),
    ("verify", "verify", "the same verified: start, update, complete", verifying,
     ("TPM2_VerifySequenceStart", "TPM2_SequenceUpdate", "TPM2_VerifySequenceComplete",
      "TPM2_SignSequenceStart", "TPM2_SignSequenceComplete")),
    ("sign-digest", "sign digest", "a digest or message representative signed",
     signing_digests, ("TPM2_SignDigest",)),
    ("verify-digest", "verify digest", "the same verified", verifying_digests,
     ("TPM2_VerifyDigestSignature", "TPM2_SignDigest")),
)  # fmt: skip
_KEM_ROWS = (
    ("keygen", "key gen", "a new key, another template each time", generating,
     ("TPM2_CreatePrimary",)),
    ("encapsulate", "encapsulate", "a shared secret for the key", encapsulating,
     ("TPM2_Encapsulate", "TPM2_Decapsulate")),
    ("decapsulate", "decapsulate", "the shared secret taken out again", decapsulating,
     ("TPM2_Decapsulate",)),
)  # fmt: skip


def _rows() -> Iterator[Operation]:
    for kind in KINDS:
        for suffix, title, question, make, names in _SIGNATURE_ROWS if kind.signs else _KEM_ROWS:
            yield Operation(
                f"device-{kind.name.lower()}-{suffix}",
                f"{kind.name} {title}",
                f"{kind.name}: {question}",
                make(kind),
                names,
                (kind.algorithm,),
                slow=suffix == "keygen",
            )


OPERATIONS = tuple(_rows())
