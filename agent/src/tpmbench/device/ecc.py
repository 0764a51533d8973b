"""Elliptic curves: ECDSA and ECDH."""

from __future__ import annotations

import contextlib
import os
import struct
from functools import partial
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)
from tpm2_pytss import (
    TPM2_ALG,
    TPM2_RH,
    TPM2_ST,
    TPM2B_ECC_POINT,
    TPM2B_PUBLIC,
    TPMS_ECC_POINT,
    TPMT_SIG_SCHEME,
    TPMT_SIGNATURE,
    TPMT_TK_HASHCHECK,
)

from tpmbench.device import areas
from tpmbench.device.operation import Job, Stacked, WrongAnswerError, expect
from tpmbench.device.stage import Loaded
from tpmtls.commands import password, sized
from tpmtls.errors import TpmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpm2_pytss import ESAPI

    from tpmbench.device.stage import Stage
    from tpmtls.public import Curve

    Prepare = Callable[[Stage], AbstractContextManager[Job]]

NULL_SCHEME = struct.pack(">H", TPM2_ALG.NULL)
# TPMT_TK_HASHCHECK of a digest that did not come from the TPM (part 2, 10.7.6)
NO_TICKET = struct.pack(">HIH", TPM2_ST.HASHCHECK, TPM2_RH.NULL, 0)


def _size(curve: Curve) -> int:
    """Return the bytes of one coordinate."""
    return (curve.curve().key_size + 7) // 8


def algorithm(curve: Curve) -> str:
    """Return a signing key's algorithm as tpm2-tools write it."""
    return f"ecc{curve.curve.key_size}:ecdsa-{curve.hash.name}"


def public_key(key: Loaded, curve: Curve) -> ec.EllipticCurvePublicKey:
    """Return a key of the TPM as the cryptography package has it."""
    point = key.public.unique.ecc
    x, y = (int.from_bytes(bytes(part.buffer)) for part in (point.x, point.y))
    return ec.EllipticCurvePublicNumbers(x, y, curve.curve()).public_key()


def public_of(pair: bytes, curve: Curve) -> ec.EllipticCurvePublicKey:
    """Return the public key of a TPM2B_PRIVATE and TPM2B_PUBLIC, one after the other."""
    area, _ = TPM2B_PUBLIC.unmarshal(pair[2 + int.from_bytes(pair[:2]) :])
    return public_key(Loaded(0, area.publicArea, b""), curve)


def der(signature: bytes) -> bytes:
    """Turn a TPMT_SIGNATURE of ECDSA (part 2, 11.3.4) into its DER encoding."""
    kind, _, size = struct.unpack_from(">HHH", signature)
    if kind != TPM2_ALG.ECDSA:
        raise WrongAnswerError(f"a signature of algorithm {kind:#06x} came back")
    r, rest = signature[6 : 6 + size], signature[6 + size :]
    s = rest[2 : 2 + int.from_bytes(rest[:2])]
    return encode_dss_signature(int.from_bytes(r), int.from_bytes(s))


def tpm_signature(signature: bytes, curve: Curve) -> bytes:
    """Turn a DER-encoded ECDSA signature into a TPMT_SIGNATURE."""
    size = _size(curve)
    r, s = (sized(number.to_bytes(size)) for number in decode_dss_signature(signature))
    return struct.pack(">HH", TPM2_ALG.ECDSA, curve.hash_id) + r + s


def verify(key: ec.EllipticCurvePublicKey, signature: bytes, digest: bytes, curve: Curve) -> None:
    """Verify a DER-encoded signature.

    Raises:
        WrongAnswerError: it is not one.
    """
    try:
        key.verify(signature, digest, ec.ECDSA(Prehashed(curve.hash)))
    except InvalidSignature:
        raise WrongAnswerError("the signature does not verify in software") from None


def signing(curve: Curve) -> Prepare:
    """Return what prepares TPM2_Sign over a digest of the curve's hash."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        key = stage.primary(algorithm(curve), areas.SIGNING)
        public, size = public_key(key, curve), curve.hash.digest_size

        def once() -> None:
            digest = os.urandom(size)
            parameters = sized(digest) + NULL_SCHEME + NO_TICKET
            answer = stage.ask("TPM2_Sign", (key.handle,), parameters, (password(),)).parameters
            verify(public, der(answer), digest, curve)

        def stack(esys: ESAPI) -> Stacked:
            handle, digest = esys.tr_from_tpmpublic(key.handle), os.urandom(size)
            scheme = TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL)
            ticket = TPMT_TK_HASHCHECK(tag=TPM2_ST.HASHCHECK, hierarchy=TPM2_RH.NULL)
            return Stacked(
                partial(esys.sign, handle, digest, scheme, ticket),
                lambda answer: verify(public, der(bytes(answer.marshal())), digest, curve),
                encrypts=(True, False),
            )

        yield Job(once, stack)

    return prepare


def verifying(curve: Curve) -> Prepare:
    """Return what prepares TPM2_VerifySignature; a wrong signature must be refused first."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        key = stage.primary(algorithm(curve), areas.SIGNING)
        digest = os.urandom(curve.hash.digest_size)
        made = stage.tell(
            "TPM2_Sign", (key.handle,), sized(digest) + NULL_SCHEME + NO_TICKET, (password(),)
        ).parameters
        verify(public_key(key, curve), der(made), digest, curve)
        refuse_wrong(stage, key.handle, bytes(len(digest)), made)
        parameters = sized(digest) + made

        def once() -> None:
            answer = stage.ask("TPM2_VerifySignature", (key.handle,), parameters).parameters
            expect(int.from_bytes(answer[:2]), int(TPM2_ST.VERIFIED), "the ticket")

        def stack(esys: ESAPI) -> Stacked:
            handle = esys.tr_from_tpmpublic(key.handle)
            signature, _ = TPMT_SIGNATURE.unmarshal(made)
            return Stacked(
                partial(esys.verify_signature, handle, digest, signature),
                lambda ticket: expect(int(ticket.tag), int(TPM2_ST.VERIFIED), "the ticket"),
                "session1",
                (True, False),
            )

        yield Job(once, stack)

    return prepare


