"""The simulator protocol (mssim) in front of a software TPM, for the TSS's TCTI of that name.

Two neighbouring ports on loopback: commands on the first, the platform's signals on the second
(TPM 2.0 reference implementation, TcpTpmProtocol.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import threading
from typing import TYPE_CHECKING

from tests.support.relay import receive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SEND_COMMAND, _SESSION_END = 8, 20
_ATTEMPTS = 20


def available() -> bool:
    """Tell whether the TSS's TCTI is installed."""
    try:
        ctypes.CDLL("libtss2-tcti-mssim.so.0")
    except OSError:
        return False
    return True


class Simulator:
    """Serves one client after the other.

    Args:
        port: the software TPM's, on loopback.
        seen: is shown each command before it goes on; what it raises ends the connection.
    """

    def __init__(self, port: int, seen: Callable[[bytes], None]) -> None:
        self._port = port
        self._seen = seen
        self._servers = _two_neighbours()

        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, args=(server, serve), daemon=True)
            for server, serve in zip(self._servers, (self._commands, self._platform), strict=True)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def tcti(self) -> str:
        """The way to it."""
        return f"mssim:host=127.0.0.1,port={self._servers[0].getsockname()[1]}"

    def vanish(self) -> None:
        """Be gone: nobody listens any more, and open connections end."""
        self._stop.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        for server in self._servers:
            server.close()

    def _serve(self, server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        server.settimeout(0.05)
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError, OSError):
                client, _ = server.accept()
                with client:
                    client.settimeout(0.05)
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    serve(client)

    def _platform(self, client: socket.socket) -> None:
        while self._exactly(client, 4):
            client.sendall(bytes(4))

    def _commands(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as upstream:
            while head := self._exactly(client, 4):
                if int.from_bytes(head) != _SEND_COMMAND:
                    if int.from_bytes(head) == _SESSION_END:
                        return
                    client.sendall(bytes(4))
                    continue
                command = self._exactly(client, int.from_bytes(self._exactly(client, 5)[1:]))
                if not command:
                    return
                self._seen(command)
                upstream.sendall(command)
                answer = receive(upstream)
                client.sendall(struct.pack(">I", len(answer)) + answer + bytes(4))

    def _exactly(self, client: socket.socket, size: int) -> bytes:
        """Receive so many bytes; empty where the other side is gone, or we are."""
        data = b""
        while len(data) < size and not self._stop.is_set():
            # The TCTI writes a command in pieces, each of which waits for this.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            try:
                piece = client.recv(size - len(data))
            except TimeoutError:
                continue
            if not piece:
                return b""
            data += piece
        return data if len(data) == size else b""


class GoneError(OSError):
    """Raised by what is shown the commands, to end the connection."""


def _two_neighbours() -> tuple[socket.socket, socket.socket]:
    for _ in range(_ATTEMPTS):
        first = socket.create_server(("127.0.0.1", 0))
        try:
            return first, socket.create_server(("127.0.0.1", first.getsockname()[1] + 1))
        except (OSError, OverflowError):
            first.close()
    raise RuntimeError("no two neighbouring ports are free on loopback")


@contextlib.contextmanager
def simulator(port: int, seen: Callable[[bytes], None] = lambda _: None) -> Iterator[Simulator]:
    """Serve a software TPM by the simulator protocol for the time of the block."""
    made = Simulator(port, seen)
    try:
        yield made
    finally:
        made.vanish()
