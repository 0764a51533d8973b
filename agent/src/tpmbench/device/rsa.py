"""RSA-2048: the bare operation and OAEP, both ways."""

from __future__ import annotations

import contextlib
import hashlib
import struct
from functools import partial
from typing import TYPE_CHECKING

from tpm2_pytss import (
    TPM2_ALG,
    TPMS_SCHEME_HASH,
    TPMT_RSA_DECRYPT,
    TPMU_ASYM_SCHEME,
)

from tpmbench.device import areas
from tpmbench.device.operation import Job, Stacked, WrongAnswerError, expect
from tpmtls.commands import password, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpm2_pytss import ESAPI

    from tpmbench.device.stage import Loaded, Stage

_NULL = struct.pack(">H", TPM2_ALG.NULL)
_OAEP = struct.pack(">HH", TPM2_ALG.OAEP, TPM2_ALG.SHA256)
_NO_LABEL = sized(b"")
_EXPONENT = 65537
SECRET = bytes(range(32))
# OAEP ciphertexts can only be checked by the TPM that holds the key: the first ones are.
_CHECKED_BY_TPM = 25


def _schemes() -> dict[bytes, TPMT_RSA_DECRYPT]:
    oaep = TPMS_SCHEME_HASH(hashAlg=TPM2_ALG.SHA256)
    return {
        _NULL: TPMT_RSA_DECRYPT(scheme=TPM2_ALG.NULL),
        _OAEP: TPMT_RSA_DECRYPT(scheme=TPM2_ALG.OAEP, details=TPMU_ASYM_SCHEME(oaep=oaep)),
    }


def _key(stage: Stage) -> Loaded:
    return stage.primary("rsa2048", areas.DECRYPTING)


def _raw(key: Loaded) -> tuple[bytes, bytes]:
    """Return a message of the modulus's length and what software encrypts it to."""
    modulus = bytes(key.public.unique.rsa.buffer)
    size = len(modulus)
    message = b"\x01" + hashlib.shake_256(modulus).digest(size - 1)  # below any modulus
    coded = pow(int.from_bytes(message), _EXPONENT, int.from_bytes(modulus))
    return message, coded.to_bytes(size)


@contextlib.contextmanager
def public(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_RSA_Encrypt without padding."""
    key = _key(stage)
    message, coded = _raw(key)
    parameters = sized(message) + _NULL + _NO_LABEL

    def once() -> None:
        answer = stage.ask("TPM2_RSA_Encrypt", (key.handle,), parameters).parameters
        expect(answer, sized(coded), "the ciphertext")

    def judge(answer: object) -> None:
        expect(bytes(answer), coded, "the ciphertext")  # type: ignore[call-overload]

    yield Job(once, partial(_encrypting, key, message, _NULL, judge))


@contextlib.contextmanager
def private(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_RSA_Decrypt without padding."""
    key = _key(stage)
    message, coded = _raw(key)
    yield from _decrypting(stage, key, coded, message, _NULL)


@contextlib.contextmanager
def oaep_public(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_RSA_Encrypt with OAEP on 32 bytes."""
    key = _key(stage)
    parameters = sized(SECRET) + _OAEP + _NO_LABEL
    seen: set[bytes] = set()

    def check(answer: bytes) -> None:
        if answer in seen:
            raise WrongAnswerError("the TPM padded two messages alike")
        if len(seen) < _CHECKED_BY_TPM:
            back = sized(answer) + _OAEP + _NO_LABEL
            plain = stage.tell("TPM2_RSA_Decrypt", (key.handle,), back, (password(),))
            expect(plain.parameters, sized(SECRET), "the plaintext")
        seen.add(answer)

    def once() -> None:
        check(stage.ask("TPM2_RSA_Encrypt", (key.handle,), parameters).parameters[2:])

    def judge(answer: object) -> None:
        check(bytes(answer))  # type: ignore[call-overload]

    yield Job(once, partial(_encrypting, key, SECRET, _OAEP, judge))


@contextlib.contextmanager
def oaep_private(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_RSA_Decrypt with OAEP of 32 bytes that software encrypted."""
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    key = _key(stage)
    modulus = int.from_bytes(bytes(key.public.unique.rsa.buffer))
    recipient = rsa.RSAPublicNumbers(_EXPONENT, modulus).public_key()
    oaep = padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)
    yield from _decrypting(stage, key, recipient.encrypt(SECRET, oaep), SECRET, _OAEP)


def _encrypting(
    key: Loaded, message: bytes, scheme: bytes, judge: Callable[[object], None], esys: ESAPI
) -> Stacked:
    handle = esys.tr_from_tpmpublic(key.handle)
    call = partial(esys.rsa_encrypt, handle, message, _schemes()[scheme])
    return Stacked(call, judge, "session1", (True, True))


def _decrypting(
    stage: Stage, key: Loaded, coded: bytes, plain: bytes, scheme: bytes
) -> Iterator[Job]:
    parameters = sized(coded) + scheme + _NO_LABEL

    def once() -> None:
        answer = stage.ask("TPM2_RSA_Decrypt", (key.handle,), parameters, (password(),))
        expect(answer.parameters, sized(plain), "the plaintext")

    def stack(esys: ESAPI) -> Stacked:
        handle = esys.tr_from_tpmpublic(key.handle)
        return Stacked(
            partial(esys.rsa_decrypt, handle, coded, _schemes()[scheme]),
            lambda answer: expect(bytes(answer), plain, "the plaintext"),
            encrypts=(True, True),
        )

    yield Job(once, stack)
