"""OpenSSL through ctypes: the one module that touches foreign memory.

Symbols come from the very libssl and libcrypto that :mod:`ssl` itself is linked to.
Before anything is written, the pointer taken from the context is compared with values
that Python reads from the same ``SSL_CTX``; where they differ, nothing is touched.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl
import threading
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_long,
    c_uint,
    c_uint64,
    c_ulong,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpmtls.errors import BridgeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LARGEST_SIGNATURE = 144  # DER of two 66-byte integers (P-521), rounded up
# What Python's verify modes are to OpenSSL (Modules/_ssl.c, set_verify_mode).
_VERIFY_MODES = {ssl.CERT_NONE: 0, ssl.CERT_OPTIONAL: 1, ssl.CERT_REQUIRED: 3}
_SSL_CTX_AT_LEAST = 512  # bytes; every release's SSL_CTX is larger

# int (*sign)(int type, const unsigned char *dgst, int dlen, unsigned char *sig,
#             unsigned int *siglen, const BIGNUM *kinv, const BIGNUM *r, EC_KEY *eckey)
_SIGN = CFUNCTYPE(
    c_int, c_int, c_void_p, c_int, c_void_p, POINTER(c_uint), c_void_p, c_void_p, c_void_p
)
# void (*finish)(EC_KEY *key)
_FINISH = CFUNCTYPE(None, c_void_p)

# name: (result, arguments), as in the headers of OpenSSL 1.1.1 to 3.x
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "d2i_EC_PUBKEY": (c_void_p, (c_void_p, POINTER(c_char_p), c_long)),
    "d2i_X509": (c_void_p, (c_void_p, POINTER(c_char_p), c_long)),
    "EC_KEY_OpenSSL": (c_void_p, ()),
    "EC_KEY_METHOD_new": (c_void_p, (c_void_p,)),
    "EC_KEY_METHOD_set_init": (
        None,
        (c_void_p, c_void_p, _FINISH, c_void_p, c_void_p, c_void_p, c_void_p),
    ),
    "EC_KEY_METHOD_set_sign": (None, (c_void_p, _SIGN, c_void_p, c_void_p)),
    "EC_KEY_set_method": (c_int, (c_void_p, c_void_p)),
    "EC_KEY_free": (None, (c_void_p,)),
    "ERR_clear_error": (None, ()),
    "ERR_get_error": (c_ulong, ()),
    "ERR_error_string_n": (None, (c_ulong, c_char_p, ctypes.c_size_t)),
    "EVP_PKEY_new": (c_void_p, ()),
    "EVP_PKEY_set1_EC_KEY": (c_int, (c_void_p, c_void_p)),
    "EVP_PKEY_free": (None, (c_void_p,)),
    "OPENSSL_sk_new_null": (c_void_p, ()),
    "OPENSSL_sk_push": (c_int, (c_void_p, c_void_p)),
    "OPENSSL_sk_free": (None, (c_void_p,)),
    "SSL_CTX_get_options": (c_uint64, (c_void_p,)),
    "SSL_CTX_get_verify_mode": (c_int, (c_void_p,)),
    "SSL_CTX_get0_param": (c_void_p, (c_void_p,)),
    "SSL_CTX_use_cert_and_key": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int)),
    "X509_VERIFY_PARAM_get_flags": (c_ulong, (c_void_p,)),
    "X509_free": (None, (c_void_p,)),
}


class _Pending(threading.local):
    """What a signer raised in this thread, until the handshake's caller is told."""

    error: BaseException | None = None


pending = _Pending()

# Address of an EC_KEY of ours to what signs for it, for as long as OpenSSL keeps that key.
_signers: dict[int, Callable[[bytes], bytes]] = {}


def use(
    context: ssl.SSLContext,
    sign: Callable[[bytes], bytes],
    public_key: bytes,
    chain: Sequence[bytes],
) -> None:
    """Put a signer and a certificate chain into a context, both or neither.

    Args:
        context: the context.
        sign: takes a digest, returns a DER-encoded ECDSA signature; called in the
            thread that runs the handshake. Kept for as long as OpenSSL keeps the key.
        public_key: its public half, a DER-encoded SubjectPublicKeyInfo.
        chain: DER-encoded certificates, leaf first.

    Raises:
        BridgeUnavailable: this Python or its OpenSSL does not allow it.
    """
    library = _library()
    ssl_ctx = _ssl_ctx(library, context)
    library.ERR_clear_error()
    certificates: list[int] = []
    stack = pkey = None
    try:
        pkey = _private_key(library, sign, public_key)
        certificates.extend(
            _checked(library, "d2i_X509", None, _pointer(encoded), len(encoded))
            for encoded in chain
        )
        stack = _checked(library, "OPENSSL_sk_new_null")
        for certificate in certificates[1:]:
            _checked(library, "OPENSSL_sk_push", stack, certificate)
        _checked(library, "SSL_CTX_use_cert_and_key", ssl_ctx, certificates[0], pkey, stack, 1)
    finally:  # the SSL_CTX holds references of its own
        for certificate in certificates:
            library.X509_free(certificate)
        library.OPENSSL_sk_free(stack)
        library.EVP_PKEY_free(pkey)


