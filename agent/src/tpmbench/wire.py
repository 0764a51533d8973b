"""What client and server of the TLS scenarios agree on. Standard library only."""

from __future__ import annotations

import ssl

SERVER_NAME = "bench.invalid"
REQUEST = b"GET / HTTP/1.1\r\nHost: bench.invalid\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_ONE_REQUEST_ONLY = b"HTTP/1.0"


def client_context(authority: str) -> ssl.SSLContext:
    """Return a client context for TLS 1.3 that trusts a CA (PEM) and has no key yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    return context


def server_context(authority: str) -> ssl.SSLContext:
    """Return a server context for TLS 1.3 that demands a client certificate of a CA (PEM)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority)
    return context


def answer(tls: ssl.SSLSocket) -> bool:
    """Answer one request; return whether another may follow."""
    request = tls.recv(4096)
    if not request:
        return False
    tls.sendall(RESPONSE)
    return _ONE_REQUEST_ONLY not in request
