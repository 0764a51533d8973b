"""A virtual machine with a TPM for tests: its own directory and port, and no user's machine.

Started and stopped by the project's own modules (roles/vm_host/library), which share the cache
of images with a user's machines.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.support import guard, playing

if TYPE_CHECKING:
    from collections.abc import Sequence

TREE = Path(__file__).resolve().parents[2]
ROLE = TREE / "roles" / "vm_host"
GUEST = TREE / "tests" / "vm" / "guest"
SUPPORT = TREE / "tests" / "support"
AGENT = "/opt/agent"
"""Where the agent's source is put in the guest."""

_PROGRAMS = ("qemu-system-x86_64", "mmdebstrap", "mksquashfs", "swtpm", "ssh")
_BOOT_SECONDS = 400  # a boot takes 5 s on a quiet machine and was seen to take 30 on a busy one
_CLOSING_SECONDS = 60
_GUEST_SECONDS = 400  # for one command in there; the longest takes 40 s on a quiet machine


def missing() -> list[str]:
    """Name the programs that are not here and without which no machine can be built and run."""
    return [program for program in _PROGRAMS if shutil.which(program) is None]


def cache() -> Path:
    """Return the directory of images, which is the users' too."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tpm-fleet-bench/vm"


def image() -> Path:
    """Build the image, or find it."""
    packages = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["_vm_host_packages"]
    said = module("vm_image", cache=str(cache()), files=str(ROLE / "files"), packages=packages)
    return Path(said["directory"])


def module(name: str, /, **arguments: Any) -> dict[str, Any]:
    """Run a module of the role by itself, as Ansible would."""
    guard.watch()
    done = subprocess.run(
        [sys.executable, str(ROLE / "library" / f"{name}.py")],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
    )
    said: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"msg": done.stderr}
    if done.returncode:
        raise AssertionError(f"{name}: {said['msg']}")
    return said


def free_port() -> int:
    """Find a port on loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def processes(directory: Path) -> list[int]:
    """Find the processes that name a machine's directory."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.fsencode(directory) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


def command_line(pid: int) -> list[str]:
    """Return a process's command line; of one that is gone, an empty word."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return [""]


class Machine:
    """One virtual machine.

    Args:
        directory: private, with a short path; holds its TPM state and logs. Its last part is the
            machine's name.
        swtpm: the software TPM program, by name or path.
    """

    def __init__(self, directory: Path, swtpm: str = "swtpm") -> None:
        self.directory = directory
        self.name = directory.name
        self.log = directory / "swtpm.log"
        self._swtpm = swtpm
        self._image = image()
        self._port = free_port()

    def _have(self, state: str) -> list[int]:
        said = module(
            "vm_machine",
            state=state,
            name=self.name,
            directory=str(self.directory),
            image=str(self._image),
            port=self._port,
            swtpm=self._swtpm,
            wait=_BOOT_SECONDS,
        )
        pids: list[int] = said["pids"]
        return pids

    def play(self, playbook: Path, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run a playbook on it as the host of the inventory vm that has its name."""
        guard.watch()
        place = {
            "vm_fleet_dir": str(self.directory.parent),
            "vm_first_port": self._port,
            "vm_host_wait": _BOOT_SECONDS,
        }
        return playing.play(
            "--inventory=inventory/vm", "--limit", self.name,
            "--extra-vars", json.dumps(place | variables), playbook,
        )  # fmt: skip

    def start(self) -> None:
        """Boot it, with the TPM state of the last time, and put the agent there."""
        self._have("started")
        self._copy_in((TREE / "agent" / "src", "."), (GUEST, "."), (SUPPORT, "tests/support"))

    def stop(self) -> None:
        """Take its power away."""
        self.close_connections()
        assert self._have("stopped") == []

    def remove(self) -> None:
        """Take it away altogether."""
        self.close_connections()
        self._have("absent")

    def processes(self) -> list[int]:
        """Find the processes that name its directory."""
        return processes(self.directory)

    def programs(self) -> list[str]:
        """Name the programs of these processes, in order."""
        return sorted(Path(command_line(pid)[0]).name for pid in self.processes())

    def kill_tpm(self) -> None:
        """End the software TPM while the machine runs."""
        for pid in self.processes():
            if "--tpmstate" in command_line(pid):
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError("the machine has no software TPM")

    def _ssh(self, user: str) -> list[str]:
        return [
            "ssh", "-F", str(self.directory / "ssh_config"), "-l", user,
            "-o", "LogLevel=ERROR", "-o", "ServerAliveInterval=15",
            "-o", "ControlMaster=auto", "-o", "ControlPersist=yes",
            "-o", f"ControlPath={self.directory}/{user}.ssh", self.name,
        ]  # fmt: skip

    def close_connections(self) -> None:
        """End what keeps the way into the guest open between commands."""
        for user in ("bench", "outsider"):
            if (self.directory / f"{user}.ssh").exists():
                subprocess.run(
                    [*self._ssh(user)[:-1], "-O", "exit", self.name],
                    capture_output=True,
                    check=False,
                )
        # The answer to that is given before the process that keeps it open has ended.
        until = time.monotonic() + _CLOSING_SECONDS
        while left := [pid for pid in self.processes() if command_line(pid)[0].startswith("ssh")]:
            if time.monotonic() > until:
                raise AssertionError([command_line(pid) for pid in left])
            time.sleep(0.02)

    def begin(self, command: str, user: str = "bench") -> subprocess.Popen[str]:
        """Start a command in the guest."""
        return subprocess.Popen(
            [*self._ssh(user), command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, command: str, user: str = "bench", timeout: float = _GUEST_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the guest to its end."""
        process = self.begin(command, user)
        try:
            out, error = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def ssh(self, command: str, user: str = "bench") -> str:
        """Run a command in the guest that must succeed; return what it printed."""
        done = self.run(command, user)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def _copy_in(self, *directories: tuple[Path, str]) -> None:
        """Copy directories' contents into the guest, below the agent's place; all at once."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for directory, place in directories:
                archive.add(directory, place, filter=_without_caches)
        unpack = f"sudo install -d -o bench {AGENT} && tar -C {AGENT} -xf -"
        subprocess.run([*self._ssh("bench"), unpack], input=packed.getvalue(), check=True)

    def agent(self, *arguments: str, user: str = "bench") -> subprocess.CompletedProcess[str]:
        """Run the agent in the guest, with Debian's Python."""
        return self.run(self.agent_command(arguments), user)

    @staticmethod
    def agent_command(arguments: Sequence[str]) -> str:
        """Return the agent's command line in the guest."""
        return f"PYTHONPATH={AGENT} python3 -m tpmbench.cli {' '.join(arguments)}"

    def script(self, name: str, *arguments: str, sudo: bool = False) -> Any:
        """Run one of tests/vm/guest in the guest and return the JSON that it prints."""
        prefix = "sudo " if sudo else ""
        line = f"{prefix}env PYTHONPATH={AGENT} python3 {AGENT}/{name}.py {' '.join(arguments)}"
        return json.loads(self.ssh(line))

    def handles(self) -> dict[str, list[str]]:
        """Return the TPM's handles, by kind, as the TSS sees them over the bare device."""
        found: dict[str, list[str]] = self.script("handles", "device:/dev/tpm0", sudo=True)
        return found
