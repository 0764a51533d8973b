"""A throwaway CA for one scenario's certificates. Its keys live in this process only."""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from tpmbench import wire

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import (
        CertificatePublicKeyTypes,
        PrivateKeyTypes,
    )

_VALID = dt.timedelta(days=1)
_CLOCK_SKEW = dt.timedelta(hours=1)


class Authority:
    """A CA on P-256 that issues leaf certificates for a day."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("tpm-tls-bench throwaway CA")
        builder = self._builder(self._name, self._key.public_key())
        self.certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(ca=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, name: str, public_key: CertificatePublicKeyTypes) -> x509.Certificate:
        """Issue a certificate that client and server authentication accept."""
        names = [x509.DNSName(wire.SERVER_NAME), x509.IPAddress(ip_address("127.0.0.1"))]
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        return (
            self._builder(_name(name), public_key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(
        self, name: x509.Name, public_key: CertificatePublicKeyTypes
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _VALID)
        )


def pem(certificate: x509.Certificate) -> bytes:
    """Encode a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def private_pem(key: PrivateKeyTypes) -> bytes:
    """Encode a throwaway private key as PEM, in the clear."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    """Signing certificates for a CA, signing handshakes for a leaf: OpenSSL's strict mode looks."""
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
