"""Hosts that can be reached by SSH without a machine of their own: an sshd each, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support import guard

_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
_START_SECONDS = 60.0


def missing() -> str:
    """What this machine lacks for it; empty where there is nothing."""
    if _SSHD is None:
        # Its package starts a daemon that listens on every address, so no check installs it.
        return "openssh-server is not installed"
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode:
        return "sudo asks for a password"
    return ""


def make_key(file: Path) -> str:
    """Make an SSH key without a passphrase; return its public half as ``type base64``."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
    subprocess.run(command, check=True)
    return " ".join(file.with_suffix(".pub").read_text().split()[:2])


class SshHost:
    """One sshd for this user, with a host key and a home directory of its own.

    Its sessions read none of the user's start-up files. Some of these take locks in the user's
    home, and the end of a host ends its sessions wherever they are.

    Args:
        directory: private; for its key, its configuration and its home directory.
        port: on 127.0.0.1; 0 for a free one.
        authorized: public key that may log in.

    Attributes:
        port: where it listens; kept free for it until it is closed, also while it does not run.
    """

    def __init__(self, directory: Path, port: int, authorized: str) -> None:
        directory.mkdir(parents=True)
        self.home = directory / "home"
        self.home.mkdir()
        self._place = socket.socket()
        if port:
            self._share()
        self._place.bind(("127.0.0.1", port))
        self._share()
        self.port = port = int(self._place.getsockname()[1])
        self.host_key = make_key(directory / "host_key")
        (directory / "authorized_keys").write_text(authorized + "\n")
        self._config = directory / "sshd_config"
        self._config.write_text(
            f"""Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host_key
PidFile none
AuthorizedKeysFile {directory}/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""
        )
        self._log = directory / "sshd.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it takes connections."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        if os.getuid() == 0:  # where sshd separates its privileges; its package makes it at boot
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        assert _SSHD is not None
        # It writes over its own environment, and gives its sessions another.
        mark = ("-o", f"SetEnv=HOME={self.home} {guard.watch()}")
        command = [_SSHD, "-D", "-f", str(self._config), "-E", str(self._log), *mark]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise RuntimeError(f"sshd did not start: {self._log.read_text()}")

    def _share(self) -> None:
        """Let others that say so too, as sshd does, have the port that is bound here."""
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._place.close()

    def stop(self) -> None:
        """End it and every session in it, as when a machine is taken away."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # no new session meanwhile
        for child in _descendants(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None


def _descendants(parent: int) -> list[int]:
    children = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = process.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                children.append(int(process.parent.name))
    return [*children, *(grandchild for child in children for grandchild in _descendants(child))]
