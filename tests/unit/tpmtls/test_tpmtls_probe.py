"""The verdict that comes only with the first read."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support.tls import Authority, SoftwareSigner, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def client_of(authority: Authority, issuer: Authority) -> ssl.SSLContext:
    signer = SoftwareSigner()
    context = authority.client()
    tpmtls.load_signer(context, signer, [issuer.issue(signer.public_key)])
    return context


@pytest.mark.parametrize("version", [V12, V13])
def test_server_that_takes_us(authority: Authority, version: ssl.TLSVersion) -> None:
    client = client_of(authority, authority)
    client.maximum_version = version
    with serving(authority.server()) as server:
        verdict = tpmtls.probe("127.0.0.1", server.port, client)
    assert verdict.signed
    assert verdict.tls_version == version.name.replace("v1_", "v1.")
    assert 0 < verdict.seconds < 5
    assert len(server.seen) == 1


def test_dialling_alone_passes_where_the_probe_does_not(authority: Authority) -> None:
    """The fourth way it breaks: in TLS 1.3 a refused client has connected all the same."""
    client = client_of(authority, Authority("a CA that the server does not know"))
    with serving(authority.server()) as server:
        plain = socket.create_connection(("127.0.0.1", server.port))
        with client.wrap_socket(plain, server_hostname="localhost") as connection:
            assert connection.version() == "TLSv1.3"  # as good as connected
            with pytest.raises(ssl.SSLError, match="alert unknown ca"):
                connection.recv(1)
        with pytest.raises(tpmtls.IdentityRefused, match=r"refused us .*unknown ca.*trusts the CA"):
            tpmtls.probe("127.0.0.1", server.port, client)


@pytest.mark.parametrize("version", [V12, V13])
def test_refusal_is_one_of_ssl_too(authority: Authority, version: ssl.TLSVersion) -> None:
    client = client_of(authority, Authority("a CA that the server does not know"))
    client.maximum_version = version
    with serving(authority.server()) as server, pytest.raises(ssl.SSLError) as raised:
        tpmtls.probe("localhost", server.port, client)
    assert isinstance(raised.value, tpmtls.IdentityRefused)
    assert str(server.port) in str(raised.value)


def test_expired_certificate_is_refused(authority: Authority) -> None:
    signer = SoftwareSigner()
    context = authority.client()
    tpmtls.load_signer(context, signer, [authority.issue(signer.public_key, seconds=-1)])
    with (
        serving(authority.server()) as server,
        pytest.raises(tpmtls.IdentityRefused, match="certificate expired"),
    ):
        tpmtls.probe("127.0.0.1", server.port, context)


def test_server_that_asks_for_no_certificate_says_nothing_of_ours(authority: Authority) -> None:
    client = client_of(authority, Authority("unknown"))
    with serving(authority.server(mutual=False)) as server:
        verdict = tpmtls.probe("127.0.0.1", server.port, client)
    assert not verdict.signed


@pytest.mark.parametrize("trusted", [True, False])
def test_silent_server_needs_a_request(authority: Authority, *, trusted: bool) -> None:
    silent = authority.server()
    silent.num_tickets = 0
    client = client_of(authority, authority if trusted else Authority("unknown"))
    with serving(silent) as server:
        if trusted:
            started = time.monotonic()
            with pytest.raises(TimeoutError, match=r"said nothing within 0\.3 s.*give a request="):
                tpmtls.probe("127.0.0.1", server.port, client, timeout=0.3)
            assert time.monotonic() - started < 2
            assert tpmtls.probe("127.0.0.1", server.port, client, request=b"hello\n").signed
        else:
            with pytest.raises(tpmtls.IdentityRefused):
                tpmtls.probe("127.0.0.1", server.port, client, request=b"hello\n")


def test_wrong_server_is_its_own_error(authority: Authority) -> None:
    stranger = client_of(Authority("another CA"), authority)
    with serving(authority.server()) as server:
        with pytest.raises(
            ssl.SSLCertVerificationError, match="self-signed certificate in"
        ) as raised:
            tpmtls.probe("127.0.0.1", server.port, stranger)
        assert not isinstance(raised.value, tpmtls.IdentityRefused)
        with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
            tpmtls.probe(
                "127.0.0.1", server.port, client_of(authority, authority),
                server_hostname="elsewhere.example",
            )  # fmt: skip


def test_signer_that_fails_is_its_own_error(authority: Authority) -> None:
    class Failing(SoftwareSigner):
        def sign(self, _digest: bytes) -> bytes:
            raise tpmtls.KeyClosed("the key at 0x81000004 was closed; open it again")

    signer = Failing()
    context = authority.client()
    tpmtls.load_signer(context, signer, [authority.issue(signer.public_key)])
    with (
        serving(authority.server()) as server,
        pytest.raises(tpmtls.SignatureFailed, match="was closed"),
    ):
        tpmtls.probe("127.0.0.1", server.port, context)


@contextlib.contextmanager
def stalling() -> Iterator[int]:
    """Listen and never say a word."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                held.append(listener.accept()[0])

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        for item in held:
            item.close()


def test_server_that_stalls_in_the_handshake_meets_the_deadline(authority: Authority) -> None:
    with stalling() as port, pytest.raises(TimeoutError, match="said nothing within"):
        tpmtls.probe("127.0.0.1", port, client_of(authority, authority), timeout=0.3)


def test_nobody_there_is_an_ordinary_error(authority: Authority) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            tpmtls.probe("127.0.0.1", taken.getsockname()[1], client_of(authority, authority))
