"""ML-DSA, Hash-ML-DSA and ML-KEM on the wire (TPM 2.0 v1.85, parts 2 and 3).

The structures here are those that tpm2-pytss does not know: public areas (part 2, 12.2.3),
signatures (part 2, 11.3) and the parameters of eight commands (part 3, 14, 17 and 20).
Everything that depends on the algorithm stands in :data:`KINDS`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tpmtls.commands import sized

ML_KEM, ML_DSA, HASH_ML_DSA = 0x00A0, 0x00A1, 0x00A2
MESSAGE_VERIFIED, DIGEST_VERIFIED = 0x8026, 0x8027
PT_ML_PARAMETER_SETS = 0x131  # PT_FIXED + 49
MU_SIZE = 64
SHARED_SECRET_SIZE = 32

_SHA256, _SHA512, _NULL = 0x000B, 0x000D, 0x0010
# fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA (part 2, 8.3)
_COMMON = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 10
_DECRYPT, _SIGN = 1 << 17, 1 << 18


class MalformedError(ValueError):
    """Bytes that are not the structure that they should be."""


@dataclass(frozen=True)
class Kind:
    """One algorithm with one parameter set.

    Attributes:
        name: as FIPS 203 and 204 write it.
        algorithm: TPM_ALG_ID.
        number: of the parameter set: 1, 2 or 3.
        bit: of the set in TPM_PT_ML_PARAMETER_SETS.
        public_size: bytes of the public key.
        output_size: bytes of a signature or a ciphertext.
    """

    name: str
    algorithm: int
    number: int
    bit: int
    public_size: int
    output_size: int

    @property
    def signs(self) -> bool:
        """Whether it is a signature algorithm."""
        return self.algorithm != ML_KEM


_SIGNATURES = (("44", 1312, 2420), ("65", 1952, 3309), ("87", 2592, 4627))
_KEMS = (("512", 800, 768), ("768", 1184, 1088), ("1024", 1568, 1568))

KINDS = (
    *(
        Kind(f"{prefix}-{name}", algorithm, number, 3 + number - 1, public, output)
        for prefix, algorithm in (("ML-DSA", ML_DSA), ("Hash-ML-DSA", HASH_ML_DSA))
        for number, (name, public, output) in enumerate(_SIGNATURES, 1)
    ),
    *(
        Kind(f"ML-KEM-{name}", ML_KEM, number, number - 1, public, output)
        for number, (name, public, output) in enumerate(_KEMS, 1)
    ),
)


def parameters(kind: Kind, *, external_mu: bool = False) -> bytes:
    """Marshal a TPMT_PUBLIC_PARMS: the algorithm and its parameters.

    Args:
        kind: the algorithm.
        external_mu: ML-DSA only: whether TPM2_SignDigest may be given a message representative.
    """
    number = struct.pack(">H", kind.number)
    detail = {
        ML_DSA: number + bytes([external_mu]),  # TPMS_MLDSA_PARMS
        HASH_ML_DSA: number + struct.pack(">H", _SHA512),  # TPMS_HASH_MLDSA_PARMS
        ML_KEM: struct.pack(">H", _NULL) + number,  # TPMS_MLKEM_PARMS: no symmetric cipher
    }
    return struct.pack(">H", kind.algorithm) + detail[kind.algorithm]


def template(kind: Kind, mark: bytes, unique: bytes = b"", *, external_mu: bool = False) -> bytes:
    """Marshal a TPM2B_PUBLIC of an unrestricted key with an empty auth value.

    Args:
        kind: the algorithm.
        mark: the policy digest.
        unique: makes primary keys differ that are alike otherwise.
        external_mu: see :func:`parameters`.
    """
    attributes = _COMMON | (_SIGN if kind.signs else _DECRYPT)
    typed = parameters(kind, external_mu=external_mu)
    head = typed[:2] + struct.pack(">HI", _SHA256, attributes) + sized(mark)
    return sized(head + typed[2:] + sized(unique))


def public_key(kind: Kind, public: bytes) -> bytes:
    """Return the public key of a TPM2B_PUBLIC.

    Raises:
        MalformedError: it is none of this kind.
    """
    reader = Reader(public)
    area = Reader(reader.sized())
    if area.number(2) != kind.algorithm:
        raise MalformedError(f"the public area is not of {kind.name}")
    area.take(6)  # nameAlg, objectAttributes
    area.sized()
    area.take(len(parameters(kind)) - 2)
    key = area.sized()
    if area.rest or len(key) != kind.public_size:
        raise MalformedError(f"the public key of {kind.name} has {len(key)} bytes")
    return key


def signature(kind: Kind, raw: bytes) -> bytes:
    """Marshal a TPMT_SIGNATURE."""
    head = struct.pack(">H", kind.algorithm)
    return (
        head + (struct.pack(">H", _SHA512) if kind.algorithm == HASH_ML_DSA else b"") + sized(raw)
    )


def raw_signature(kind: Kind, data: bytes) -> bytes:
    """Return the signature in a TPMT_SIGNATURE.

    Raises:
        MalformedError: it is none of this kind.
    """
    reader = Reader(data)
    if reader.number(2) != kind.algorithm:
        raise MalformedError(f"the signature is not of {kind.name}")
    if kind.algorithm == HASH_ML_DSA and reader.number(2) != _SHA512:
        raise MalformedError("the signature is over another hash")
    raw = reader.sized()
    if reader.rest or len(raw) != kind.output_size:
        raise MalformedError(f"the signature of {kind.name} has {len(raw)} bytes")
    return raw


def sign_sequence_start(auth: bytes, context: bytes = b"") -> bytes:
    """Marshal the parameters of TPM2_SignSequenceStart."""
    return sized(auth) + sized(context)


def verify_sequence_start(auth: bytes, hint: bytes = b"", context: bytes = b"") -> bytes:
    """Marshal the parameters of TPM2_VerifySequenceStart."""
    return sized(auth) + sized(hint) + sized(context)


def sign_digest(digest: bytes, ticket: bytes, context: bytes = b"") -> bytes:
    """Marshal the parameters of TPM2_SignDigest; the ticket is a TPMT_TK_HASHCHECK."""
    return sized(context) + sized(digest) + ticket


def verify_digest(digest: bytes, made: bytes, context: bytes = b"") -> bytes:
    """Marshal the parameters of TPM2_VerifyDigestSignature; ``made`` is a TPMT_SIGNATURE."""
    return sized(context) + sized(digest) + made


def encapsulated(answer: bytes) -> tuple[bytes, bytes]:
    """Return the shared secret and the ciphertext of TPM2_Encapsulate's answer."""
    reader = Reader(answer)
    secret, ciphertext = reader.sized(), reader.sized()
    if reader.rest:
        raise MalformedError("bytes are left behind the ciphertext")
    return secret, ciphertext


class Reader:
    """Takes bytes from the front, and never more than there are.

    Attributes:
        rest: what is left.
    """

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, count: int) -> bytes:
        """Take so many bytes.

        Raises:
            MalformedError: there are fewer.
        """
        if count > len(self.rest):
            raise MalformedError(f"{count} bytes should follow and {len(self.rest)} do")
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def number(self, size: int) -> int:
        """Take an unsigned number of so many bytes."""
        return int.from_bytes(self.take(size))

    def sized(self) -> bytes:
        """Take a TPM2B."""
        return self.take(self.number(2))
