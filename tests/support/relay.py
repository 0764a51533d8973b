"""A relay between the agent and a software TPM, which may hold back, forge or swallow answers."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Forward = Callable[[bytes], bytes]
    Answer = Callable[[bytes, Forward], bytes]


def code_of(command: bytes) -> int:
    """Return a command's code."""
    return int.from_bytes(command[6:10])


def refusal(code: int) -> bytes:
    """Return the response that carries nothing but a response code."""
    return struct.pack(">HII", 0x8001, 10, code)


def receive(connection: socket.socket) -> bytes:
    """Receive one command or response; empty where the other side has closed."""
    data = b""
    while len(data) < 10 or len(data) < int.from_bytes(data[2:6]):
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    return data


@contextlib.contextmanager
def relay(port: int, answer: Answer) -> Iterator[str]:
    """Relay commands to a software TPM for the time of the block.

    Args:
        port: the software TPM's, on loopback.
        answer: is given each command and what sends it on; returns the response.

    Yields:
        The way to the relay, for ``--tcti``.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()
        server.settimeout(0.1)
        thread = threading.Thread(target=_serve, args=(server, port, answer, stop), daemon=True)
        thread.start()
        try:
            yield f"swtpm:host=127.0.0.1,port={server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def _serve(server: socket.socket, port: int, answer: Answer, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            client, _ = server.accept()
        except TimeoutError:
            continue
        with client, socket.create_connection(("127.0.0.1", port)) as upstream:
            for connection in (client, upstream):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def forward(command: bytes, upstream: socket.socket = upstream) -> bytes:
                upstream.sendall(command)
                return receive(upstream)

            while command := receive(client):
                client.sendall(answer(command, forward))
