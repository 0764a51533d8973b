#!/usr/bin/python
"""Ansible module: a QEMU machine with a software TPM, reached over SSH on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: vm_machine
short_description: Start or stop a virtual machine with a TPM
description:
  - Runs QEMU without hardware acceleration, and swtpm behind the machine's TPM interface.
    The machine's network is QEMU's own; one port on 127.0.0.1 leads to its sshd, nothing leads out.
  - A process is only taken for this machine's, and only ever stopped, if its command line names
    this directory.
options:
  state:
    description: C(stopped) keeps the TPM's state and the logs, C(absent) removes the directory.
    type: str
    choices: [started, stopped, absent]
    default: started
  name:
    description: The guest's name.
    type: str
    required: true
  directory:
    description: Absolute path of the machine's files; short, since UNIX sockets are in it.
    type: path
    required: true
  image:
    description: Directory that the module vm_image made; needed to start.
    type: path
  port:
    description: TCP port on 127.0.0.1 that leads to the guest's sshd.
    type: int
    required: true
  memory:
    description: Megabytes of memory.
    type: int
    default: 256
  swtpm:
    description: The swtpm program, by name or path.
    type: str
    default: swtpm
  wait:
    description: Seconds to wait for the guest's sshd.
    type: int
    default: 180
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Start a machine
  vm_machine:
    name: vm-a
    directory: /home/user/vm-a
    image: /home/user/.cache/tpm-fleet-bench/vm/0123456789abcdef
    port: 23410
"""

RETURN = r"""
pids:
  description: The processes that make up the machine.
  type: list
  elements: int
  returned: always
"""

LOOPBACK = "127.0.0.1"
PROC = Path("/proc")
LONGEST_SOCKET = 107  # bytes in sockaddr_un, without its end
EMULATOR = "qemu-system-x86_64"
COUNTER = "10.0.2.100:7"
# An emulated processor leaks nothing through speculation; guarding against that only costs time.
KERNEL = (
    "console=ttyS0 quiet panic=-1 net.ifnames=0 random.trust_cpu=on "
    "mitigations=off nokaslr tsc=reliable"
)
SSH_CONFIG = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  User bench
  IdentityFile "{key}"
  IdentitiesOnly yes
  UserKnownHostsFile "{known}"
  StrictHostKeyChecking yes
