"""The real playbooks and inventory/azure against the double of Resource Manager.

Its VMs are sshd processes on this machine, each with a host key of its own: everything after
the API's answer is real. One fleet is taken through its life: refused, made, found, removed.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.playbook.test_local_fleet import flat
from tests.support.azure_double import AzureDouble, Vm
from tests.support.azure_double.server import SIGNATURE, TOKEN
from tests.support.ssh_host import SshHost, make_key, missing

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[2]
HOSTS = ("snp", "snp-control", "tdx", "tdx-control")
MADE = ("snp-control", "tdx")  # the others are asked for at the end: two are quicker
CONSOLE = "-----BEGIN SSH HOST KEY KEYS-----\r\n{} x\r\n-----END SSH HOST KEY KEYS-----\r\n"
FIND = """
- hosts: fleet
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: confidential_vm
        tasks_from: find
    - ansible.builtin.ping:
"""
pytestmark = [
    pytest.mark.playbook,
    pytest.mark.timeout(900),
    pytest.mark.skipif(missing() != "", reason=missing()),
]


class Done(NamedTuple):
    """How a playbook ended."""

    status: int
    text: str


class Cloud:
    """The double, and behind it the machines that are its VMs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        key = make_key(root / "login")
        self.machines = {
            host: SshHost(root / "machines" / host, free_port(), key) for host in HOSTS
        }
        self.double = AzureDouble(root, self.boot, self.halt)
        self.double.store.address = "127.0.0.1"
        ports = {
            host: {
                "ansible_port": self.machines[host].port,
                "ansible_python_interpreter": sys.executable,
            }
            for host in HOSTS
        }
        self.inventory = root / "machines.json"
        self.inventory.write_text(json.dumps({"all": {"hosts": ports}}))
        (root / "find.yml").write_text(FIND)

    def boot(self, vm: dict[str, Any]) -> Vm:
        """Let the machine of a VM start."""
        machine = self.machines[vm["name"].removeprefix("bench-")]
        machine.start()
        return Vm(console=CONSOLE.format(machine.host_key))

    def halt(self, name: str) -> None:
        """Take the machine of a VM away."""
        self.machines[name.removeprefix("bench-")].stop()

    def play(self, playbook: Path | str, *options: str, **variables: Any) -> Done:
        """Run a playbook as a user would, but away from Azure."""
        shared = {
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(self.root / "login"),
            # Of the account on this machine; the one on the VM may not be called root.
            "confidential_vm_user": "bench",
            "confidential_vm_api_ca_file": str(self.double.ca_file),
            "confidential_vm_api_endpoint": self.double.endpoint,
            "confidential_vm_azure_access_token": TOKEN,
            "confidential_vm_azure_auth_kind": "access_token",
            "confidential_vm_connection_timeout": 120,
            "confidential_vm_known_hosts_dir": str(self.root / "known_hosts"),
        }
        environment = os.environ | {
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "AZURE_SUBSCRIPTION_ID": self.double.store.subscription,
            "AZURE_DEFAULTS_GROUP": self.double.store.group,
            "AZURE_DEFAULTS_LOCATION": "westeurope",
            "BENCH_SSH_FROM": "192.0.2.7/32",
        }
        command = [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "--inventory=inventory/azure",
            f"--inventory={self.inventory}",
            f"--extra-vars={json.dumps(shared | variables)}",
            *options,
            str(playbook),
        ]
        ended = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        return Done(ended.returncode, flat(ended.stdout + ended.stderr))

    def close(self) -> None:
        """Take everything away again."""
        for machine in self.machines.values():
            machine.stop()
        self.double.close()


def free_port() -> int:
    """A port that the kernel gives to nobody else for a while."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    one = Cloud(tmp_path)
    yield one
    one.close()


def test_a_fleet_is_refused_made_found_and_removed(cloud: Cloud) -> None:
    some = f"--limit={','.join(MADE)}"
    refused = cloud.play(
        "playbooks/provision.yml", some, run_id="r", confidential_vm_max_run_duration=60
    )
    assert refused.status != 0
    assert "max_run_duration must be 1800 s to 82800 s" in refused.text
    assert cloud.double.requests == []

    made = cloud.play("playbooks/provision.yml", some, run_id="Run.1")
    assert made.status == 0, made.text
    assert "2 VM(s), at most 4.0 VM-hours" in made.text
    assert "when Azure deallocates it; disks and addresses cost on" in made.text
    names = cloud.double.store.names()
    for host in MADE:
        assert f"virtualMachines bench-{host}" in names
        assert f"schedules shutdown-computevm-bench-{host}" in names
        known = (cloud.root / "known_hosts" / f"bench-{host}").read_text()
        assert known == f"bench-{host} {cloud.machines[host].host_key}\n"
    asked = {
        line.rpartition("/")[2]: body["properties"]["securityProfile"]["securityType"]
        for line, body in cloud.double.bodies
        if "/virtualMachines/" in line
    }
    assert asked == {
        "bench-snp-control": "TrustedLaunch",
        "bench-tdx": "ConfidentialVM",
    }
    assert {resource["tags"]["tpm-fleet-bench-run"] for resource in cloud.double.store.held.values()
            } == {"run-1"}  # fmt: skip
    network = "networkSecurityGroups tpm-fleet-bench-bench-westeurope"
    assert network in names

    changes = cloud.double.count("^(PUT|PATCH|DELETE) ")
    found = cloud.play(cloud.root / "find.yml", "--limit=tdx", run_id="Run.1")
    assert (found.status, "tdx : ok=" in found.text) == (0, True), found.text
    assert cloud.double.count("^(PUT|PATCH|DELETE) ") == changes

    removed = cloud.play("playbooks/teardown.yml")
    assert removed.status == 0, removed.text
    assert "Nothing is left of the fleet bench in bench-group: no VM, no disk" in removed.text
    assert cloud.double.store.names() == set()
    assert not any(machine.running for machine in cloud.machines.values())
    assert list((cloud.root / "known_hosts").iterdir()) == []
    swept = cloud.play("playbooks/sweep.yml", "--limit=tdx", sweep_min_age=0)
    assert "0 found and removed" in swept.text

    for done in (made, found, removed):
        for secret in (TOKEN, SIGNATURE, "sig="):
            assert secret not in done.text.replace("config", "")