def _private_key(library: Any, sign: Callable[[bytes], bytes], public_key: bytes) -> int:
    """Return an EVP_PKEY with the public half, whose signatures come from ``sign``."""
    method = _method()
    ec_key = _checked(library, "d2i_EC_PUBKEY", None, _pointer(public_key), len(public_key))
    try:
        _checked(library, "EC_KEY_set_method", ec_key, method)
        _signers[ec_key] = sign
        pkey: int = _checked(library, "EVP_PKEY_new")
        _checked(library, "EVP_PKEY_set1_EC_KEY", pkey, ec_key)
        return pkey
    finally:
        library.EC_KEY_free(ec_key)


@cache
def _library() -> Any:
    """Return the libraries behind ``_ssl``, every prototype declared."""
    path = getattr(_ssl, "__file__", None)
    if path is None:
        raise BridgeUnavailable(
            "this Python has OpenSSL linked into itself, so a key cannot be handed to its ssl "
            "module from outside; use the distribution's Python"
        )
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise BridgeUnavailable(
                f"{ssl.OPENSSL_VERSION}, which this Python uses, lacks {name}; use a Python built "
                "against OpenSSL 1.1.1 or 3.x with its deprecated functions"
            ) from None
        function.restype = result
        function.argtypes = arguments
    return library


@cache
def _method() -> int:
    """Return the EC_KEY_METHOD that calls back.

    Made once and never freed: OpenSSL may call it as long as the process lives, also
    while the interpreter goes down, when this module is gone.
    """
    library = _library()
    for callback in (_sign_callback, _finish_callback):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(callback))
    method: int = _checked(library, "EC_KEY_METHOD_new", library.EC_KEY_OpenSSL())
    library.EC_KEY_METHOD_set_init(method, None, _finish_callback, None, None, None, None)
    library.EC_KEY_METHOD_set_sign(method, _sign_callback, None, None)
    return method


@_SIGN  # type: ignore[untyped-decorator]
def _sign_callback(
    _type: int,
    digest: int,
    length: int,
    signature: int,
    signature_length: Any,
    _kinv: int,
    _r: int,
    ec_key: int,
) -> int:
    """Sign for OpenSSL: 1 with the signature written, or 0. Must not raise into C."""
    try:
        value = _signers[ec_key](ctypes.string_at(digest, length))
        if len(value) > _LARGEST_SIGNATURE:
            raise ValueError(f"the signer returned {len(value)} bytes")  # noqa: TRY301
        ctypes.memmove(signature, value, len(value))
        signature_length[0] = len(value)
    except BaseException as error:  # told to the handshake's caller instead
        pending.error = error
        return 0
    return 1


@_FINISH  # type: ignore[untyped-decorator]
def _finish_callback(ec_key: int, forget: Any = _signers.pop) -> None:
    """Let go of a signer when OpenSSL frees its key."""
    forget(ec_key, None)


def _pointer(data: bytes) -> Any:
    return byref(c_char_p(data))


def _checked(library: Any, name: str, *arguments: Any) -> Any:
    """Call a function whose result is a pointer or 1 on success."""
    result = getattr(library, name)(*arguments)
    if result:
        return result
    text = ctypes.create_string_buffer(256)
    library.ERR_error_string_n(library.ERR_get_error(), text, len(text))
    library.ERR_clear_error()
    raise BridgeUnavailable(f"OpenSSL refused {name}: {text.value.decode()}")


def _ssl_ctx(library: Any, context: ssl.SSLContext) -> int:
    """Return the ``SSL_CTX *`` of a context: the first field after its object header.

    Raises:
        BridgeUnavailable: what stands there does not look like this context's SSL_CTX.
    """
    if not isinstance(context, ssl.SSLContext):
        raise TypeError(f"an ssl.SSLContext is needed, not a {type(context).__name__}")
    found = c_void_p.from_address(id(context) + object.__basicsize__).value
    if found is None or not _mapped(found, _SSL_CTX_AT_LEAST):
        raise BridgeUnavailable(_UNKNOWN_LAYOUT)
    ours = (
        int(context.options) & 0xFFFFFFFF,
        _VERIFY_MODES[context.verify_mode],
        int(context.verify_flags),
    )
    theirs = (
        library.SSL_CTX_get_options(found) & 0xFFFFFFFF,
        library.SSL_CTX_get_verify_mode(found) & 0x3,
        library.X509_VERIFY_PARAM_get_flags(library.SSL_CTX_get0_param(found)),
    )
    if ours != theirs:
        raise BridgeUnavailable(_UNKNOWN_LAYOUT)
    return found


_UNKNOWN_LAYOUT = (
    "the SSLContext of this Python is laid out in an unknown way, so a key cannot be handed "
    "to it; use CPython 3.11 or newer as released"
)


def _mapped(address: int, size: int) -> bool:
    """Tell whether memory is mapped writable, so that reading it cannot crash."""
    if address % ctypes.sizeof(c_void_p):
        return False
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode = line.split(" ", 2)[:2]
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= address and address + size <= last:
            return mode.startswith("rw")
    return False
