"""An EVP_PKEY whose signatures come from Python, through a provider inside this process.

It serves what EC_KEY_METHOD cannot: RSA, whose old method interface never sees the digest
of an RSA-PSS signature; ECDSA where OpenSSL is built without EC_KEY_METHOD; and ML-DSA, which
signs messages and not digests.

The provider is loaded into a library context of its own, so that nothing else in the
process can come upon its algorithms. It does two things: key management just large enough
for libssl to compare a key with its certificate and ask its size, and signing.
Function numbers and prototypes: openssl/core_dispatch.h, OpenSSL 3.0 and newer.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tpmtls import ossl
from tpmtls.errors import BridgeUnavailable
from tpmtls.libssl import checked, declare, handshake, keep_forever, library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_Params = POINTER(ossl.Param)
_INIT = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p))

_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "OSSL_LIB_CTX_new": (c_void_p, ()),
    "OSSL_PROVIDER_add_builtin": (c_int, (c_void_p, c_char_p, _INIT)),
    "OSSL_PROVIDER_load": (c_void_p, (c_void_p, c_char_p)),
    "EVP_PKEY_CTX_new_from_name": (c_void_p, (c_void_p, c_char_p, c_char_p)),
    "EVP_PKEY_CTX_free": (None, (c_void_p,)),
    "EVP_PKEY_fromdata_init": (c_int, (c_void_p,)),
    "EVP_PKEY_fromdata": (c_int, (c_void_p, POINTER(c_void_p), c_int, _Params)),
}

_KEYPAIR = 0x03  # OSSL_KEYMGMT_SELECT_PRIVATE_KEY | OSSL_KEYMGMT_SELECT_PUBLIC_KEY
_OUR_KEY = b"tpmtls-key"  # the parameter by which a key of ours is named
# Curve as the cryptography package and as OpenSSL call it.
_GROUPS = {"secp256r1": b"prime256v1", "secp384r1": b"secp384r1", "secp521r1": b"secp521r1"}
# Class of the cryptography package to OpenSSL's name, bytes of a signature, and security bits
# (FIPS 204, tables 1 and 2). By name, as older releases of the package lack the classes.
_ML_DSA = {
    "MLDSA44PublicKey": (b"ML-DSA-44", 2420, 128),
    "MLDSA65PublicKey": (b"ML-DSA-65", 3309, 192),
    "MLDSA87PublicKey": (b"ML-DSA-87", 4627, 256),
}
_PSS = (6, b"pss")  # RSA_PKCS1_PSS_PADDING and its name


@dataclass
class _Key:
    """A key as OpenSSL refers to it: ours, or the public half of a certificate's."""

    kind: bytes = b""
    identity: tuple[Any, ...] = ()
    group: bytes = b""
    bits: int = 0
    largest: int = 0
    security: int = 0
    sign: Callable[[bytes], bytes] | None = None


@dataclass
class _Signing:
    """One signature under way."""

    key: _Key | None = None
    digest: Any = None
    padding: Any = None
    message: bytearray = field(default_factory=bytearray)


# What OpenSSL holds by number, for as long as it does.
_keys: dict[int, _Key] = {}
_signings: dict[int, _Signing] = {}
_numbers = itertools.count(1)


def private_key(sign: Callable[[bytes], bytes], public_key: bytes) -> int:
    """Return a new EVP_PKEY with a public half, whose signatures come from ``sign``.

    Args:
        sign: takes a digest, returns a signature: DER-encoded ECDSA, or RSA-PSS with a salt
            as long as the digest; for an ML-DSA key, takes the message. Kept for as long as
            OpenSSL keeps the key.
        public_key: a DER-encoded SubjectPublicKeyInfo.

    Raises:
        BridgeUnavailable: this OpenSSL does not allow it.
    """
    loaded, context = library(), _library_context()
    known = _described(serialization.load_der_public_key(public_key), sign)
    number = next(_numbers)
    _keys[number] = known
    value = ctypes.c_uint64(number)
    parameters = (ossl.Param * 2)(
        ossl.Param(_OUR_KEY, ossl.UNSIGNED, ctypes.cast(ctypes.byref(value), c_void_p), 8, 0)
    )
    maker = checked(loaded, "EVP_PKEY_CTX_new_from_name", context, known.kind, None)
    try:
        pkey = c_void_p()
        checked(loaded, "EVP_PKEY_fromdata_init", maker)
        checked(loaded, "EVP_PKEY_fromdata", maker, ctypes.byref(pkey), _KEYPAIR, parameters)
    finally:
        _keys.pop(number)  # OpenSSL has it under the number of its own that it asked for
        loaded.EVP_PKEY_CTX_free(maker)
    if pkey.value is None:
        raise BridgeUnavailable("OpenSSL made no key; use a Python built against OpenSSL 3.x")
    return pkey.value


