"""What Ansible itself costs a run over many hosts.

    make bench-fleet
    make bench-fleet HOSTS=100 EACH=30

`playbooks/measure.yml` goes over one host and over many by SSH and with sudo, as over a user's
fleet where the agent is installed already. All the names lead to one sshd on loopback, and where
the agent would measure, a stand-in waits so many seconds and leaves a document of the usual size.
Every host of this fleet shares the control node's processors, so the time is longer than with
machines of their own, which would do their part at once.

Processor time is what the kernel accounts to ansible-playbook, its workers and the SSH clients they
waited for (`getrusage(2)`); the sshd's side is not in it, nor are the masters of SSH connections.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import ssh_host

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "example-result.json"
PLAYBOOK = "playbooks/measure.yml"
HOST_TASK_BAR_MS, EXTRA_BAR_S = 20, 60

STAND_IN = """#!/bin/sh
while [ "$1" != --output ]; do shift; done
sleep {seconds} && cp {document} "$2"
"""


class Pass(NamedTuple):
    """One pass of the playbook.

    Attributes:
        hosts: how many.
        wall_s: seconds from start to end.
        cpu_s: processor seconds on the control node.
        tasks: how many tasks were carried out on hosts, by the recap.
    """

    hosts: int
    wall_s: float
    cpu_s: float
    tasks: int


class Fleet:
    """An inventory of names for one sshd, under ``directory``.

    Args:
        directory: private; everything that a host keeps is under it too.
        count: how many names.
    """

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self.names = [f"host-{number:04}" for number in range(1, count + 1)]
        key = directory / "key"
        self.sshd = ssh_host.SshHost(directory / "sshd", 0, ssh_host.make_key(key))
        known = directory / "known_hosts"
        known.write_text(f"[127.0.0.1]:{self.sshd.port} {self.sshd.host_key}\n")
        here = {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.sshd.port,
            "ansible_ssh_private_key_file": str(key),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={known}",
            # Hosts do not share connections, although these have one address.
            "ansible_control_path": f"{directory}/{{{{ inventory_hostname }}}}.ssh",
            "bench_agent_dir": str(directory / "agent"),
            "bench_run_state_dir": f"{directory}/{{{{ inventory_hostname }}}}",
            "bench_run_results_dir": str(directory / "results"),
            "bench_run_tcti": "swtpm:host=127.0.0.1",
        }
        fleet = {"fleet": {"hosts": dict.fromkeys(self.names), "vars": here}}
        (directory / "hosts.json").write_text(json.dumps(fleet))

    def play(self, hosts: int, **variables: Any) -> Pass:
        """Take the playbook over the first so many hosts.

        Raises:
            SystemExit: it failed.
        """
        (self._directory / "limit").write_text("\n".join(self.names[:hosts]) + "\n")
        log = self._directory / "log"
        begun = time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                [
                    Path(sys.executable).with_name("ansible-playbook"), PLAYBOOK,
                    "--inventory", self._directory / "hosts.json",
                    "--limit", f"@{self._directory / 'limit'}",
                    "--extra-vars", json.dumps(variables),
                ],
                cwd=ROOT,
                env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
            _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        said = log.read_text()
        if status:
            raise SystemExit(f"bench: {PLAYBOOK} failed:\n{said[-3000:]}")
        tasks = sum(int(ok) for ok in re.findall(r"^host-\d+ +: ok=(\d+)", said, re.MULTILINE))
        return Pass(hosts, wall, used.ru_utime + used.ru_stime, tasks)


def main() -> int:
    """Install the agent once, go over one host and over many, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=30, help="how long each host measures")
    arguments = parser.parse_args()
    missing = ssh_host.missing()
    if missing:
        print(f"bench: {missing}; hosts are reached by SSH and with sudo", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fb") as name:
        directory = Path(name)
        stand_in = directory / "stand-in"
        stand_in.write_text(STAND_IN.format(seconds=arguments.seconds, document=EXAMPLE))
        stand_in.chmod(0o755)
        fleet = Fleet(directory, arguments.hosts)
        fleet.sshd.start()
        try:
            print("Installing the agent …", flush=True)
            fleet.play(1, run_id="install", bench_run_executable=str(stand_in))
            passes = [
                fleet.play(count, run_id=f"of-{count}", bench_run_executable=str(stand_in))
                for count in (1, arguments.hosts)
            ]
        finally:
            fleet.sshd.close()
    show(passes, arguments.seconds)
    return 0


def show(passes: list[Pass], seconds: int) -> None:
    """Print the passes and what the bars are about."""
    print(f"\nEach host measures for {seconds} s; {os.cpu_count()} processors for all\n")
    print(f"{'hosts':>6} {'wall, s':>9} {'processor, s':>13} {'host-tasks':>11}")
    for one in passes:
        print(f"{one.hosts:6} {one.wall_s:9.1f} {one.cpu_s:13.1f} {one.tasks:11}")
    first, last = passes
    each = 1e3 * (last.cpu_s - first.cpu_s) / (last.tasks - first.tasks)
    print(f"\ncontrol node, per further host-task: {each:.1f} ms (bar {HOST_TASK_BAR_MS})")
    extra = last.wall_s - first.wall_s
    print(f"{last.hosts} hosts beyond the time of one: {extra:.0f} s (bar {EXTRA_BAR_S})")


if __name__ == "__main__":
    sys.exit(main())
