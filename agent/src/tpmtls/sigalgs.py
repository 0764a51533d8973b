"""Which signature algorithms a context offers, so that a key is asked only for what it makes.

OpenSSL keeps two lists in an ``SSL_CTX`` (SSL_CTX_set1_sigalgs(3)). A client signs with
what the list for client authentication says, and leaves servers free to sign as they like;
a server signs with what the plain list says, and accepts from clients what the other one
says. So a client needs the second narrowed; a server needs the first narrowed and the
second as it would be by itself.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from tpmtls.errors import BridgeUnavailable
from tpmtls.libssl import library

if TYPE_CHECKING:
    from collections.abc import Collection

_SET_SIGALGS_LIST = 98
_SET_CLIENT_SIGALGS_LIST = 102

# TLS's names (RFC 8446, 4.2.3). In TLS 1.2 the first three mean the hash and any curve.
_ECDSA = {
    "sha256": "ecdsa_secp256r1_sha256",
    "sha384": "ecdsa_secp384r1_sha384",
    "sha512": "ecdsa_secp521r1_sha512",
}
_RSA_PSS = {name: f"rsa_pss_rsae_{name}" for name in _ECDSA}
_RSA_REST = tuple(
    f"{kind}_{name}" for kind in ("rsa_pss_pss", "rsa_pkcs1") for name in _ECDSA
)  # fmt: skip
_OTHERS = ("ed25519", "ed448")
_LAST = ("ECDSA+SHA224", "RSA+SHA224")
# Known to some releases from 3.3 on, where a question mark passes over an unknown name.
_NEWER = (
    "?mldsa65", "?mldsa87", "?mldsa44", "?ecdsa_brainpoolP256r1tls13_sha256",
    "?ecdsa_brainpoolP384r1tls13_sha384", "?ecdsa_brainpoolP512r1tls13_sha512",
)  # fmt: skip


def restrict(
    context: ssl.SSLContext, ssl_ctx: int, hashes: Collection[str], *, elliptic: bool
) -> None:
    """Let a context sign with its key only by the hashes that the key takes.

    Keys of another kind in the same context, and what its peers may sign with, stay
    as they are. A context of the deprecated kind that can be client and server is left alone.

    Args:
        context: the context.
        ssl_ctx: its ``SSL_CTX *``.
        hashes: names such as ``sha256``.
        elliptic: whether it is an ECDSA key; an RSA key makes RSA-PSS signatures.

    Raises:
        BridgeUnavailable: OpenSSL refused the list.
    """
    own = _ECDSA if elliptic else _RSA_PSS
    makes = [own[name] for name in _ECDSA if name in hashes]
    if elliptic:
        signs = [*makes, *_OTHERS, *_RSA_PSS.values(), *_RSA_REST]
    else:
        signs = [*makes, *_ECDSA.values(), *_OTHERS]
    if context.protocol == ssl.PROTOCOL_TLS_CLIENT:
        _set(ssl_ctx, _SET_CLIENT_SIGALGS_LIST, signs)
    elif context.protocol == ssl.PROTOCOL_TLS_SERVER:
        _set(ssl_ctx, _SET_SIGALGS_LIST, signs)
        _set(ssl_ctx, _SET_CLIENT_SIGALGS_LIST, accepted())


def accepted() -> list[str]:
    """Return what OpenSSL accepts from peers by itself, short of SHA-1 and DSA."""
    newer = _NEWER if ssl.OPENSSL_VERSION_INFO >= (3, 3) else ()
    return [
        *newer[:3], *_ECDSA.values(), *_OTHERS, *newer[3:],
        *_RSA_REST[:3], *_RSA_PSS.values(), *_RSA_REST[3:], *_LAST,
    ]  # fmt: skip


def _set(ssl_ctx: int, which: int, names: list[str]) -> None:
    loaded = library()
    if loaded.SSL_CTX_ctrl(ssl_ctx, which, 0, ":".join(names).encode()) != 1:
        loaded.ERR_clear_error()
        raise BridgeUnavailable(
            f"{ssl.OPENSSL_VERSION} refused the signature algorithms {', '.join(names)}; "
            "report this with the version"
        )
