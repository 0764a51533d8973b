"""The TLS server, in a process of its own so that its interpreter lock is not the client's.

``python -m tpmbench.server`` reads one JSON object from stdin, listens on loopback, and
prints its port. Then, for each line on stdin, it prints what it has counted since the line
before. It ends when stdin does, so that it never outlives the agent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import sys
import threading
from typing import TYPE_CHECKING

from tpmbench import wire

if TYPE_CHECKING:
    import ssl


class Server:
    """Counts, for each client certificate, full and resumed handshakes.

    Args:
        context: the server's context, client certificates required.
        timeout: seconds after which a silent connection is dropped.
    """

    def __init__(self, context: ssl.SSLContext, timeout: float) -> None:
        self._context = context
        self._timeout = timeout
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._lock = threading.Lock()
        self._tallies: dict[str, dict[str, int]] = {}

    @property
    def port(self) -> int:
        """The port on loopback."""
        return int(self._listener.getsockname()[1])

    def start(self, workers: int) -> None:
        """Start as many threads as connections can be open at once.

        They exist beforehand, so that no thread's creation is in a connection's time.
        """
        for _ in range(workers):
            threading.Thread(target=self._work, daemon=True).start()

    def tallies(self) -> dict[str, dict[str, int]]:
        """Return the counts since the last call.

        A handshake is counted before its first response is sent, so that a client that has
        its response finds it counted.

        Returns:
            SHA-256 of the client certificate to ``{"full": …, "resumed": …}``; handshakes that
            failed stand under ``""`` as ``{"failed": …}``.
        """
        with self._lock:
            counts, self._tallies = self._tallies, {}
        return counts

    def _work(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            try:
                self._serve(connection)
            except OSError:  # also ssl.SSLError: the client sees it on its side
                connection.close()
                self._count("", "failed")

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(self._timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._context.wrap_socket(connection, server_side=True) as tls:
            certificate = tls.getpeercert(binary_form=True) or b""
            self._count(
                hashlib.sha256(certificate).hexdigest(),
                "resumed" if tls.session_reused else "full",
            )
            self._answer(tls)

    def _answer(self, tls: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):  # clients may just go
            while wire.answer(tls):
                pass

    def _count(self, certificate: str, what: str) -> None:
        with self._lock:
            tally = self._tallies.setdefault(certificate, {})
            tally[what] = tally.get(what, 0) + 1


def main() -> None:
    """Serve until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    context = wire.server_context(settings["authority"])
    context.load_cert_chain(settings["certificate"])
    server = Server(context, settings["timeout"])
    server.start(settings["workers"])
    print(server.port, flush=True)
    for _ in sys.stdin:
        print(json.dumps(server.tallies()), flush=True)


if __name__ == "__main__":
    main()
