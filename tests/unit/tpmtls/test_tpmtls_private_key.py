"""A TPM key where the cryptography package wants a private key."""

from __future__ import annotations

import copy
import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

import tpmtls
from tests.support.fake_tpm import FakeObject, FakeTpm

if TYPE_CHECKING:
    from typing import Any

HANDLE = 0x81000004
PSS = padding.PSS(padding.MGF1(hashes.SHA256()), 32)


def key_of(algorithm: str) -> tpmtls.Key:
    tpm = FakeTpm({HANDLE: FakeObject(algorithm)})
    return tpmtls.attach(tpmtls.Transport(tpm, "fake"), HANDLE)


@pytest.mark.parametrize(
    "algorithm",
    ["ecc256:ecdsa-sha256", "ecc384:ecdsa-sha384", "ecc521:ecdsa-sha512", "rsa2048:rsapss-sha256"],
)
def test_request_verifies_and_carries_what_was_asked(algorithm: str) -> None:
    key = key_of(algorithm)
    usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])
    request = key.certificate_request(
        "CN=store,O=Example",
        ["store.example", "192.0.2.7", "2001:db8::7", "spiffe://example/store"],
        extensions=[usage],
    )
    assert request.is_signature_valid
    assert request.public_key() == key.public_key
    assert request.subject.rfc4514_string() == "CN=store,O=Example"
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["store.example"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("192.0.2.7"),
        ipaddress.ip_address("2001:db8::7"),
    ]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://example/store"]
    assert request.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value == usage


def test_request_takes_names_as_objects_and_needs_no_extension() -> None:
    key = key_of("ecc256")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
    request = key.certificate_request(name)
    assert request.is_signature_valid
    assert request.subject == name
    assert len(request.extensions) == 0
    mail = x509.RFC822Name("a@example.com")
    assert key.certificate_request(name, [mail]).extensions[0].value.get_values_for_type(
        x509.RFC822Name
    ) == ["a@example.com"]


@pytest.mark.parametrize(
    ("subject", "san", "words"),
    [
        ("no name", [], "'no name' is no distinguished name"),
        ("CN=x", "x.example", r"write \['x\.example'\]"),
        ("CN=x", ["ü.example"], "A-label"),
    ],
)
def test_malformed_names_are_refused(subject: str, san: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        key_of("ecc256").certificate_request(subject, san)


def test_certificates_can_be_signed_in_the_tpm() -> None:
    key = key_of("ecc384:ecdsa-sha384")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "CA in a TPM")])
    now = dt.datetime.now(dt.UTC)
    leaf = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(leaf.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key.private_key, key.hash)
    )
    assert certificate.signature_hash_algorithm.name == "sha384"
    key.public_key.verify(
        certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA384())
    )


def test_elliptic_key_looks_like_one_and_signs() -> None:
    key = key_of("ecc256:ecdsa-sha256")
    private = key.private_key
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp256r1"
    assert private.key_size == 256
    assert private.public_key() == key.public_key
    signature = private.sign(b"message", ec.ECDSA(hashes.SHA256()))
    key.public_key.verify(signature, b"message", ec.ECDSA(hashes.SHA256()))
    prehashed = ec.ECDSA(Prehashed(hashes.SHA256()))
    key.public_key.verify(private.sign(bytes(32), prehashed), bytes(32), prehashed)
    with pytest.raises(ValueError, match="not of 48"):
        private.sign(b"message", ec.ECDSA(hashes.SHA384()))


def test_rsa_key_looks_like_one_and_signs_with_pss_only() -> None:
    key = key_of("rsa2048:rsapss-sha256")
    private = key.private_key
    assert isinstance(private, rsa.RSAPrivateKey)
    assert private.key_size == 2048
    signature = private.sign(b"message", PSS, hashes.SHA256())
    key.public_key.verify(signature, b"message", PSS, hashes.SHA256())
    with pytest.raises(UnsupportedAlgorithm, match="signs with PSS"):
        private.sign(b"message", padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(UnsupportedAlgorithm, match="salt as long as the digest"):
        private.sign(b"message", padding.PSS(padding.MGF1(hashes.SHA256()), 20), hashes.SHA256())


@pytest.mark.parametrize("algorithm", ["ecc256", "rsa2048"])
def test_what_would_need_the_private_half_is_refused(algorithm: str) -> None:
    private: Any = key_of(algorithm).private_key
    attempts = [
        private.private_numbers,
        lambda: private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        lambda: (
            private.exchange(ec.ECDH(), private.public_key())
            if algorithm == "ecc256"
            else private.decrypt(b"", PSS)
        ),
    ]
    for attempt in attempts:
        with pytest.raises(UnsupportedAlgorithm, match=r"TPM cannot .*; it can only"):
            attempt()
    assert copy.copy(private) is private
    assert copy.deepcopy(private) is private


def test_request_over_a_closed_key_fails_clearly() -> None:
    key = key_of("ecc256")
    key.close()
    with pytest.raises(tpmtls.KeyClosed):
        key.certificate_request("CN=x")
