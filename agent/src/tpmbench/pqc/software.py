"""The same algorithms in software, where the cryptography package has them (from 47 on)."""

from __future__ import annotations

import hashlib
import importlib
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from tpmbench.pqc.structures import HASH_ML_DSA, MU_SIZE

if TYPE_CHECKING:
    from tpmbench.pqc.structures import Kind

# The object identifier of SHA-512, DER-encoded, as HashML-DSA puts it before the digest (FIPS
# 204, 5.4.1).
_OID_SHA512 = bytes.fromhex("0609608648016503040203")


def public(kind: Kind, raw: bytes) -> Any | None:
    """Return a public key of the cryptography package; None where it does not have the kind."""
    family = "mldsa" if kind.signs else "mlkem"
    try:
        module = importlib.import_module(f"cryptography.hazmat.primitives.asymmetric.{family}")
    except ImportError:
        return None
    found = getattr(module, f"{family.upper()}{kind.name.rpartition('-')[2]}PublicKey", None)
    if found is None:
        return None
    try:
        return found.from_public_bytes(raw)
    except UnsupportedAlgorithm:  # an OpenSSL without it
        return None


def representative(kind: Kind, key: bytes, message: bytes) -> bytes:
    """Return mu, what ML-DSA signs of a message with an empty context (FIPS 204, 6.2).

    Args:
        kind: ML-DSA, or Hash-ML-DSA with SHA-512.
        key: the public key's bytes.
        message: the message, or its hash for Hash-ML-DSA.
    """
    if kind.algorithm == HASH_ML_DSA:
        prefixed = b"\x01\x00" + _OID_SHA512 + message
    else:
        prefixed = b"\x00\x00" + message
    tr = hashlib.shake_256(key).digest(64)
    return hashlib.shake_256(tr + prefixed).digest(MU_SIZE)


def verifies(key: Any, mu: bytes, signature: bytes) -> bool:
    """Tell whether a signature verifies over a message representative."""
    try:
        key.verify_mu(signature, mu)
    except InvalidSignature:
        return False
    return True
