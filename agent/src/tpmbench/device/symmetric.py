"""Ciphers, hashes and HMAC."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import struct
from functools import partial
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from tpm2_pytss import TPM2_ALG

from tpmbench.device import areas
from tpmbench.device.operation import Job, Stacked, expect
from tpmtls.commands import CODES, password, sized

try:
    from cryptography.hazmat.decrepit.ciphers.modes import CFB
except ImportError:  # before it was moved
    from cryptography.hazmat.primitives.ciphers.modes import CFB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpm2_pytss import ESAPI

    from tpmbench.device.stage import Stage

    Prepare = Callable[[Stage], AbstractContextManager[Job]]

BLOCK = 1024  # as wolfTPM's bench has it: TPM2_MAX_BUFFER of most TPMs
_IV = bytes(16)
_HIERARCHY_NULL = 0x40000007

HASHES = {"sha1": 0x0004, "sha256": 0x000B, "sha384": 0x000C, "sha512": 0x000D}
MODES: dict[str, tuple[int, Callable[[bytes], modes.Mode]]] = {
    "cbc": (0x0042, modes.CBC),
    "ctr": (0x0040, modes.CTR),
    "cfb": (0x0043, CFB),
}


def cipher(mode: str, bits: int, *, decrypt: bool) -> Prepare:
    """Return what prepares AES over 1024 bytes with a zero IV.

    The key's secret is given to the TPM, so that software knows the answer.
    TPM2_EncryptDecrypt stands in where the TPM has no TPM2_EncryptDecrypt2.
    """

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        secret = hashlib.shake_256(stage.mark).digest(bits // 8)
        key = stage.child(f"aes{bits}{mode}", areas.KNOWN_CIPHER, secret)
        number, make = MODES[mode]
        plain = bytes(range(256)) * (BLOCK // 256)
        encryptor = Cipher(algorithms.AES(secret), make(_IV)).encryptor()  # type: ignore[misc]
        coded = encryptor.update(plain) + encryptor.finalize()
        given, wanted = (coded, plain) if decrypt else (plain, coded)
        newer = CODES["TPM2_EncryptDecrypt2"] in stage.commands
        name = "TPM2_EncryptDecrypt2" if newer else "TPM2_EncryptDecrypt"
        how = struct.pack(">BH", decrypt, number) + sized(_IV)
        parameters = sized(given) + how if newer else how + sized(given)

        def once() -> None:
            answer = stage.ask(name, (key.handle,), parameters, (password(),)).parameters
            expect(answer[2 : 2 + BLOCK], wanted, "the answer")

        def stack(esys: ESAPI) -> Stacked:
            handle = esys.tr_from_tpmpublic(key.handle)
            call = esys.encrypt_decrypt_2 if newer else esys.encrypt_decrypt
            return Stacked(
                partial(call, handle, decrypt, TPM2_ALG(number), _IV, given),
                lambda answer: expect(bytes(answer[0]), wanted, "the answer"),
                encrypts=(newer, True),
            )

        yield Job(once, stack, BLOCK)

    return prepare


def hashing(name: str) -> Prepare:
    """Return what prepares a hash sequence: start, one update of 1024 bytes, complete."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        data = bytes(range(256)) * (BLOCK // 256)
        wanted = hashlib.new(name, data, usedforsecurity=False).digest()
        auth = password(stage.mark)  # by it a sequence that a killed run left is known
        start = sized(stage.mark) + struct.pack(">H", HASHES[name])
        end = sized(b"") + struct.pack(">I", _HIERARCHY_NULL)

        def once() -> None:
            sequence = stage.ask("TPM2_HashSequenceStart", (), start, (), 1).handles[0]
            stage.ask("TPM2_SequenceUpdate", (sequence,), sized(data), (auth,))
            answer = stage.ask("TPM2_SequenceComplete", (sequence,), end, (auth,)).parameters
            expect(answer[2 : 2 + len(wanted)], wanted, "the digest")

        def stack(esys: ESAPI) -> Stacked:
            def call(**_sessions: object) -> bytes:
                sequence = esys.hash_sequence_start(stage.mark, TPM2_ALG(HASHES[name]))
                esys.tr_set_auth(sequence, stage.mark)
                esys.sequence_update(sequence, data)
                digest, _ = esys.sequence_complete(sequence, b"")
                return bytes(digest)

            return Stacked(call, lambda digest: expect(digest, wanted, "the digest"))

        yield Job(once, stack, BLOCK)

    return prepare


@contextlib.contextmanager
def hmac_sha256(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_HMAC over 1024 bytes with a key that software knows too."""
    secret = hashlib.sha256(stage.mark).digest()
    key = stage.child("hmac:sha256", areas.KNOWN_HMAC, secret)
    data = bytes(range(256)) * (BLOCK // 256)
    wanted = hmac.digest(secret, data, "sha256")
    parameters = sized(data) + struct.pack(">H", HASHES["sha256"])

    def once() -> None:
        answer = stage.ask("TPM2_HMAC", (key.handle,), parameters, (password(),)).parameters
        expect(answer[2:34], wanted, "the code")

    def stack(esys: ESAPI) -> Stacked:
        handle = esys.tr_from_tpmpublic(key.handle)
        return Stacked(
            partial(esys.hmac, handle, data, TPM2_ALG.SHA256),
            lambda answer: expect(bytes(answer), wanted, "the code"),
            encrypts=(True, True),
        )

    yield Job(once, stack, BLOCK)
