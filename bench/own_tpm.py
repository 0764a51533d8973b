"""A software TPM of a benchmark's own."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def software_tpm(directory: Path) -> Iterator[str]:
    """Run an swtpm with its state under ``directory`` and yield its TCTI."""
    state = directory / "tpm"
    state.mkdir()
    port = free_port()
    process = subprocess.Popen(
        [
            "swtpm", "socket", "--tpm2", "--tpmstate", f"dir={state}",
            "--server", f"type=tcp,port={port},bindaddr=127.0.0.1",
            "--ctrl", f"type=unixio,path={directory / 'ctrl'}",
            "--flags", "not-need-init,startup-clear",
        ]
    )  # fmt: skip
    try:
        wait_for(port)
        yield f"swtpm:host=127.0.0.1,port={port}"
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until somebody listens on a port."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"bench: no swtpm answers on port {port}")
