"""A signer as the private key of the ``SSL_CTX`` inside an :class:`ssl.SSLContext`.

Before anything is written, the pointer taken from the context is compared with values
that Python reads from the same ``SSL_CTX``; where they differ, nothing is touched.
"""

from __future__ import annotations

import contextlib
import ssl
from ctypes import c_void_p, sizeof
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpmtls import ec_method, provider
from tpmtls.errors import BridgeUnavailable
from tpmtls.libssl import checked, library, pointer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What Python's verify modes are to OpenSSL (Modules/_ssl.c, set_verify_mode).
_VERIFY_MODES = {ssl.CERT_NONE: 0, ssl.CERT_OPTIONAL: 1, ssl.CERT_REQUIRED: 3}
_SSL_CTX_AT_LEAST = 512  # bytes; every release's SSL_CTX is larger


def use(
    ssl_ctx: int,
    sign: Callable[[bytes], bytes],
    public_key: bytes,
    chain: Sequence[bytes],
    *,
    elliptic: bool,
) -> None:
    """Put a signer and a certificate chain into an SSL_CTX, both or neither.

    Args:
        ssl_ctx: its address, from :func:`address`.
        sign: takes a digest, returns a signature: DER-encoded ECDSA, or RSA-PSS with a
            salt as long as the digest; called in the thread that runs the handshake.
            Kept for as long as OpenSSL keeps the key.
        public_key: its public half, a DER-encoded SubjectPublicKeyInfo.
        chain: DER-encoded certificates, leaf first.
        elliptic: whether it is an ECDSA key.

    Raises:
        BridgeUnavailable: this Python or its OpenSSL does not allow it.
    """
    loaded = library()
    loaded.ERR_clear_error()
    certificates: list[int] = []
    stack = pkey = None
    try:
        pkey = _private_key(sign, public_key, elliptic=elliptic)
        certificates.extend(
            checked(loaded, "d2i_X509", None, pointer(encoded), len(encoded)) for encoded in chain
        )
        stack = checked(loaded, "OPENSSL_sk_new_null")
        for certificate in certificates[1:]:
            checked(loaded, "OPENSSL_sk_push", stack, certificate)
        checked(loaded, "SSL_CTX_use_cert_and_key", ssl_ctx, certificates[0], pkey, stack, 1)
    finally:  # the SSL_CTX holds references of its own
        for certificate in certificates:
            loaded.X509_free(certificate)
        loaded.OPENSSL_sk_free(stack)
        loaded.EVP_PKEY_free(pkey)


def _private_key(sign: Callable[[bytes], bytes], public_key: bytes, *, elliptic: bool) -> int:
    """Make the EVP_PKEY in the first way that this OpenSSL has."""
    if elliptic:
        with contextlib.suppress(BridgeUnavailable):
            return ec_method.private_key(sign, public_key)
    return provider.private_key(sign, public_key)


def address(context: ssl.SSLContext) -> int:
    """Return the ``SSL_CTX *`` of a context: the first field after its object header.

    Raises:
        BridgeUnavailable: what stands there does not look like this context's SSL_CTX.
        TypeError: it is no context at all.
    """
    if not isinstance(context, ssl.SSLContext):
        raise TypeError(f"an ssl.SSLContext is needed, not a {type(context).__name__}")
    loaded = library()
    found = c_void_p.from_address(id(context) + object.__basicsize__).value
    if found is None or not _mapped(found, _SSL_CTX_AT_LEAST):
        raise BridgeUnavailable(_UNKNOWN_LAYOUT)
    if _seen_by_python(context) != _seen_by_openssl(loaded, found):
        raise BridgeUnavailable(_UNKNOWN_LAYOUT)
    return found


def _seen_by_python(context: ssl.SSLContext) -> tuple[int, ...]:
    return (
        int(context.options) & 0xFFFFFFFF,
        _VERIFY_MODES[context.verify_mode],
        int(context.verify_flags),
    )


def _seen_by_openssl(loaded: Any, ssl_ctx: int) -> tuple[int, ...]:
    return (
        loaded.SSL_CTX_get_options(ssl_ctx) & 0xFFFFFFFF,
        loaded.SSL_CTX_get_verify_mode(ssl_ctx) & 0x3,
        loaded.X509_VERIFY_PARAM_get_flags(loaded.SSL_CTX_get0_param(ssl_ctx)),
    )


_UNKNOWN_LAYOUT = (
    "the SSLContext of this Python is laid out in an unknown way, so a key cannot be handed "
    "to it; use CPython 3.11 or newer as released"
)


def _mapped(address: int, size: int) -> bool:
    """Tell whether memory is mapped writable, so that reading it cannot crash."""
    if address % sizeof(c_void_p):
        return False
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode = line.split(" ", 2)[:2]
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= address and address + size <= last:
            return mode.startswith("rw")
    return False
