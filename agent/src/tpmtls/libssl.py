"""The very libssl and libcrypto that :mod:`ssl` itself is linked to, through ctypes."""

from __future__ import annotations

import _ssl
import ctypes
import ssl
import threading
from ctypes import byref, c_char_p, c_int, c_long, c_size_t, c_uint64, c_ulong, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any

from tpmtls.errors import BridgeUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    Prototypes = Mapping[str, tuple[Any, tuple[Any, ...]]]

# name: (result, arguments), as in the headers of OpenSSL 1.1.1 to 3.x
_PROTOTYPES: Prototypes = {
    "d2i_X509": (c_void_p, (c_void_p, ctypes.POINTER(c_char_p), c_long)),
    "ERR_clear_error": (None, ()),
    "ERR_get_error": (c_ulong, ()),
    "ERR_error_string_n": (None, (c_ulong, c_char_p, c_size_t)),
    "EVP_PKEY_free": (None, (c_void_p,)),
    "OPENSSL_sk_new_null": (c_void_p, ()),
    "OPENSSL_sk_push": (c_int, (c_void_p, c_void_p)),
    "OPENSSL_sk_free": (None, (c_void_p,)),
    "SSL_CTX_ctrl": (c_long, (c_void_p, c_int, c_long, c_void_p)),
    "SSL_CTX_get_options": (c_uint64, (c_void_p,)),
    "SSL_CTX_get_verify_mode": (c_int, (c_void_p,)),
    "SSL_CTX_get0_param": (c_void_p, (c_void_p,)),
    "SSL_CTX_use_cert_and_key": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int)),
    "X509_VERIFY_PARAM_get_flags": (c_ulong, (c_void_p,)),
    "X509_free": (None, (c_void_p,)),
}


class _Handshake(threading.local):
    """What signers did in this thread: how often they signed, and what the last one raised."""

    signatures = 0
    error: BaseException | None = None


handshake = _Handshake()


@cache
def library() -> Any:
    """Return the libraries behind ``_ssl``.

    Raises:
        BridgeUnavailable: they cannot be reached, or lack a function.
    """
    path = getattr(_ssl, "__file__", None)
    if path is None:
        raise BridgeUnavailable(
            "this Python has OpenSSL linked into itself, so a key cannot be handed to its ssl "
            "module from outside; use the distribution's Python"
        )
    loaded = ctypes.CDLL(path)
    declare(loaded, _PROTOTYPES)
    return loaded


def declare(loaded: Any, prototypes: Prototypes) -> None:
    """Declare functions before any is called.

    Raises:
        BridgeUnavailable: the library lacks one.
    """
    for name, (result, arguments) in prototypes.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise BridgeUnavailable(
                f"{ssl.OPENSSL_VERSION}, which this Python uses, lacks {name}; use a Python built "
                "against OpenSSL 1.1.1 or 3.x"
            ) from None
        function.restype = result
        function.argtypes = arguments


def checked(loaded: Any, name: str, *arguments: Any) -> Any:
    """Call a function whose result is a pointer or 1 on success.

    Raises:
        BridgeUnavailable: it failed; the message is OpenSSL's.
    """
    result = getattr(loaded, name)(*arguments)
    if result:
        return result
    text = ctypes.create_string_buffer(256)
    loaded.ERR_error_string_n(loaded.ERR_get_error(), text, len(text))
    loaded.ERR_clear_error()
    raise BridgeUnavailable(f"OpenSSL refused {name}: {text.value.decode()}")


def pointer(data: bytes) -> Any:
    """Return what ``d2i`` functions read bytes through."""
    return byref(c_char_p(data))


def keep_forever(*callbacks: Any) -> None:
    """Never free C callbacks: OpenSSL may call them while the interpreter goes down."""
    for callback in callbacks:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(callback))
