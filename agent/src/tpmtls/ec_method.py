"""An EVP_PKEY whose ECDSA signatures come from Python, through OpenSSL's EC_KEY_METHOD."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_long, c_uint, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any

from tpmtls.libssl import checked, declare, handshake, keep_forever, library, pointer

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_SIGNATURE = 139  # DER of two 66-byte integers (P-521): what OpenSSL has room for

# int (*sign)(int type, const unsigned char *dgst, int dlen, unsigned char *sig,
#             unsigned int *siglen, const BIGNUM *kinv, const BIGNUM *r, EC_KEY *eckey)
_SIGN = CFUNCTYPE(
    c_int, c_int, c_void_p, c_int, c_void_p, POINTER(c_uint), c_void_p, c_void_p, c_void_p
)
# void (*finish)(EC_KEY *key)
_FINISH = CFUNCTYPE(None, c_void_p)

_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "d2i_EC_PUBKEY": (c_void_p, (c_void_p, POINTER(c_char_p), c_long)),
    "EC_KEY_OpenSSL": (c_void_p, ()),
    "EC_KEY_METHOD_new": (c_void_p, (c_void_p,)),
    "EC_KEY_METHOD_set_init": (
        None,
        (c_void_p, c_void_p, _FINISH, c_void_p, c_void_p, c_void_p, c_void_p),
    ),
    "EC_KEY_METHOD_set_sign": (None, (c_void_p, _SIGN, c_void_p, c_void_p)),
    "EC_KEY_set_method": (c_int, (c_void_p, c_void_p)),
    "EC_KEY_free": (None, (c_void_p,)),
    "EVP_PKEY_new": (c_void_p, ()),
    "EVP_PKEY_set1_EC_KEY": (c_int, (c_void_p, c_void_p)),
    "EVP_PKEY_free": (None, (c_void_p,)),
}

# Address of an EC_KEY of ours to what signs for it, for as long as OpenSSL keeps that key.
_signers: dict[int, Callable[[bytes], bytes]] = {}


def private_key(sign: Callable[[bytes], bytes], public_key: bytes) -> int:
    """Return a new EVP_PKEY with a public half, whose signatures come from ``sign``.

    Args:
        sign: takes a digest, returns a DER-encoded ECDSA signature; kept for as long
            as OpenSSL keeps the key.
        public_key: a DER-encoded SubjectPublicKeyInfo.

    Raises:
        BridgeUnavailable: this OpenSSL does not allow it.
    """
    loaded, method = library(), _method()
    ec_key = checked(loaded, "d2i_EC_PUBKEY", None, pointer(public_key), len(public_key))
    pkey = None
    try:
        checked(loaded, "EC_KEY_set_method", ec_key, method)
        _signers[ec_key] = sign
        pkey = checked(loaded, "EVP_PKEY_new")
        checked(loaded, "EVP_PKEY_set1_EC_KEY", pkey, ec_key)
    except BaseException:
        loaded.EVP_PKEY_free(pkey)
        raise
    finally:
        loaded.EC_KEY_free(ec_key)
    made: int = pkey
    return made


@cache
def _method() -> int:
    """Return the EC_KEY_METHOD that calls back; made once, never freed.

    Raises:
        BridgeUnavailable: OpenSSL lacks what it takes.
    """
    loaded = library()
    declare(loaded, _PROTOTYPES)
    keep_forever(_sign_callback, _finish_callback)
    method: int = checked(loaded, "EC_KEY_METHOD_new", loaded.EC_KEY_OpenSSL())
    loaded.EC_KEY_METHOD_set_init(method, None, _finish_callback, None, None, None, None)
    loaded.EC_KEY_METHOD_set_sign(method, _sign_callback, None, None)
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
        handshake.signatures += 1
        value = _signers[ec_key](ctypes.string_at(digest, length))
        if len(value) > _LARGEST_SIGNATURE:
            raise ValueError(f"the signer returned {len(value)} bytes")  # noqa: TRY301
        ctypes.memmove(signature, value, len(value))
        signature_length[0] = len(value)
    except BaseException as error:  # told to the handshake's caller instead
        handshake.error = error
        return 0
    return 1


@_FINISH  # type: ignore[untyped-decorator]
def _finish_callback(ec_key: int, forget: Any = _signers.pop) -> None:
    """Let go of a signer when OpenSSL frees its key."""
    forget(ec_key, None)
