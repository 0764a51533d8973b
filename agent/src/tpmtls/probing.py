"""Whether a server takes our certificate: the verdict that comes only with the first read."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import TYPE_CHECKING, NamedTuple

from tpmtls.errors import DeadlineExceeded, IdentityRefused, SignatureFailed
from tpmtls.libssl import handshake

if TYPE_CHECKING:
    from collections.abc import Callable


_LOOK = 0.02  # seconds between looks for a session ticket


class Verdict(NamedTuple):
    """A server that accepted a connection.

    Attributes:
        signed: whether a key loaded by tpmtls signed for it. Where it is False the server
            asked for no certificate, and has said nothing about ours.
        tls_version: such as ``TLSv1.3``.
        seconds: from before the connection was opened to the verdict.
    """

    signed: bool
    tls_version: str
    seconds: float


def probe(
    host: str,
    port: int,
    context: ssl.SSLContext,
    *,
    server_hostname: str | None = None,
    request: bytes = b"",
    timeout: float = 5.0,
) -> Verdict:
    """Connect, and wait for the server's verdict on our certificate.

    In TLS 1.3 a client has finished its handshake before the server has looked at its
    certificate; a refusal comes with the next read (RFC 8446, 4.4). A readiness check
    that only connects therefore passes either way. This one goes on reading until
    the server has shown that it accepted: with a session ticket, with data, or in TLS
    1.2 with the handshake itself.

    Args:
        host: name or address of the server.
        port: its port.
        context: with the key loaded.
        server_hostname: name to verify where it is not ``host``.
        request: what to send first; needed for servers that send no session
            tickets and speak only when spoken to.
        timeout: seconds for all of it.

    Raises:
        IdentityRefused: the server ended the connection after our certificate.
        SignatureFailed: the key could not sign.
        DeadlineExceeded: the server said nothing.
        ssl.SSLError: the handshake failed for another reason, such as its certificate.
        OSError: it cannot be reached.
    """
    started = time.monotonic()
    where = f"{host}:{port}"
    before = handshake.signatures

    def left() -> float:
        remaining = started + timeout - time.monotonic()
        if remaining <= 0:
            raise _silent(where, timeout)
        return remaining

    with socket.create_connection((host, port), timeout) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=server_hostname or host) as connection:
                version = connection.version() or "unknown"
                if request or version == "TLSv1.3":
                    _await(connection, where, request, left)
        except (ssl.SSLError, ConnectionError) as error:
            # What the server did before we signed was not about our certificate.
            how = _refusal(error) if handshake.signatures > before else None
            if how is None:
                raise
            raise _refused(where, how) from error
        except TimeoutError:
            raise _silent(where, timeout) from None
    return Verdict(handshake.signatures > before, version, time.monotonic() - started)


def _await(
    connection: ssl.SSLSocket, where: str, request: bytes, left: Callable[[], float]
) -> None:
    """Return once the server has shown that it accepted us."""
    if request:
        # A server that has closed already may have said why: what it said is read below.
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            connection.sendall(request)
    while request or not (connection.session and connection.session.has_ticket):
        connection.settimeout(min(left(), _LOOK))
        try:
            data = connection.recv(1)
        except TimeoutError:  # a read takes in a ticket, but does not return for it
            continue
        if data:
            return
        raise _refused(where, "it closed the connection without a word")


def _refusal(error: OSError) -> str | None:
    """Tell how an error says that the server ended the connection, or None where it does not."""
    if isinstance(error, SignatureFailed):
        return None
    if isinstance(error, ConnectionError):
        return "it reset the connection"
    if isinstance(error, ssl.SSLEOFError):
        return "it closed the connection without a word"
    reason = getattr(error, "reason", None) or ""
    return reason.lower().replace("_", " ") if "_ALERT_" in reason else None


def _refused(where: str, how: str) -> IdentityRefused:
    return IdentityRefused(
        1,
        f"{where} refused us after the handshake ({how}); check that it trusts the CA of our "
        "certificate, that the certificate is valid now, and that it is allowed there",
    )


def _silent(where: str, timeout: float) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{where} said nothing within {timeout:g} s, so whether it takes our certificate is not "
        "known; give a request= that it answers"
    )
