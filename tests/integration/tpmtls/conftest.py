"""A TPM key with a certificate, a server that tells whom it saw, and throwaway credentials."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import tpmtls
from tests.support import tpm
from tests.support.tls import Authority, pem

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from tests.support.swtpm import Swtpm

HANDLE = 0x81000004


def fingerprint(public_key: Any) -> str:
    """Return the SHA-256 of a public key, by which servers here tell whom they saw."""
    encoded = public_key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(encoded).hexdigest()


@dataclass
class Identity:
    """A certificate over a key in a TPM.

    Attributes:
        certificate: the certificate.
        path: its file, the CA's behind it.
        fingerprint: of its key.
        tcti: the way to its TPM.
    """

    certificate: x509.Certificate
    path: Path
    fingerprint: str
    tcti: str

    def load_into(self, context: ssl.SSLContext) -> tpmtls.Key:
        return tpmtls.load_cert_chain(context, self.path, tcti=self.tcti)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def identify(authority: Authority, tmp_path: Path) -> Callable[..., Identity]:
    """Make keys in TPMs, and certificates over them."""

    def make(swtpm: Swtpm, name: str = "client", **options: object) -> Identity:
        tpm.put_key(swtpm.tcti, HANDLE, **options)
        with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
            certificate = authority.issue(key.public_key, name)
        path = tmp_path / f"{name}.crt"
        path.write_bytes(pem(certificate, authority.certificate))
        return Identity(certificate, path, fingerprint(certificate.public_key()), swtpm.tcti)

    return make


@pytest.fixture
def identity(identify: Callable[..., Identity], swtpm: Swtpm) -> Identity:
    """A P-256 key in a TPM of the test's own, and a certificate over it."""
    return identify(swtpm)


@pytest.fixture
def authority_file(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text(authority.pem)
    return path


@pytest.fixture
def software_files(authority: Authority, tmp_path: Path) -> tuple[Path, Path]:
    """Certificate and key of a peer whose key is in a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    files = tmp_path / "software.crt", tmp_path / "software.key"
    files[0].write_bytes(pem(authority.issue(key.public_key(), "software")))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


class _Telling(http.server.BaseHTTPRequestHandler):
    """Answers with the fingerprint of the client's key."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        encoded = self.connection.getpeercert(binary_form=True)  # type: ignore[attr-defined]
        seen = "nobody"
        if encoded:
            seen = fingerprint(x509.load_der_x509_certificate(encoded).public_key())
        self.send_response(200)
        self.send_header("Content-Length", str(len(seen)))
        self.end_headers()
        self.wfile.write(seen.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def https_server(context: ssl.SSLContext) -> Iterator[int]:
    """Serve for the time of the block; the port is the value."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Telling)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused clients
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def telling_port(authority: Authority) -> Iterator[int]:
    """The port of an HTTPS server that asks for certificates and tells whose key it saw."""
    with https_server(authority.server()) as port:
        yield port