def _described(key: Any, sign: Callable[[bytes], bytes]) -> _Key:
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        security = 112 if key.key_size < 3072 else 128  # NIST SP 800-57 part 1, table 2
        size = (key.key_size + 7) // 8
        identity = (numbers.n, numbers.e)
        return _Key(b"RSA", identity, b"", key.key_size, size, security, sign)
    if type(key).__name__ in _ML_DSA:
        name, size, security = _ML_DSA[type(key).__name__]
        raw = key.public_bytes_raw()
        return _Key(name, (raw,), b"", 8 * len(raw), size, security, sign)
    point = key.public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    # DER of two integers, each with its sign byte and header, in a SEQUENCE
    largest = 2 * ((key.key_size + 7) // 8 + 3) + 4
    group = _GROUPS[key.curve.name]
    return _Key(b"EC", (point,), group, key.key_size, largest, key.key_size // 2, sign)


@cache
def _library_context() -> int:
    """Return the library context with the provider in it; made once, never freed."""
    loaded = library()
    declare(loaded, _PROTOTYPES)
    context: int = checked(loaded, "OSSL_LIB_CTX_new")
    keep_forever(_init)
    checked(loaded, "OSSL_PROVIDER_add_builtin", context, b"tpmtls", _init)
    checked(loaded, "OSSL_PROVIDER_load", context, b"tpmtls")
    return context


def _new_key(_provider: int) -> int:
    number = next(_numbers)
    _keys[number] = _Key()
    return number


def _free_key(number: int, forget: Any = _keys.pop) -> None:
    forget(number, None)


def _has(_number: int, _selection: int) -> int:
    return 1


def _match(one: int, other: int, _selection: int) -> int:
    return int(_keys[one].identity == _keys[other].identity)


def _import(number: int, _selection: int, parameters: Any) -> int:
    values = dict(ossl.values(parameters))
    if _OUR_KEY in values:
        _keys[number] = _keys[values[_OUR_KEY]]
    elif b"n" in values:
        _keys[number] = _Key(identity=(values[b"n"], values[b"e"]))
    else:
        _keys[number] = _Key(identity=(values[b"pub"],))
    return 1


def _get_key_params(number: int, parameters: Any) -> int:
    key = _keys[number]
    known: dict[bytes, int | bytes] = {
        b"bits": key.bits, b"max-size": key.largest, b"security-bits": key.security,
        b"group": key.group,
    }  # fmt: skip
    ossl.answer(parameters, known)
    return 1


def _new_signing(_provider: int, _properties: bytes) -> int:
    number = next(_numbers)
    _signings[number] = _Signing()
    return number


def _free_signing(number: int, forget: Any = _signings.pop) -> None:
    forget(number, None)


def _sign_init(number: int, digest: bytes | None, key: int, parameters: Any) -> int:
    signing = _signings[number]
    signing.key = _keys[key]
    # OpenSSL says SHA256 or SHA2-256, and nothing for ML-DSA.
    signing.digest = (digest or b"").decode().lower().replace("sha2-", "sha")
    signing.message.clear()
    return _set_signing_params(number, parameters)


def _set_signing_params(number: int, parameters: Any) -> int:
    for name, value in ossl.values(parameters):
        if name == b"pad-mode":
            _signings[number].padding = value
    return 1


def _sign_update(number: int, data: int, length: int) -> int:
    _signings[number].message += ctypes.string_at(data, length)
    return 1


def _sign_final(number: int, signature: int | None, length: Any, room: int) -> int:
    signing = _signings[number]
    key = signing.key
    if key is None or key.sign is None:
        return 0
    if not signature:  # OpenSSL asks how much room it takes
        length[0] = key.largest
        return 1
    if key.kind == b"RSA" and signing.padding not in _PSS:
        raise ValueError("an RSA key in a TPM makes RSA-PSS signatures only, not PKCS #1 v1.5")
    handshake.signatures += 1
    message = bytes(signing.message)
    what = hashlib.new(signing.digest, message).digest() if signing.digest else message
    value = key.sign(what)
    if len(value) > room:
        raise ValueError(f"the signer returned {len(value)} bytes")
    ctypes.memmove(signature, value, len(value))
    length[0] = len(value)
    return 1


def _sign(number: int, signature: int, length: Any, room: int, data: int, size: int) -> int:
    _signings[number].message[:] = ctypes.string_at(data, size)
    return _sign_final(number, signature, length, room)


_size = POINTER(c_size_t)
_KEY_PARAMS = ossl.constant(
    (b"bits", ossl.INTEGER),
    (b"max-size", ossl.INTEGER),
    (b"security-bits", ossl.INTEGER),
    (b"group", ossl.TEXT),
)
_IMPORTED = ossl.constant(
    (_OUR_KEY, ossl.UNSIGNED), (b"n", ossl.UNSIGNED), (b"e", ossl.UNSIGNED), (b"pub", ossl.OCTETS)
)  # fmt: skip
_SIGNING_PARAMS = ossl.constant(
    (b"pad-mode", ossl.INTEGER), (b"saltlen", ossl.INTEGER), (b"digest", ossl.TEXT)
)

# (number, function, result, arguments), as in core_dispatch.h
_KEY_MANAGEMENT = (
    (1, _new_key, c_void_p, (c_void_p,)),
    (10, _free_key, None, (c_void_p,)),
    (11, _get_key_params, c_int, (c_void_p, _Params)),
    (12, _KEY_PARAMS, c_void_p, (c_void_p,)),
    (21, _has, c_int, (c_void_p, c_int)),
    (23, _match, c_int, (c_void_p, c_void_p, c_int)),
    (40, _import, c_int, (c_void_p, c_int, _Params)),
    (41, _IMPORTED, c_void_p, (c_int,)),
)
_SIGNATURE = (
    (1, _new_signing, c_void_p, (c_void_p, c_char_p)),
    (8, _sign_init, c_int, (c_void_p, c_char_p, c_void_p, _Params)),
    (9, _sign_update, c_int, (c_void_p, c_void_p, c_size_t)),
    (10, _sign_final, c_int, (c_void_p, c_void_p, _size, c_size_t)),
    (11, _sign, c_int, (c_void_p, c_void_p, _size, c_size_t, c_void_p, c_size_t)),
    (16, _free_signing, None, (c_void_p,)),
    (20, _set_signing_params, c_int, (c_void_p, _Params)),
    (21, _SIGNING_PARAMS, c_void_p, (c_void_p, c_void_p)),
)


_key_management, _signature = ossl.table(_KEY_MANAGEMENT), ossl.table(_SIGNATURE)
_PROPERTIES = b"provider=tpmtls"
# Names and object identifiers, as OpenSSL's own provider has them.
_ML_DSA_NAMES = tuple(
    b"ML-DSA-%d:MLDSA%d:2.16.840.1.101.3.4.3.%d:id-ml-dsa-%d" % (size, size, last, size)
    for size, last in ((44, 17), (65, 18), (87, 19))
)
_NAMES = (
    b"RSA:rsaEncryption:1.2.840.113549.1.1.1", b"EC:id-ecPublicKey:1.2.840.10045.2.1",
    *_ML_DSA_NAMES,
)  # fmt: skip


def _algorithms(names: Sequence[bytes], implementation: Any) -> Any:
    """List algorithms for OpenSSL, an empty one behind the last."""
    made = (ossl.Algorithm(name, _PROPERTIES, implementation, None) for name in names)
    return (ossl.Algorithm * (len(names) + 1))(*made)


_OPERATIONS = {
    10: _algorithms(_NAMES, _key_management),
    12: _algorithms((b"RSA", b"EC:ECDSA", *_ML_DSA_NAMES), _signature),
}


def _query(_provider: int, operation: int, no_cache: Any) -> int | None:
    no_cache[0] = 0
    algorithms = _OPERATIONS.get(operation)
    return None if algorithms is None else ctypes.addressof(algorithms)


_provider = ossl.table(((1027, _query, c_void_p, (c_void_p, c_int, POINTER(c_int))),))


@_INIT  # type: ignore[untyped-decorator]
def _init(handle: int, _core: int, functions: Any, context: Any) -> int:
    functions[0] = ctypes.addressof(_provider)
    context[0] = handle
    return 1
