"""A cloud's inventory, the double of its API, and VMs that are an sshd and a software TPM each.

Everything after the API's answer is real: host keys, SSH, sudo, the agent, the results. This
machine is no Confidential VM, so a host that asks for one is refused, until a test gives it the
evidence of one.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

from tests.support.ssh_host import SshHost, make_key, missing
from tests.support.swtpm import Swtpm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROJECT = Path(__file__).resolve().parents[2]
MARKS = [
    pytest.mark.playbook,
    pytest.mark.swtpm,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(missing() != "", reason=missing()),
    pytest.mark.skipif(shutil.which("tpm2_createek") is None, reason="tpm2-tools is missing"),
]
# Python imports it at its start, by the line in a .pth file.
_EVIDENCE = """
import sys, tempfile
from pathlib import Path
sys.path.append({project!r})
import tpmbench.platform
from tests.support.platform_machines import {machine} as machine

def collect(tpm, **_):
    with tempfile.TemporaryDirectory() as root:
        return machine.evidence(Path(root))

tpmbench.platform.collect = collect
"""


class Done(NamedTuple):
    """How a playbook ended."""

    status: int
    text: str


class CloudFleet(ABC):
    """The double of a cloud's API, and behind it the machines that are its VMs.

    Args:
        root: private; everything of the fleet is below it.

    Attributes:
        provider: the inventory's name.
        hosts: those of the inventory that have a machine.
        results: of every run.
        report: of the last run.
        machines: by host.
        tpms: by host.
        endorsement_keys: by host, PEM; what the API is to say of the VM's TPM.
    """

    provider: ClassVar[str]
    hosts: ClassVar[tuple[str, ...]]
    double: Any

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results, self.report = root / "results", root / "report"
        key = make_key(root / "login")
        self.machines = {host: SshHost(root / "machines" / host, 0, key) for host in self.hosts}
        self.tpms = {host: Swtpm(root / "tpms" / host) for host in self.hosts}
        for tpm in self.tpms.values():
            tpm.start()
        self.endorsement_keys = {
            host: _endorsement_key(tpm, root / f"{host}-ek.pem") for host, tpm in self.tpms.items()
        }
        self.double = self.make_double(self.halt)
        self._inventory = root / "machines.json"
        about = {host: self._about(host) for host in self.hosts}
        self._inventory.write_text(json.dumps({"all": {"hosts": about}}))

    @abstractmethod
    def make_double(self, halt: Callable[[str], None]) -> Any:
        """Start the double; it calls ``halt`` with the name of a VM that is gone."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """What a user of this cloud exports, and what keeps it away from the cloud."""

    @abstractmethod
    def variables(self) -> Mapping[str, Any]:
        """What this cloud's role needs to reach the double."""

    def _about(self, host: str) -> dict[str, Any]:
        """What distinguishes hosts that are one machine in truth."""
        return {
            "ansible_python_interpreter": sys.executable,
            "ansible_port": self.machines[host].port,
            "bench_agent_dir": str(self.root / "hosts" / host / "agent"),
            "bench_run_state_dir": str(self.root / "hosts" / host / "state"),
            "bench_run_tcti": self.tpms[host].tcti,
        }

    def start(self, name: str) -> tuple[str, str]:
        """Let the machine of a VM of this name start; its host, and its SSH host key."""
        host = name.removeprefix("bench-")
        self.machines[host].start()
        return host, self.machines[host].host_key

    def halt(self, name: str) -> None:
        """Take the machine of a VM of this name away."""
        self.machines[name.removeprefix("bench-")].stop()

    def give_evidence(self, host: str, machine: str) -> None:
        """Have the agent that is installed on a host find itself on another machine.

        Args:
            host: its agent must be there already.
            machine: a name in :mod:`tests.support.platform_machines`.
        """
        (packages,) = (self.root / "hosts" / host).glob("agent/venv/lib/python*/site-packages")
        text = _EVIDENCE.format(project=str(PROJECT), machine=machine)
        (packages / "evidence_of_a_test.py").write_text(text)
        (packages / "evidence_of_a_test.pth").write_text("import evidence_of_a_test\n")

    def command(self, playbook: Path | str, *options: str, **variables: Any) -> list[str]:
        """The command line that a user would type, and what keeps it away from the cloud."""
        shared = {
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(self.root / "login"),
            "bench_agent_manage_packages": False,
            "bench_agent_python": sys.executable,
            "bench_agent_source": "wheelhouse",
            "bench_report_dir": str(self.report),
            "bench_run_curves": ["p256"],
            "bench_run_metadata": "never",
            "bench_run_poll": 1,
            "bench_run_results_dir": str(self.results),
            "bench_run_scenarios": ["raw-signing"],
            "bench_run_signatures": 5,
            "bench_run_throttle": 1,
            "confidential_vm_api_ca_file": str(self.double.ca_file),
            "confidential_vm_api_endpoint": self.double.endpoint,
            "confidential_vm_connection_timeout": 120,
            "confidential_vm_known_hosts_dir": str(self.root / "known_hosts"),
            **self.variables(),
        }
        return [
            str(Path(sys.executable).parent / "ansible-playbook"),
            f"--inventory=inventory/{self.provider}",
            f"--inventory={self._inventory}",
            f"--extra-vars={json.dumps(shared | variables)}",
            *options,
            str(playbook if isinstance(playbook, Path) else f"playbooks/{playbook}.yml"),
        ]

    def begin(self, playbook: str, **variables: Any) -> subprocess.Popen[bytes]:
        """Start one of the playbooks, in a session of its own."""
        command = self.command(playbook, **variables)
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, **self._around, **silent, start_new_session=True)

    def play(self, playbook: Path | str, *options: str, **variables: Any) -> Done:
        """Run one of the playbooks, by its name, or another by its path, to its end."""
        command = self.command(playbook, *options, **variables)
        heard = {"capture_output": True, "text": True, "timeout": 900}
        ended = subprocess.run(command, check=False, **self._around, **heard)
        return Done(ended.returncode, " ".join((ended.stdout + ended.stderr).split()))

    @property
    def _around(self) -> dict[str, Any]:
        """Where a playbook runs."""
        config = {"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}
        environment = {**os.environ, **config, **self.environment()}
        return {"cwd": PROJECT, "env": environment, "stdin": subprocess.DEVNULL}

    def failures(self, run: str) -> dict[str, dict[str, str]]:
        """Why hosts of a run were not measured."""
        listed = json.loads((self.results / run / "failures.json").read_text())
        return {failure["host"]: failure for failure in listed}

    def measured(self, run: str) -> set[str]:
        """The hosts whose measurement is finished."""
        return {file.name.split(".")[0] for file in (self.results / run).glob("*.done.json")}

    def document(self, run: str, host: str) -> dict[str, Any]:
        """A host's result document."""
        read: dict[str, Any] = json.loads((self.results / run / f"{host}.json").read_text())
        return read

    def reports(self) -> list[str]:
        """The last report, in every layout that shows hosts to people."""
        return [(self.report / name).read_text() for name in ("report.txt", "index.html")]

    def known_hosts(self) -> dict[str, str]:
        """The host keys that are written down, by VM."""
        there = (self.root / "known_hosts").glob("*")
        return {file.name: file.read_text() for file in there}

    def is_halted(self) -> bool:
        """Whether no machine runs and no host key is written down."""
        running = any(machine.running for machine in self.machines.values())
        return not running and self.known_hosts() == {}

    def close(self) -> None:
        """Take everything away again."""
        for machine in self.machines.values():
            machine.close()
        for tpm in self.tpms.values():
            tpm.stop()
        self.double.close()


def _endorsement_key(tpm: Swtpm, file: Path) -> str:
    """Ask tpm2-tools, which shares no code with the role, for the TPM's RSA endorsement key."""
    command = ["tpm2_createek", "-T", tpm.tcti, "-G", "rsa", "-f", "pem", "-u", str(file)]
    subprocess.run([*command, "-c", str(file.with_suffix(".ctx"))], check=True, capture_output=True)
    subprocess.run(["tpm2_flushcontext", "-T", tpm.tcti, "-t"], check=True, capture_output=True)
    return file.read_text()
