"""How a key signs: its signature scheme, the hashes it takes, and its signatures' forms.

A TPM writes a signature as a TPMT_SIGNATURE (part 2, 11.3.4); TLS and X.509 want DER
for ECDSA (RFC 3279, 2.2.3) and the bare number for RSA.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature

if TYPE_CHECKING:
    from collections.abc import Callable

ALG_RSAPSS = 0x0016
ALG_ECDSA = 0x0018


@dataclass(frozen=True)
class Hash:
    """A hash as its several owners call it.

    Attributes:
        name: as :mod:`hashlib` calls it.
        tpm_id: TPM_ALG_ID (TCG algorithm registry).
        algorithm: the same for the cryptography package.
        size: bytes in its digests.
    """

    name: str
    tpm_id: int
    algorithm: hashes.HashAlgorithm
    size: int


SHA256 = Hash("sha256", 0x000B, hashes.SHA256(), 32)
SHA384 = Hash("sha384", 0x000C, hashes.SHA384(), 48)
SHA512 = Hash("sha512", 0x000D, hashes.SHA512(), 64)
HASHES = (SHA256, SHA384, SHA512)
"""Those that TLS 1.2 and 1.3 sign with (RFC 8446, 4.2.3)."""


@dataclass(frozen=True)
class Scheme:
    """A way to sign.

    Attributes:
        tpm_id: TPM_ALG_ID of the scheme.
        key_type: name of its keys, such as ``EC``, as OpenSSL has it.
        parse: takes the signature out of the response parameters of TPM2_Sign.
        arguments: what the public key's ``verify`` takes behind signature and digest.
    """

    tpm_id: int
    key_type: str
    parse: Callable[[bytes], bytes]
    arguments: Callable[[hashes.HashAlgorithm], tuple[Any, ...]]

    def verify(self, public_key: Any, signature: bytes, digest: bytes) -> bool:
        """Tell, in software, whether a signature over a digest is that key's."""
        algorithm = next((item.algorithm for item in HASHES if item.size == len(digest)), None)
        if algorithm is None:
            return False
        try:
            public_key.verify(signature, digest, *self.arguments(algorithm))
        except InvalidSignature:
            return False
        return True


def _ecdsa_signature(area: bytes) -> bytes:
    first = struct.unpack_from(">H", area, 4)[0]
    r = int.from_bytes(area[6 : 6 + first])
    second = struct.unpack_from(">H", area, 6 + first)[0]
    s = int.from_bytes(area[8 + first : 8 + first + second])
    return encode_dss_signature(r, s)


def _rsa_signature(area: bytes) -> bytes:
    length = struct.unpack_from(">H", area, 4)[0]
    return area[6 : 6 + length]


def _pss(algorithm: hashes.HashAlgorithm, salt: int) -> tuple[Any, ...]:
    return padding.PSS(padding.MGF1(algorithm), salt), Prehashed(algorithm)


ECDSA = Scheme(
    ALG_ECDSA, "EC", _ecdsa_signature, lambda algorithm: (ec.ECDSA(Prehashed(algorithm)),)
)
# TLS 1.3 demands a salt as long as the digest (RFC 8446, 4.2.3).
RSA_PSS = Scheme(
    ALG_RSAPSS, "RSA", _rsa_signature, lambda algorithm: _pss(algorithm, algorithm.digest_size)
)


def salt_length(public_key: Any, signature: bytes, digest: bytes) -> int | None:
    """Recover the length of the salt in an RSA-PSS signature, or None where it is none."""
    algorithm = next(item.algorithm for item in HASHES if item.size == len(digest))
    encoded: int = (public_key.key_size + 6) // 8  # bytes; RFC 8017, 9.1.1
    largest = encoded - len(digest) - 2
    for salt in itertools.chain((len(digest), largest), range(largest)):
        try:
            public_key.verify(signature, digest, *_pss(algorithm, salt))
        except InvalidSignature:
            continue
        return salt
    return None