def refuse_wrong(stage: Stage, handle: int, digest: bytes, signature: bytes) -> None:
    """Check that the TPM does not verify a signature over another digest.

    Raises:
        WrongAnswerError: it does.
    """
    try:
        stage.tell("TPM2_VerifySignature", (handle,), sized(digest) + signature)
    except TpmError as error:
        if error.code & 0xBF != 0x9B:  # TPM_RC_SIGNATURE
            raise
    else:
        raise WrongAnswerError("the TPM verified a signature over another digest")


def _point(data: bytes, curve: Curve) -> tuple[ec.EllipticCurvePublicKey, bytes]:
    """Return the first TPM2B_ECC_POINT as a key, and what follows it."""
    size = int.from_bytes(data[:2])
    x_size = int.from_bytes(data[2:4])
    x = data[4 : 4 + x_size]
    y_size = int.from_bytes(data[4 + x_size : 6 + x_size])
    y = data[6 + x_size : 6 + x_size + y_size]
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve.curve())
    return numbers.public_key(), data[2 + size :]


def _x(key: ec.EllipticCurvePublicKey, curve: Curve) -> bytes:
    return key.public_numbers().x.to_bytes(_size(curve))


def agreeing(curve: Curve) -> Prepare:
    """Return what prepares TPM2_ECDH_KeyGen with a software key as the other side."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        other = ec.generate_private_key(curve.curve())
        numbers = other.public_key().public_numbers()
        size = _size(curve)
        public = areas.area(f"ecc{curve.curve.key_size}", areas.EXTERNAL, stage.mark)
        public.unique.ecc.x = numbers.x.to_bytes(size)
        public.unique.ecc.y = numbers.y.to_bytes(size)
        stage.require_parameters(areas.parameters(public))
        load = sized(b"") + areas.marshalled(public) + struct.pack(">I", TPM2_RH.OWNER)
        key = stage.key(
            f"peer {curve.name} {numbers.x}",
            lambda: stage.tell("TPM2_LoadExternal", (), load, (), 1).handles[0],
        )

        def judge(secret: ec.EllipticCurvePublicKey, given: ec.EllipticCurvePublicKey) -> None:
            expect(_x(secret, curve), other.exchange(ec.ECDH(), given), "the shared secret")

        def once() -> None:
            answer = stage.ask("TPM2_ECDH_KeyGen", (key.handle,)).parameters
            secret, rest = _point(answer, curve)
            judge(secret, _point(rest, curve)[0])

        def stack(esys: ESAPI) -> Stacked:
            handle = esys.tr_from_tpmpublic(key.handle)
            return Stacked(
                partial(esys.ecdh_key_gen, handle),
                lambda answer: judge(*(_point(bytes(item.marshal()), curve)[0] for item in answer)),
                "session1",
                (False, True),
            )

        yield Job(once, stack)

    return prepare


def agreeing_private(curve: Curve) -> Prepare:
    """Return what prepares TPM2_ECDH_ZGen: the private half of an agreement."""

    @contextlib.contextmanager
    def prepare(stage: Stage) -> Iterator[Job]:
        key = stage.primary(f"ecc{curve.curve.key_size}", areas.DECRYPTING)
        size = _size(curve)
        other = ec.generate_private_key(curve.curve())
        numbers = other.public_key().public_numbers()
        x, y = numbers.x.to_bytes(size), numbers.y.to_bytes(size)
        wanted = other.exchange(ec.ECDH(), public_key(key, curve))
        parameters = sized(sized(x) + sized(y))

        def judge(answer: bytes) -> None:
            expect(_x(_point(answer, curve)[0], curve), wanted, "the shared secret")

        def once() -> None:
            response = stage.ask("TPM2_ECDH_ZGen", (key.handle,), parameters, (password(),))
            judge(response.parameters)

        def stack(esys: ESAPI) -> Stacked:
            handle = esys.tr_from_tpmpublic(key.handle)
            point = TPM2B_ECC_POINT(point=TPMS_ECC_POINT(x=x, y=y))
            return Stacked(
                partial(esys.ecdh_zgen, handle, point),
                lambda answer: judge(bytes(answer.marshal())),
                encrypts=(True, True),
            )

        yield Job(once, stack)

    return prepare
