"""Certificates over keys in TPMs, and a server that tells whom it saw."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization

import tpmtls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

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
