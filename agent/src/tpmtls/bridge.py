"""A signer in Python as the private key inside an :class:`ssl.SSLContext`.

OpenSSL asks an EC key's *method* for a signature. Here the method's sign function
is a Python callback, the EC key holds the public half only, and the pair goes into the
``SSL_CTX`` that the context wraps. The foreign side is in :mod:`tpmtls.openssl`.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tpmtls import openssl
from tpmtls.errors import CertificateMismatch, SignatureFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cryptography.hazmat.primitives.asymmetric import ec

    Chain = str | os.PathLike[str] | bytes | Sequence[x509.Certificate]


class Signer(Protocol):
    """What can be a context's private key."""

    @property
    def public_key(self) -> ec.EllipticCurvePublicKey:
        """The public half."""

    def sign(self, digest: bytes) -> bytes:
        """Return the DER-encoded ECDSA signature over a digest."""


def load(context: ssl.SSLContext, signer: Signer, certificate_chain: Chain) -> None:
    """Make a signer the private key of a context, with its certificate chain.

    The context keeps the signer alive. Where the signer raises, the handshake
    raises :class:`~tpmtls.errors.SignatureFailed` with that exception as its cause.

    Raises:
        CertificateMismatch: the leaf is over another key.
        BridgeUnavailable: this Python's ssl module cannot take it.
        ValueError: there is no certificate in what was given.
    """
    chain = read_chain(certificate_chain)
    encoded = _encoded(signer.public_key)
    if _encoded(chain[0].public_key()) != encoded:
        raise CertificateMismatch(
            f"the certificate of {chain[0].subject.rfc4514_string() or 'no name'} is over another "
            "key than the one it was loaded with; a renewed certificate must be over the same key"
        )
    encodings = [item.public_bytes(serialization.Encoding.DER) for item in chain]
    openssl.use(context, signer.sign, encoded, encodings)
    context.sslsocket_class = _surfacing(context.sslsocket_class)
    context.sslobject_class = _surfacing(context.sslobject_class)


def read_chain(certificate_chain: Chain) -> list[x509.Certificate]:
    """Return the certificates of a chain, leaf first.

    Raises:
        ValueError: there is none.
        OSError: the file cannot be read.
    """
    if isinstance(certificate_chain, (str, os.PathLike)):
        return _parse(Path(certificate_chain).read_bytes(), str(certificate_chain))
    if isinstance(certificate_chain, bytes):
        return _parse(certificate_chain, "the PEM given")
    chain = list(certificate_chain)
    if not chain:
        raise ValueError("the certificate chain is empty; give the leaf and its chain")
    return chain


def _parse(data: bytes, where: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise ValueError(
            f"{where} holds no certificate in PEM form ({error}); give the leaf and its chain"
        ) from error


def _encoded(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


# Whatever may carry a handshake forward, and so may ask for a signature.
_CARRIERS = ("do_handshake", "read", "write", "send")


def _surfacing(base: type) -> type:
    """Return a subclass whose handshakes raise what the signer raised."""
    if getattr(base, "_tpmtls_surfacing", False):
        return base
    methods: dict[str, Any] = {
        name: _surface(getattr(base, name)) for name in _CARRIERS if hasattr(base, name)
    }
    methods["_tpmtls_surfacing"] = True
    methods["__doc__"] = base.__doc__
    return type(base.__name__, (base,), methods)


def _surface(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        openssl.pending.error = None
        try:
            return method(self, *args, **kwargs)
        except ssl.SSLError as error:
            cause = openssl.pending.error
            if cause is None:
                raise
            openssl.pending.error = None
            raise SignatureFailed(
                error.errno, f"the private key could not sign the handshake: {cause}"
            ) from cause

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call
