"""The TLS client, in a process of its own, for scenarios in which the agent is the server.

``python -m tpmbench.dialler`` reads one JSON object from stdin. Then, for each port on
stdin, it connects there, sends one request, and prints the SHA-256 of the certificate that
the server proved to hold the key of, or ``failed`` with the reason.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from typing import TYPE_CHECKING

from tpmbench import wire

if TYPE_CHECKING:
    import ssl


def dial(context: ssl.SSLContext, port: int, timeout: float) -> str:
    """Connect, exchange one request, and return what is printed of it."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(connection, server_hostname=wire.SERVER_NAME) as tls:
                tls.send(wire.REQUEST)
                if not tls.recv(4096):
                    return "failed: the server closed the connection without an answer"
                return hashlib.sha256(tls.getpeercert(binary_form=True) or b"").hexdigest()
    except OSError as error:
        return f"failed: {error}"


def main() -> None:
    """Dial until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    context = wire.client_context(settings["authority"])
    context.load_cert_chain(settings["certificate"])
    for line in sys.stdin:
        print(dial(context, int(line), settings["timeout"]), flush=True)


if __name__ == "__main__":
    main()
