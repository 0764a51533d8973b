"""The client's side of the TLS scenarios, and its hold on the server process."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec

from tpmbench import pki, wire
from tpmbench.child import Child, running

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from tpmbench.memory import PeakMemory


_IDLE = 60.0  # seconds; an arm's connection is idle while the others have their turns
_WORKERS = 24  # connections that can be open at once


class Peer:
    """The server process, and the CA that both sides trust.

    Args:
        server: the running server.
        authority: issues this scenario's certificates.
        port: the server's port on loopback.
        timeout: seconds that a silent connection may take.
    """

    def __init__(self, server: Child, authority: pki.Authority, port: int, timeout: float) -> None:
        self._server = server
        self.authority = authority
        self.port = port
        self.timeout = timeout

    def tallies(self) -> dict[str, dict[str, int]]:
        """Ask the server what it has counted since the last time.

        Raises:
            BenchError: the server is gone.
        """
        self._server.tell()
        tallies: dict[str, dict[str, int]] = json.loads(self._server.hear())
        return tallies

    def context(self) -> ssl.SSLContext:
        """Return a client context for TLS 1.3 that trusts the CA and has no key yet."""
        return wire.client_context(pki.pem(self.authority.certificate).decode())

    def connect(
        self, context: ssl.SSLContext, session: ssl.SSLSession | None
    ) -> tuple[ssl.SSLSocket, int]:
        """Open a connection and get the first response byte over it.

        In TLS 1.3 the server's verdict on the client's certificate arrives with the first
        read (RFC 8446, 4.4.4 and 2), so the span ends there and not with the handshake call.

        Returns:
            The connection, and the nanoseconds from before ``connect()`` to the first byte.

        Raises:
            OSError: the connection failed; :class:`ssl.SSLError` where TLS did.
        """
        connection = socket.socket(socket.AF_INET)
        try:
            connection.settimeout(self.timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            started = time.perf_counter_ns()
            connection.connect(("127.0.0.1", self.port))
            tls = context.wrap_socket(connection, server_hostname=wire.SERVER_NAME, session=session)
        except BaseException:
            connection.close()
            raise
        try:
            exchange(tls)
            duration = time.perf_counter_ns() - started
        except BaseException:
            tls.close()
            raise
        return tls, duration


def exchange(tls: ssl.SSLSocket) -> bytes:
    """Send one request and return the first of the response.

    Raises:
        ConnectionError: the server closed the connection instead of answering.
        OSError: the connection failed; :class:`ssl.SSLError` where TLS did.
    """
    tls.send(wire.REQUEST)
    answer = tls.recv(4096)
    if not answer:
        raise ConnectionError("the server closed the connection without an answer")
    return answer


@contextlib.contextmanager
def serving(directory: Path, deadline: float, memory: PeakMemory | None = None) -> Iterator[Peer]:
    """Run a server process for the time of the block.

    Args:
        directory: private directory for the server's throwaway key.
        deadline: seconds that a key may take to sign; a connection may be silent for longer.
        memory: is shown the server process before it ends.

    Raises:
        BenchError: it did not start.
    """
    timeout = max(_IDLE, 2 * deadline)
    authority = pki.Authority()
    key = ec.generate_private_key(ec.SECP256R1())
    bundle = directory / "server.pem"
    bundle.write_bytes(pki.private_pem(key) + pki.pem(authority.issue("server", key.public_key())))
    settings = {
        "authority": pki.pem(authority.certificate).decode(),
        "certificate": str(bundle),
        "timeout": timeout,
        "workers": _WORKERS,
    }
    with running("tpmbench.server", "TLS server", settings, memory) as server:
        port = int(server.hear())
        bundle.unlink()  # it has been read
        yield Peer(server, authority, port, timeout)
