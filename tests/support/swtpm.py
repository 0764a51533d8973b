"""Software TPMs for tests: each its own process, state directory and ports.

Nothing of the project's own code is used here, so that a test which asks what is in the
TPM gets the answer of another program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support import guard

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_SECONDS = 60.0
_ACCEPTS = 0x10000  # __SO_ACCEPTCON among the flags of /proc/net/unix
_ATTEMPTS = 5  # another process may take a port between its choice and its use

available = shutil.which("swtpm") is not None


class Handles(NamedTuple):
    """The objects in a TPM, as (handle, Name in hexadecimal) pairs."""

    persistent: frozenset[tuple[int, str]]
    transient: frozenset[tuple[int, str]]


class Swtpm:
    """One swtpm.

    Args:
        directory: private; holds its state, log and, where asked for, socket.
        started: it has seen TPM2_Startup.
        socket_path: listen on this UNIX socket rather than on loopback.
        log_level: of its log file; 20 shows every command.
    """

    def __init__(
        self,
        directory: Path,
        *,
        started: bool = True,
        socket_path: Path | None = None,
        log_level: int = 1,
    ) -> None:
        self._state = directory / "state"
        self._state.mkdir(parents=True, exist_ok=True)
        self._log = directory / "swtpm.log"
        self._started = started
        self._socket_path = socket_path
        self._log_level = log_level
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def tcti(self) -> str:
        """The way to it, for ``--tcti`` and for the TSS."""
        if self._socket_path:
            return f"swtpm:path={self._socket_path}"
        return f"swtpm:host=127.0.0.1,port={self.port}"

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None, "swtpm is not running"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it listens."""
        guard.watch()
        for _ in range(_ATTEMPTS):
            self.port = _free_pair()
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL)
            if self._listens():
                return
            self.stop()
        raise RuntimeError(f"swtpm did not start: {self.log}")

    def _command(self) -> list[str]:
        if self._socket_path:
            ways = [
                "--server", f"type=unixio,path={self._socket_path}",
                "--ctrl", f"type=unixio,path={self._socket_path}.ctrl",
            ]  # fmt: skip
        else:
            ways = [
                "--server", f"type=tcp,port={self.port}",
                "--ctrl", f"type=tcp,port={self.port + 1}",
            ]  # fmt: skip
        flags = "not-need-init" + (",startup-clear" if self._started else "")
        return [
            "swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self._state}", *ways,
            "--flags", flags, "--log", f"file={self._log},level={self._log_level},truncate",
        ]  # fmt: skip

    def _listens(self) -> bool:
        """Wait until it takes connections, without making one: it serves one client at a time."""
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._process is None or self._process.poll() is not None:
                return False
            if _path_listens(self._socket_path) if self._socket_path else _port_listens(self.port):
                return True
            time.sleep(0.005)
        return False

    def stop(self) -> None:
        """End it, also where it is stopped or hangs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Take its power away and give it back: transient objects go, persistent ones stay."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep it from answering for the time of the block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def freeze(self) -> None:
        """Keep it from answering."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again."""
        os.kill(self.pid, signal.SIGCONT)

    def handles(self) -> Handles:
        """Read what objects are in it, through tpm2-pytss."""
        from tests.support import tpm

        with tpm.esapi(self.tcti) as esys:
            return tpm.handles(esys)


@contextlib.contextmanager
def running(directory: Path, **options: Any) -> Iterator[Swtpm]:
    """Run a software TPM (arguments of :class:`Swtpm`) for the time of the block."""
    software = Swtpm(directory, **options)
    try:
        software.start()
        yield software
    finally:
        software.stop()


def _free_pair() -> int:
    """Find a port that is free together with the next, which swtpm's control channel takes.

    From below the range that the kernel gives to outgoing connections, so that none of those
    takes it meanwhile.
    """
    first = 10000 + (os.getpid() * 7919 + time.monotonic_ns() // 1000) % 20000
    for offset in range(0, 20000, 2):
        port = 10000 + (first - 10000 + offset) % 20000
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for number in (port, port + 1):
                holder = stack.enter_context(socket.socket())
                holder.bind(("127.0.0.1", number))
            return port
    raise RuntimeError("no two neighbouring ports are free on loopback")


def _port_listens(port: int) -> bool:
    wanted = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(wanted) and fields[3] == "0A":
            return True
    return False


def _path_listens(path: Path) -> bool:
    """Tell whether a UNIX socket takes connections; it is there, with another mode, before."""
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if fields[-1] == str(path) and int(fields[3], 16) & _ACCEPTS:
            return True
    return False
