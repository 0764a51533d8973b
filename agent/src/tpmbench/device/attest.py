"""What attestation costs: quotes, certificates of keys, and PCRs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from functools import partial
from typing import TYPE_CHECKING

from tpm2_pytss import (
    ESYS_TR,
    TPM2_ALG,
    TPML_DIGEST_VALUES,
    TPML_PCR_SELECTION,
    TPMT_HA,
    TPMT_SIG_SCHEME,
    TPMU_HA,
)

from tpmbench.device import areas, ecc
from tpmbench.device.leftovers import PCRS, extended, pcr_values
from tpmbench.device.operation import Job, NotRunError, Stacked, WrongAnswerError, expect
from tpmtls.commands import password, sized
from tpmtls.public import CURVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpm2_pytss import ESAPI

    from tpmbench.device.stage import Loaded, Stage

_MAGIC = b"\xffTCG"
_ATTEST_CERTIFY, _ATTEST_QUOTE = 0x8017, 0x8018
_CURVE = CURVES[0]
_SHA256 = 0x000B
_FIRST_PCRS = struct.pack(">IHB", 1, _SHA256, 3) + b"\xff\x00\x00"  # 0 to 7


def _attester(stage: Stage) -> Loaded:
    return stage.primary(ecc.algorithm(_CURVE), areas.ATTESTING)


def _judge(key: Loaded, kind: int, nonce: bytes, attest: bytes, signature: bytes) -> None:
    """Check what was attested to (part 2, 10.12.12), and the signature."""
    name = sized(key.name)
    wanted = _MAGIC + struct.pack(">H", kind) + name + sized(nonce)
    # qualifiedSigner is a Name of the same length, of the whole path to the key
    found = attest[:6] + name + attest[6 + len(name) :][: 2 + len(nonce)]
    expect(found, wanted, "the attested structure")
    ecc.verify(
        ecc.public_key(key, _CURVE), ecc.der(signature), hashlib.sha256(attest).digest(), _CURVE
    )


def _parts(answer: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(answer[:2])
    return answer[2 : 2 + size], answer[2 + size :]


@contextlib.contextmanager
def quote(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_Quote over the PCRs 0 to 7 with a restricted P-256 key."""
    key = _attester(stage)

    def once() -> None:
        nonce = os.urandom(16)
        parameters = sized(nonce) + ecc.NULL_SCHEME + _FIRST_PCRS
        answer = stage.ask("TPM2_Quote", (key.handle,), parameters, (password(),)).parameters
        _judge(key, _ATTEST_QUOTE, nonce, *_parts(answer))

    def stack(esys: ESAPI) -> Stacked:
        handle, nonce = esys.tr_from_tpmpublic(key.handle), os.urandom(16)
        selection = TPML_PCR_SELECTION.parse("sha256:0,1,2,3,4,5,6,7")

        def judge(answer: tuple[object, ...]) -> None:
            attest, signature = answer
            _judge(key, _ATTEST_QUOTE, nonce, bytes(attest), bytes(signature.marshal()))  # type: ignore[call-overload, attr-defined]

        return Stacked(partial(esys.quote, handle, selection, nonce), judge, encrypts=(True, True))

    yield Job(once, stack)


@contextlib.contextmanager
def certify(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_Certify of a restricted P-256 key by itself."""
    key = _attester(stage)

    def once() -> None:
        nonce = os.urandom(16)
        answer = stage.ask(
            "TPM2_Certify",
            (key.handle, key.handle),
            sized(nonce) + ecc.NULL_SCHEME,
            (password(), password()),
        ).parameters
        _judge(key, _ATTEST_CERTIFY, nonce, *_parts(answer))

    def stack(esys: ESAPI) -> Stacked:
        handle, nonce = esys.tr_from_tpmpublic(key.handle), os.urandom(16)
        scheme = TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL)

        def judge(answer: tuple[object, ...]) -> None:
            attest, signature = answer
            _judge(key, _ATTEST_CERTIFY, nonce, bytes(attest), bytes(signature.marshal()))  # type: ignore[call-overload, attr-defined]

        call = partial(esys.certify, handle, handle, nonce, scheme)
        return Stacked(call, judge, "session3", (True, True))

    yield Job(once, stack)


@contextlib.contextmanager
def pcr_read(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_PCR_Read of PCRs 0 to 7, SHA-256 bank."""
    first = stage.tell("TPM2_PCR_Read", parameters=_FIRST_PCRS).parameters
    if int.from_bytes(first[4 + len(_FIRST_PCRS) :][:4]) == 0:
        raise NotRunError("unsupported", "the TPM has no SHA-256 bank of PCRs")

    def once() -> None:
        answer = stage.ask("TPM2_PCR_Read", parameters=_FIRST_PCRS).parameters
        expect(answer[4:14], _FIRST_PCRS, "the selection")
        if int.from_bytes(answer[:4]) == int.from_bytes(first[:4]) and answer != first:
            raise WrongAnswerError("the PCRs differ though their update counter does not")

    def stack(esys: ESAPI) -> Stacked:
        selection = TPML_PCR_SELECTION.parse("sha256:0,1,2,3,4,5,6,7")

        def judge(answer: tuple[object, ...]) -> None:
            expect(bytes(answer[1].marshal()), _FIRST_PCRS, "the selection")  # type: ignore[attr-defined]

        return Stacked(partial(esys.pcr_read, selection), judge, "session1")

    yield Job(once, stack)


@contextlib.contextmanager
def pcr_extend(stage: Stage) -> Iterator[Job]:
    """Prepare TPM2_PCR_Extend of a PCR that may be reset, and reset it afterwards."""
    with contextlib.ExitStack() as ours:
        number = _unused_pcr(stage)
        mark = ours.enter_context(stage.noted(number))
        digests = struct.pack(">IH", 1, _SHA256) + mark
        value = bytes(32)

        def check() -> None:
            nonlocal value
            value = extended(value, mark)
            expect(pcr_values(stage.transport, number).get(_SHA256), value, "the PCR")

        def once() -> None:
            stage.ask("TPM2_PCR_Extend", (number,), digests, (password(),))
            check()

        def stack(esys: ESAPI) -> Stacked:
            values = TPML_DIGEST_VALUES([TPMT_HA(hashAlg=_SHA256, digest=TPMU_HA(sha256=mark))])
            return Stacked(partial(esys.pcr_extend, ESYS_TR(number), values), lambda _: check())

        yield Job(once, stack)


def _unused_pcr(stage: Stage) -> int:
    for number in PCRS:
        values = pcr_values(stage.transport, number)
        if _SHA256 not in values:
            raise NotRunError("unsupported", "the TPM has no SHA-256 bank of PCRs")
        if not any(any(value) for value in values.values()):
            return number
    raise NotRunError("blocked", "the resettable PCRs 16 and 23 are in use by others")
