"""The real playbooks and inventory/aws against the double of the EC2 API.

Its VMs are sshd processes on this machine, each with a host key of its own. What comes after the
connection (agent, proof, results) is the same in every cloud and shown by test_gcp_fleet.
"""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.playbook.test_local_fleet import flat, free_ports
from tests.support.ec2_double import Ec2Double, Vm
from tests.support.ec2_double.store import IMAGE, Store
from tests.support.ssh_host import SshHost, make_key, missing

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[2]
HOSTS = ("snp", "snp-control")
ROLE = "arn:aws:iam::123456789012:role/terminator"
BLOCK = "-----BEGIN SSH HOST KEY KEYS-----\n{}\n-----END SSH HOST KEY KEYS-----\n"
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
        self.known: dict[str, str] = {}  # host keys that were written down, by host
        key = make_key(root / "login")
        first = free_ports(len(HOSTS))
        self.machines = {
            host: SshHost(root / "machines" / host, first + place, key)
            for place, host in enumerate(HOSTS)
        }
        self.double = Ec2Double(root, self.boot, lambda name: self.machines[host_of(name)].stop())
        self.inventory = root / "machines.json"
        about = {
            host: {
                "ansible_python_interpreter": sys.executable,
                "ansible_port": machine.port,
            }
            for host, machine in self.machines.items()
        }
        self.inventory.write_text(json.dumps({"all": {"hosts": about}}))

    def boot(self, instance: dict[str, Any]) -> Vm:
        """Let the machine of a VM start."""
        machine = self.machines[host_of(Store.name_of(instance))]
        machine.start()
        return Vm(address="127.0.0.1", console=BLOCK.format(machine.host_key))

    def play(self, name: str, *options: str, **variables: Any) -> Done:
        """Run one of the playbooks to its end, as a user would."""
        shared = {
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(self.root / "login"),
            "confidential_vm_api_ca_file": str(self.double.ca_file),
            "confidential_vm_api_endpoint": self.double.endpoint,
            "confidential_vm_aws_schedule_role": ROLE,
            "confidential_vm_connection_timeout": 120,
            "confidential_vm_known_hosts_dir": str(self.root / "known_hosts"),
        }
        environment = os.environ | self.double.environment() | {
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "AWS_REGION": "eu-west-1",
            "BENCH_AMI": IMAGE,
            "BENCH_SSH_FROM": "192.0.2.7/32",
        }  # fmt: skip
        command = [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "--inventory=inventory/aws",
            f"--inventory={self.inventory}",
            f"--extra-vars={json.dumps(shared | variables)}",
            *options,
            f"playbooks/{name}.yml",
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


def host_of(name: str) -> str:
    """The host whose VM has this name."""
    return name.removeprefix("bench-")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    one = Cloud(tmp_path_factory.mktemp("aws"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def refused(cloud: Cloud) -> Done:
    done = cloud.play("provision", confidential_vm_type="TDX")
    assert cloud.double.requests == []
    return done


@pytest.fixture(scope="module")
def made(cloud: Cloud, refused: Done) -> Done:
    done = cloud.play("provision", run_id="Life.of-a-run")
    for file in (cloud.root / "known_hosts").glob("*"):
        cloud.known[host_of(file.name)] = file.read_text()
    return done


@pytest.fixture(scope="module")
def removed(cloud: Cloud, made: Done) -> Done:
    assert cloud.double.store.schedules
    return cloud.play("teardown")


def test_a_tee_that_aws_has_not_is_said_before_any_call(refused: Done) -> None:
    assert refused.status != 0
    assert "AWS has no Intel TDX" in refused.text


def test_an_empty_fleet_is_not_every_fleet(cloud: Cloud, made: Done) -> None:
    swept = cloud.play("sweep", sweep_fleet="", sweep_min_age=0)
    assert swept.status != 0
    assert "sweep_fleet is empty; leave it out" in swept.text
    assert len(cloud.double.store.live()) == len(HOSTS)


def test_both_vms_are_made_and_reached(cloud: Cloud, made: Done) -> None:
    assert made.status == 0, made.text
    bodies = {
        next(tag["Value"] for tag in body["TagSpecifications"][0]["Tags"] if tag["Key"] == "Name"):
        body for body in cloud.double.made()
    }  # fmt: skip
    assert set(bodies) == {"bench-snp", "bench-snp-control"}
    assert bodies["bench-snp"]["CpuOptions"] == {"AmdSevSnp": "enabled"}
    assert "CpuOptions" not in bodies["bench-snp-control"]
    run = {"Key": "tpm-fleet-bench-run", "Value": "life-of-a-run"}
    assert all(run in body["TagSpecifications"][0]["Tags"] for body in bodies.values())
    (group,) = {body["NetworkInterfaces"][0]["Groups"][0] for body in bodies.values()}
    assert group.startswith("sg-")
    assert cloud.double.count("^CreateSchedule$") == 2


def test_host_keys_are_the_consoles_and_the_cost_is_said(cloud: Cloud, made: Done) -> None:
    assert cloud.known["snp"] == f"bench-snp {cloud.machines['snp'].host_key}\n"
    assert "2 VM(s), at most 4.0 VM-hours" in made.text


def test_teardown_removes_everything_and_proves_it(cloud: Cloud, removed: Done) -> None:
    assert removed.status == 0, removed.text
    words = "eu-west-1: no VM, no volume, no security group, no schedule"
    assert f"Nothing is left of the fleet bench in {words}" in removed.text
    store = cloud.double.store
    assert (store.live(), store.volumes, store.groups, store.schedules) == ([], {}, {}, {})
    assert not any(machine.running for machine in cloud.machines.values())
    assert list((cloud.root / "known_hosts").iterdir()) == []
