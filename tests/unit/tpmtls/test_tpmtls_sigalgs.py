"""A key is asked only for hashes that it takes, and its peers stay free to sign as they like.

What a side offers is read where it goes over the wire: out of its ClientHello or
CertificateRequest, by OpenSSL itself in the peer.
"""

from __future__ import annotations

import ctypes
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import tpmtls
from tests.support.tls import Authority, Pair, SoftwareSigner, load_software
from tpmtls import libssl, openssl, sigalgs

if TYPE_CHECKING:
    from typing import Any

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SET_SIGALGS_LIST, SET_CLIENT_SIGALGS_LIST = 98, 102
LONGEST_FIRST = b"ECDSA+SHA512:ECDSA+SHA384:ECDSA+SHA256"


def prefer(context: ssl.SSLContext, which: int, names: bytes) -> None:
    """Have a peer prefer signature algorithms, which Python's ssl cannot."""
    assert libssl.library().SSL_CTX_ctrl(openssl.address(context), which, 0, names) == 1


def contexts(
    authority: Authority, side: str, signer: Any, names: bytes = LONGEST_FIRST
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return client and server, the signer in one of them, the other preferring some."""
    client = authority.client()
    if side == "client":
        server = authority.server()
        prefer(server, SET_CLIENT_SIGALGS_LIST, names)
    else:
        server = authority.bare_server(mutual=False)
        prefer(client, SET_SIGALGS_LIST, names)
    for context in (client, server):
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE  # let the peer's wish count
    context = client if side == "client" else server
    tpmtls.load_signer(context, signer, [authority.issue(signer.public_key)])
    return client, server


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(
    ("curve", "hash_name", "size"),
    [(ec.SECP256R1, "sha256", 32), (ec.SECP384R1, "sha384", 48), (ec.SECP521R1, "sha512", 64)],
)
def test_elliptic_key_is_asked_for_its_own_hash(
    authority: Authority, curve: Any, hash_name: str, size: int, side: str, version: ssl.TLSVersion
) -> None:
    signer = SoftwareSigner(ec.generate_private_key(curve()), (hash_name,))
    client, server = contexts(authority, side, signer)
    client.maximum_version = version
    Pair(client, server)
    assert signer.digest_sizes == [size]


@pytest.mark.parametrize("side", ["client", "server"])
def test_without_the_list_a_key_would_be_asked_for_another_hash(
    authority: Authority, side: str
) -> None:
    """So the test above can fail: TLS 1.2 signs with any hash on any curve."""
    signer = SoftwareSigner()
    client, server = contexts(authority, side, signer)
    client.maximum_version = V12
    Pair(client, server)
    assert signer.digest_sizes in ([48], [64])


@pytest.mark.parametrize("side", ["client", "server"])
def test_key_that_takes_several_hashes_may_be_asked_for_each(
    authority: Authority, side: str
) -> None:
    signer = SoftwareSigner(None, ("sha256", "sha384"))
    names = b"ECDSA+SHA512:ECDSA+SHA384"
    client, server = contexts(authority, side, signer, names)
    client.maximum_version = V12
    Pair(client, server)
    assert signer.digest_sizes == [48]


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(("hash_name", "size"), [("sha256", 32), ("sha384", 48)])
def test_rsa_key_is_asked_for_pss_with_its_own_hash(
    authority: Authority, side: str, hash_name: str, size: int, version: ssl.TLSVersion
) -> None:
    names = (
        b"RSA+SHA512:RSA+SHA384:RSA+SHA256:rsa_pss_rsae_sha512:rsa_pss_rsae_sha384:"
        b"rsa_pss_rsae_sha256:ECDSA+SHA256"
    )
    signer = SoftwareSigner(rsa.generate_private_key(65537, 2048), (hash_name,))
    client, server = contexts(authority, side, signer, names)
    client.maximum_version = version
    Pair(client, server)
    assert signer.digest_sizes == [size]


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize(
    "peer",
    [
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: ec.generate_private_key(ec.SECP521R1()),
        lambda: rsa.generate_private_key(65537, 2048),
    ],
    ids=["p384", "p521", "rsa"],
)
@pytest.mark.parametrize("side", ["client", "server"])
def test_peers_with_other_keys_are_verified_as_before(
    authority: Authority, side: str, peer: Any, version: ssl.TLSVersion
) -> None:
    signer = SoftwareSigner(None, ("sha256",))
    client, server = authority.client(), authority.bare_server()
    ours, theirs = (client, server) if side == "client" else (server, client)
    tpmtls.load_signer(ours, signer, [authority.issue(signer.public_key)])
    key = peer()
    load_software(theirs, authority, key)
    client.maximum_version = version
    pair = Pair(client, server)
    seen = pair.server_seen() if side == "client" else pair.client_seen()
    assert seen.public_key() == key.public_key()


def peer_sigalgs(connection: Any) -> set[tuple[int, int]]:
    """Return (hash, signature) of what a connection's peer said it accepts."""
    loaded = libssl.library()
    function = loaded.SSL_get_sigalgs
    null = ctypes.c_void_p()
    byte = ctypes.POINTER(ctypes.c_ubyte)
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 3, byte, byte]
    inner = connection._sslobj
    # PySSLSocket is its object header, a reference to the socket, and then the SSL *.
    pointer = ctypes.c_void_p.from_address(id(inner) + object.__basicsize__ + 8).value
    found = set()
    first, second = ctypes.c_ubyte(), ctypes.c_ubyte()
    for index in range(function(pointer, 0, null, null, null, None, None)):
        function(pointer, index, null, null, null, first, second)
        found.add((second.value, first.value))
    return found


