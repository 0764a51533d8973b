"""Message representatives and verification, against the cryptography package's own signatures."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import mldsa

from tpmbench.pqc import software
from tpmbench.pqc.structures import KINDS

CLASSES = {
    "44": mldsa.MLDSA44PrivateKey,
    "65": mldsa.MLDSA65PrivateKey,
    "87": mldsa.MLDSA87PrivateKey,
}
SIGNERS = [kind for kind in KINDS if kind.name.startswith("ML-DSA")]


@pytest.mark.parametrize("kind", SIGNERS, ids=lambda kind: kind.name)
def test_a_message_signature_verifies_over_its_representative(kind: object) -> None:
    private = CLASSES[kind.name[-2:]].generate()  # type: ignore[attr-defined]
    raw = private.public_key().public_bytes_raw()
    key = software.public(kind, raw)  # type: ignore[arg-type]
    signature = private.sign(b"a message")
    right = software.representative(kind, raw, b"a message")  # type: ignore[arg-type]
    wrong = software.representative(kind, raw, b"another")  # type: ignore[arg-type]
    assert len(right) == 64
    assert software.verifies(key, right, signature)
    assert not software.verifies(key, wrong, signature)


def test_hash_ml_dsa_signs_something_else_than_ml_dsa() -> None:
    by_name = {kind.name: kind for kind in KINDS}
    digest = hashlib.sha512(b"x").digest()
    key = bytes(1952)
    assert software.representative(by_name["ML-DSA-65"], key, digest) != (
        software.representative(by_name["Hash-ML-DSA-65"], key, digest)
    )


def test_a_set_that_software_lacks_is_none() -> None:
    by_name = {kind.name: kind for kind in KINDS}
    assert software.public(by_name["ML-KEM-512"], bytes(800)) is None
