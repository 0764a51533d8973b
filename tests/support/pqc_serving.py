"""Serves the TPM in :mod:`tests.support.pqc_tpm` over swtpm's socket protocol."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.pqc_tpm import PqcTpm


@contextlib.contextmanager
def serving(tpm: PqcTpm, spoil: Callable[[bytes, bytes], bytes] | None = None) -> Iterator[str]:
    """Serve a TPM on loopback for the time of the block, and yield the way to it.

    Args:
        tpm: the TPM.
        spoil: is given command and response, and returns what is sent instead.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError, OSError):
                    client, _ = server.accept()
                    with client:
                        while command := _receive(client):
                            response = tpm.answer(command)
                            client.sendall(spoil(command, response) if spoil else response)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"swtpm:host=127.0.0.1,port={server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def _receive(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 10 or len(data) < int.from_bytes(data[2:6]):
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    return data