def test_server_asks_clients_for_what_openssl_asks_by_itself(authority: Authority) -> None:
    """Short of SHA-1 and DSA, which no security level that is still in use accepts."""
    signer = SoftwareSigner(None, ("sha256",))
    offers = []
    for context in (authority.server(), authority.bare_server()):
        client = authority.client()
        load_software(client, authority)
        offers.append((client, context))
    tpmtls.load_signer(offers[1][1], signer, [authority.issue(signer.public_key)])
    plain, ours = (peer_sigalgs(Pair(*item).client) for item in offers)
    sha1_or_dsa = {item for item in plain if item[0] == 2 or item[1] == 2}
    assert len(plain) > 10
    assert ours == plain - sha1_or_dsa


def test_client_offers_servers_what_openssl_offers_by_itself(authority: Authority) -> None:
    signer = SoftwareSigner(None, ("sha256",))
    plain, ours = authority.client(), authority.client()
    load_software(plain, authority)
    tpmtls.load_signer(ours, signer, [authority.issue(signer.public_key)])
    seen = [peer_sigalgs(Pair(client, authority.server()).server) for client in (plain, ours)]
    assert len(seen[0]) > 10
    assert seen[0] == seen[1]


def test_list_that_openssl_does_not_take_is_an_error(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sigalgs, "_ECDSA", {"sha256": "no_such_algorithm"})
    signer = SoftwareSigner(None, ("sha256",))
    with pytest.raises(tpmtls.BridgeUnavailable, match="refused the signature algorithms no_such"):
        tpmtls.load_signer(authority.client(), signer, [authority.issue(signer.public_key)])


def test_context_for_both_sides_is_left_as_it_is(authority: Authority) -> None:
    """PROTOCOL_TLS cannot be told client from server; it still signs, by the default lists."""
    script = (
        "import ssl, sys, warnings; sys.path[:0] = sys.argv[1:]\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "import tpmtls\n"
        "from tests.support.tls import *\n"
        "authority, signer = Authority(), SoftwareSigner(None, ('sha256',))\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS)\n"
        "tpmtls.load_signer(context, signer, [authority.issue(signer.public_key)])\n"
        "Pair(context, authority.server())\n"
        "print(signer.digest_sizes)\n"
    )
    sources = str(next(iter(tpmtls.__path__))).removesuffix("/tpmtls")
    result = subprocess.run(
        [sys.executable, "-c", script, sources, "."], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[32]\n"
