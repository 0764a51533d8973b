"""A signer in Python as the private key inside an :class:`ssl.SSLContext`.

OpenSSL asks a key's *method*, or its provider, for a signature. Here that is a Python
callback, the key holds the public half only, and the pair goes into the ``SSL_CTX``
that the context wraps. The foreign side is in :mod:`tpmtls.openssl`.
"""

from __future__ import annotations

import _ssl
import logging
import os
import ssl
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tpmtls import openssl, sigalgs
from tpmtls.errors import CertificateMismatch, SignatureFailed
from tpmtls.libssl import handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Chain = str | os.PathLike[str] | bytes | Sequence[x509.Certificate]


_log = logging.getLogger("tpmtls")

PublicKey = Any
"""EllipticCurvePublicKey, RSAPublicKey or, with OpenSSL 3.5, an ML-DSA key of cryptography's.

Not their union, which would make every caller narrow it who knows what key it made.
"""


class Signer(Protocol):
    """What can be a context's private key.

    It may have an attribute ``hash_names`` too, such as ``("sha256",)``: the hashes that
    it signs digests of, where it does not sign any that TLS has.
    """

    @property
    def public_key(self) -> PublicKey:
        """The public half."""

    def sign(self, digest: bytes) -> bytes:
        """Return the DER-encoded ECDSA signature, or the RSA-PSS one, over a digest.

        A signer with an ML-DSA key is given the message instead (FIPS 204, 5.2; the context
        string is empty).
        """


def load(context: ssl.SSLContext, signer: Signer, certificate_chain: Chain) -> None:
    """Make a signer the private key of a context, with its certificate chain.

    The context keeps the signer alive. Where the signer raises, the handshake
    raises :class:`~tpmtls.errors.SignatureFailed` with that exception as its cause.
    A key that the context had before, of the same kind, is replaced.

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
    elliptic = isinstance(signer.public_key, ec.EllipticCurvePublicKey)
    ssl_ctx = openssl.address(context)
    with _lock(context):
        openssl.use(ssl_ctx, signer.sign, encoded, encodings, elliptic=elliptic)
        hashes = getattr(signer, "hash_names", None)
        if hashes is not None:
            sigalgs.restrict(context, ssl_ctx, hashes, elliptic=elliptic)
        context._tpmtls_signer = signer  # type: ignore[attr-defined]  # noqa: SLF001  # ours
    context.sslsocket_class = _surfacing(context.sslsocket_class)
    context.sslobject_class = _surfacing(context.sslobject_class)


def renew(context: ssl.SSLContext, certificate_chain: Chain) -> None:
    """Give a context a renewed certificate over the key that it carries already.

    Connections made from here on show the new certificate; those that are open stay.
    May be called while other threads make connections.

    Args:
        context: one that was given a TPM key before.
        certificate_chain: path of a PEM file, PEM bytes, or certificates, leaf first.

    Raises:
        CertificateMismatch: the leaf is over another key; the context stays as it was.
        ValueError: the context carries no key of ours, or there is no certificate.
    """
    signer = getattr(context, "_tpmtls_signer", None)
    if signer is None:
        raise ValueError("this context carries no TPM key yet; use tpmtls.load_cert_chain first")
    load(context, signer, certificate_chain)


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


_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


def _parse(data: bytes, where: str) -> list[x509.Certificate]:
    # One by one: older releases of cryptography have no function for many.
    pieces = [_BEGIN + piece.partition(_END)[0] + _END for piece in data.split(_BEGIN)[1:]]
    try:
        chain = [x509.load_pem_x509_certificate(piece) for piece in pieces]
    except ValueError as error:
        raise ValueError(
            f"{where} holds a broken certificate ({error}); give the leaf and its chain as PEM"
        ) from error
    if not chain:
        raise ValueError(f"{where} holds no certificate in PEM form; give the leaf and its chain")
    return chain


def _encoded(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _lock(context: Any) -> threading.Lock:
    """Return the lock that keeps a context's new connections apart from its renewals.

    OpenSSL copies certificate and key out of the ``SSL_CTX`` as a connection begins, without
    a lock and without Python's, so a renewal in another thread could free them meanwhile.
    """
    lock: threading.Lock | None = getattr(context, "_tpmtls_lock", None)
    if lock is None:
        lock = context._tpmtls_lock = threading.Lock()  # noqa: SLF001  # ours
        for name in ("_wrap_socket", "_wrap_bio"):
            setattr(context, name, _locked(lock, weakref.ref(context), name))
    return lock


def _locked(lock: threading.Lock, context: weakref.ref[Any], name: str) -> Callable[..., Any]:
    method = getattr(_ssl._SSLContext, name)  # noqa: SLF001  # what ssl itself calls

    def call(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return method(context(), *args, **kwargs)

    return call


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
        handshake.error = None
        try:
            return method(self, *args, **kwargs)
        except ssl.SSLError as error:
            cause = handshake.error
            if cause is None:
                raise
            handshake.error = None
            if self.server_side:  # whose caller is a loop that keeps it to itself
                _log.error("the private key could not sign a handshake: %s", cause)
            raise SignatureFailed(
                error.errno, f"the private key could not sign the handshake: {cause}"
            ) from cause

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call
