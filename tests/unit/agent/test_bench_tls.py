"""The throwaway PKI and the server's counts, with real TLS over loopback."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from tpmbench import pki, wire
from tpmbench.client import Peer, exchange, serving
from tpmbench.memory import PeakMemory, peak_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Client:
    """A client certificate and a context with its key, held by OpenSSL."""

    def __init__(self, trusted: pki.Authority, issuer: pki.Authority, directory: Path) -> None:
        key = ec.generate_private_key(ec.SECP384R1())
        self.certificate = issuer.issue("client", key.public_key())
        encoded = self.certificate.public_bytes(serialization.Encoding.DER)
        self.fingerprint = hashlib.sha256(encoded).hexdigest()
        self.context = wire.client_context(pki.pem(trusted.certificate).decode())
        bundle = directory / "client.pem"
        bundle.write_bytes(pki.private_pem(key) + pki.pem(self.certificate))
        self.context.load_cert_chain(bundle)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with serving(tmp_path, 10) as running:
        yield running


@pytest.fixture
def client(peer: Peer, tmp_path: Path) -> Client:
    return Client(peer.authority, peer.authority, tmp_path)


def test_full_handshakes_are_counted_by_certificate(
    peer: Peer, client: Client, tmp_path: Path
) -> None:
    other = Client(peer.authority, peer.authority, tmp_path)
    for context in (client.context, client.context, other.context):
        connection, duration = peer.connect(context, None)
        assert connection.version() == "TLSv1.3"
        connection.close()
        assert 100_000 < duration < 5_000_000_000
    assert peer.tallies() == {client.fingerprint: {"full": 2}, other.fingerprint: {"full": 1}}
    assert peer.tallies() == {}, "asked again, it tells what came since"


def test_a_resumed_connection_is_counted_as_such(peer: Peer, client: Client) -> None:
    first, _ = peer.connect(client.context, None)
    session = first.session
    first.close()
    second, _ = peer.connect(client.context, session)
    assert second.session_reused
    second.close()
    assert peer.tallies() == {client.fingerprint: {"full": 1, "resumed": 1}}


def test_requests_over_one_connection_are_one_handshake(peer: Peer, client: Client) -> None:
    connection, _ = peer.connect(client.context, None)
    for _ in range(20):
        assert exchange(connection) == wire.RESPONSE
    connection.close()
    assert peer.tallies() == {client.fingerprint: {"full": 1}}


def test_an_unknown_client_certificate_is_refused(peer: Peer, tmp_path: Path) -> None:
    stranger = Client(peer.authority, pki.Authority(), tmp_path)
    with pytest.raises(OSError, match=r"(?i)unknown.ca|decrypt.error|reset|closed|EOF"):
        peer.connect(stranger.context, None)
    assert _tallies_with(peer, "") == {"": {"failed": 1}}


def test_no_client_certificate_is_refused(peer: Peer) -> None:
    context = wire.client_context(pki.pem(peer.authority.certificate).decode())
    with pytest.raises(OSError, match=r"(?i)certificate.required|reset|closed|EOF"):
        peer.connect(context, None)
    assert _tallies_with(peer, "") == {"": {"failed": 1}}


def test_an_older_tls_is_refused(peer: Peer, client: Client) -> None:
    client.context.minimum_version = ssl.TLSVersion.TLSv1_2
    client.context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        peer.connect(client.context, None)
    assert _tallies_with(peer, "") == {"": {"failed": 1}}


def test_a_server_of_another_ca_is_refused(peer: Peer, tmp_path: Path) -> None:
    doubtful = Client(pki.Authority(), peer.authority, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        peer.connect(doubtful.context, None)


def test_what_is_no_tls_does_not_hurt_the_server(peer: Peer, client: Client) -> None:
    with socket.create_connection(("127.0.0.1", peer.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            connection.recv(4096)
    assert _tallies_with(peer, "") == {"": {"failed": 1}}
    connection, _ = peer.connect(client.context, None)
    connection.close()
    assert peer.tallies() == {client.fingerprint: {"full": 1}}


def _tallies_with(peer: Peer, wanted: str) -> dict[str, dict[str, int]]:
    """Ask until a count is there: the client may see a refusal before the server counts it."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        tallies = peer.tallies()
        if wanted in tallies:
            return tallies
        time.sleep(0.01)
    raise AssertionError("the server counted nothing")


def test_a_connection_that_the_server_closes_is_no_quick_answer(peer: Peer, client: Client) -> None:
    connection, _ = peer.connect(client.context, None)
    connection.send(wire.REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"))  # the last, please
    assert connection.recv(4096) == wire.RESPONSE
    with pytest.raises(OSError, match=r"(?i)closed|reset|pipe|EOF"):
        exchange(connection)
    connection.close()


def test_the_server_ends_with_the_block_and_leaves_no_key(tmp_path: Path) -> None:
    memory = PeakMemory()
    with serving(tmp_path, 10, memory) as running:
        port = running.port
        assert list(tmp_path.iterdir()) == [], "its throwaway key is read and gone"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert 8_000_000 < memory.total_bytes() - peak_bytes("self") < 60_000_000


def test_peak_memory_is_that_of_the_process() -> None:
    assert peak_bytes("self") > 10_000_000
    memory = PeakMemory()
    memory.observe(os.getpid())
    memory.observe(2**22 + 1)  # beyond every process id
    assert peak_bytes("self") < memory.total_bytes() <= 2 * peak_bytes("self")


def test_leaves_are_for_both_sides_for_a_day_and_of_the_key_given() -> None:
    authority = pki.Authority()
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = authority.issue("client", key.public_key())
    assert leaf.public_key() == key.public_key()
    assert leaf.issuer == authority.certificate.subject
    authority.certificate.public_key().verify(  # type: ignore[call-arg, union-attr]
        leaf.signature,
        leaf.tbs_certificate_bytes,
        ec.ECDSA(leaf.signature_hash_algorithm),  # type: ignore[arg-type]
    )
    extensions = leaf.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == {
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.SERVER_AUTH,
    }
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [wire.SERVER_NAME]
    before, after = (
        dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)
        for text in _validity(leaf)
    )
    now = dt.datetime.now(dt.UTC)
    assert now - dt.timedelta(hours=2) < before < now
    assert after - before <= dt.timedelta(days=1, hours=1)


def _validity(certificate: x509.Certificate) -> tuple[str, str]:
    """Return notBefore and notAfter; older and newer cryptography name them differently."""
    for suffix in ("_utc", ""):
        if hasattr(certificate, f"not_valid_before{suffix}"):
            first = getattr(certificate, f"not_valid_before{suffix}")
            last = getattr(certificate, f"not_valid_after{suffix}")
            return f"{first:%Y%m%d%H%M%SZ}", f"{last:%Y%m%d%H%M%SZ}"
    raise AssertionError("cryptography has renamed them again")