"""


class Machine:
    """One machine's directory, command lines and processes."""

    def __init__(self, module: AnsibleModule) -> None:
        given = module.params
        self.module = module
        self.name: str = given["name"]
        self.directory = Path(given["directory"])
        self.port: int = given["port"]
        self.tpm = self.directory / "tpm"
        self.socket = self.directory / "tpm.sock"
        self.log = self.directory / "swtpm.log"
        self.console = self.directory / "console.log"

    def swtpm(self) -> list[str]:
        """The software TPM's command line; its log, at this level, shows every command."""
        return [
            self.module.params["swtpm"],
            "socket",
            "--tpm2",
            "--terminate",  # when QEMU is gone
            *("--tpmstate", f"dir={self.tpm}"),
            *("--ctrl", f"type=unixio,path={self.socket},mode=0600"),
            *("--log", f"file={self.log},level=20,truncate"),
            "--daemon",
        ]

    def qemu(self) -> list[str]:
        """The machine's command line."""
        image = self.module.params["image"]
        kernel = f"{KERNEL} guest.name={self.name}"
        # Where the guest may ask how many commands the TPM has been given; all else is shut.
        counter = f"guestfwd=tcp:{COUNTER}-cmd:grep -c SWTPM_IO_Read {self.log}"
        return [
            EMULATOR,
            *("-name", self.name),
            # The plainest x86-64: emulated vector instructions are slower than doing without.
            *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "qemu64,+rdrand"),
            *("-smp", "1", "-m", str(self.module.params["memory"])),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-serial", f"file:{self.console}"),
            *("-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initrd", "-append", kernel),
            *("-drive", f"id=root,if=none,format=raw,readonly=on,file={image}/root.squashfs"),
            *("-device", "virtio-blk-pci,drive=root"),
            *(
                "-netdev",
                f"user,id=net,restrict=on,{counter},hostfwd=tcp:{LOOPBACK}:{self.port}-:22",
            ),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
            *("-chardev", f"socket,id=tpm,path={self.socket}"),
            *("-tpmdev", "emulator,id=tpm,chardev=tpm", "-device", "tpm-tis,tpmdev=tpm"),
            *("-pidfile", str(self.directory / "qemu.pid"), "-daemonize"),
        ]

    def find(self) -> dict[int, list[str]]:
        """Command lines of the processes that are this machine, by process id."""
        marks = {f"dir={self.tpm}", str(self.directory / "qemu.pid")}
        found = {}
        for entry in PROC.iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:  # gone meanwhile, or another user's
                continue
            if marks.intersection(words):
                found[int(entry.name)] = words[:-1]
        return found

    def runs(self) -> bool:
        """Whether both parts run, and QEMU as it is wanted."""
        lines = list(self.find().values())
        return len(lines) == 2 and any(words[1:] == self.qemu()[1:] for words in lines)

    def stop(self) -> None:
        """End every process of the machine and wait until it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.find():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
                except PermissionError:
                    self.module.fail_json(
                        msg=f"The machine in {self.directory} (process {pid}) belongs to another "
                        "user; stop it as that user."
                    )
            if wait_until(lambda: not self.find(), 10):
                return
        self.module.fail_json(
            msg=f"Processes {sorted(self.find())} of {self.directory} do not end."
        )

    def start(self) -> None:
        """Start the software TPM and QEMU, and wait until the guest's sshd answers."""
        self.check()
        for directory in (self.directory, self.tpm):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.introduce()
        for left in (self.console, self.socket):  # of the last time
            left.unlink(missing_ok=True)
        self.call(self.swtpm(), "swtpm")
        if not wait_until(self.socket.exists, 10):
            self.fail("swtpm does not listen")
        self.call(self.qemu(), "QEMU")
        begun = time.monotonic()
        # QEMU holds a connection that comes before there is a network, so none is tried too early.
        while not (self.says(b"sshd listens") and greets(self.port)):
            if not any("-daemonize" in words for words in self.find().values()):
                self.fail("it ended while it was starting")
            if time.monotonic() - begun > self.module.params["wait"]:
                self.fail(f"its sshd did not answer within {self.module.params['wait']} s")
            time.sleep(0.2)

    def says(self, words: bytes) -> bool:
        """Whether the guest has written this to its console."""
        return self.console.exists() and words in self.console.read_bytes()

    def introduce(self) -> None:
        """Write down how ssh reaches the guest, and the host key that was made with its image."""
        image = Path(self.module.params["image"])
        algorithm, key = (image / "ssh_host_ed25519_key.pub").read_text().split()[:2]
        known = self.directory / "known_hosts"
        known.write_text(f"[{LOOPBACK}]:{self.port} {algorithm} {key}\n")
        (self.directory / "ssh_config").write_text(
            SSH_CONFIG.format(name=self.name, port=self.port, known=known, key=image / "id_ed25519")
        )

    def check(self) -> None:
        """Refuse where the machine cannot start."""
        programs = {EMULATOR: "qemu-system-x86", self.module.params["swtpm"]: "swtpm"}
        for program, package in programs.items():
            if shutil.which(program) is None:
                self.module.fail_json(
                    msg=f"{program} is not installed here; the virtual machine needs it "
                    f"(Debian, Ubuntu: apt-get install {package})."
                )
        if len(os.fsencode(self.socket)) > LONGEST_SOCKET:
            self.module.fail_json(
                msg=f"{self.socket} is too long for a UNIX socket; choose a shorter vm_host_dir."
            )
        if taken(self.port):
            self.module.fail_json(
                msg=f"Port {self.port} on {LOOPBACK} is in use by another program; "
                "choose another vm_host_port, in inventory/vm by another vm_first_port."
            )

    def call(self, command: list[str], what: str) -> None:
        """Run a command that goes into the background by itself."""
        # Not the module's pipes: a daemon that keeps them open would keep Ansible waiting.
        with (self.directory / "start.log").open("w+") as log:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
            if done.returncode:
                log.seek(0)
                self.fail(f"{what} says: {log.read().strip() or 'nothing'}")

    def fail(self, reason: str) -> None:
        """Stop what has been started, and say what the console showed last."""
        self.stop()
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        last = [line.strip() for line in text.splitlines() if line.strip()][-5:]
        shown = f" The last lines of its console: {' / '.join(last)}" if last else ""
        self.module.fail_json(msg=f"The machine {self.name} did not start: {reason}.{shown}")


def greets(port: int) -> bool:
    """Whether an sshd is behind the port; QEMU itself takes connections from the beginning."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def taken(port: int) -> bool:
    """Whether something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def wait_until(condition, seconds: int) -> bool:
    """Ask every 50 ms until the condition holds or the time is over."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["started", "stopped", "absent"],
                "default": "started",
            },
            "name": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "image": {"type": "path"},
            "port": {"type": "int", "required": True},
            "memory": {"type": "int", "default": 256},
            "swtpm": {"type": "str", "default": "swtpm"},
            "wait": {"type": "int", "default": 180},
        },
        required_if=[("state", "started", ["image"])],
        supports_check_mode=True,
    )
    machine = Machine(module)
    state, running = module.params["state"], machine.find()
    changed = {
        "started": lambda: not machine.runs(),
        "stopped": lambda: bool(running),
        "absent": lambda: bool(running) or machine.directory.exists(),
    }[state]()
    if changed and not module.check_mode:
        machine.stop()
        if state == "started":
            machine.start()
        if state == "absent":
            shutil.rmtree(machine.directory, ignore_errors=True)
    module.exit_json(changed=changed, pids=sorted(machine.find()))


if __name__ == "__main__":
    main()
