"""Certificate signing requests, signed by a key that stays where it is."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import cryptography
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding, rsa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives import hashes


def build(
    private_key: Any,
    algorithm: hashes.HashAlgorithm,
    subject: str | x509.Name,
    san: Sequence[str | x509.GeneralName],
    extensions: Sequence[x509.ExtensionType],
) -> x509.CertificateSigningRequest:
    """Build and sign a request; see :meth:`tpmtls.Key.certificate_request`."""
    name = subject if isinstance(subject, x509.Name) else _name(subject)
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    if isinstance(san, str):
        raise ValueError(f"san is a list of names; write [{san!r}]")  # noqa: TRY004  # as documented
    if san:
        names = [_general_name(item) for item in san]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    if isinstance(private_key, rsa.RSAPrivateKey):
        if int(cryptography.__version__.partition(".")[0]) < 41:
            raise UnsupportedAlgorithm(
                f"cryptography {cryptography.__version__} cannot make requests with RSA-PSS; "
                "install cryptography 41 or newer"
            )
        pss = padding.PSS(padding.MGF1(algorithm), algorithm.digest_size)
        return builder.sign(private_key, algorithm, rsa_padding=pss)  # type: ignore[arg-type]
    return builder.sign(private_key, algorithm)  # type: ignore[arg-type]


def _name(text: str) -> x509.Name:
    # RFC 4514 begins with the last part. Releases of cryptography before 39 did not know.
    try:
        name = x509.Name.from_rfc4514_string(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is no distinguished name; write it as in CN=store,O=Example (RFC 4514)"
        ) from error
    known = x509.Name.from_rfc4514_string("CN=a,O=b").rfc4514_string() == "CN=a,O=b"
    return name if known else x509.Name(reversed(list(name.rdns)))


def _general_name(name: str | x509.GeneralName) -> x509.GeneralName:
    if isinstance(name, x509.GeneralName):
        return name
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.UniformResourceIdentifier(name) if "://" in name else x509.DNSName(name)
