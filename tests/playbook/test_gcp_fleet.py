"""The real playbooks and inventory/gcp against the double of the Compute API.

Its VMs are sshd processes on this machine, each with a host key and a software TPM of its own, so
that everything after the API's answer is real: host keys, SSH, sudo, the agent, the results. This
machine is no Confidential VM, so the two hosts that ask for one must be refused before a sample is
taken, and the controls measured. One run is taken through its life, as in test_local_fleet.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.playbook.test_local_fleet import flat, free_ports
from tests.support.compute_double import ComputeDouble, Vm
from tests.support.compute_double.server import TOKEN
from tests.support.ssh_host import SshHost, make_key, missing
from tests.support.swtpm import Swtpm

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[2]
HOSTS = ("snp", "snp-control", "tdx", "tdx-control")
RUN = "Life.of-a-run"
ZONE = "europe-west4-b"
ENVIRONMENT = os.environ | {
    "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
    "CLOUDSDK_CORE_PROJECT": "test-project",
    "CLOUDSDK_COMPUTE_ZONE": ZONE,
}
INSERT = r"^POST .*/instances$"
pytestmark = [
    pytest.mark.playbook,
    pytest.mark.swtpm,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(missing() != "", reason=missing()),
    pytest.mark.skipif(shutil.which("tpm2_createek") is None, reason="tpm2-tools is missing"),
]


class Done(NamedTuple):
    """How a playbook ended."""

    status: int
    text: str


class Cloud:
    """The double, and behind it the machines that are its VMs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results, self.report = root / "results", root / "report"
        key = make_key(root / "login")
        first = free_ports(len(HOSTS))
        self.machines = {
            host: SshHost(root / "machines" / host, first + place, key)
            for place, host in enumerate(HOSTS)
        }
        self.tpms = {host: Swtpm(root / "tpms" / host) for host in HOSTS}
        for tpm in self.tpms.values():
            tpm.start()
        self.endorsement_keys = {host: endorsement_key(tpm) for host, tpm in self.tpms.items()}
        self.double = ComputeDouble(
            root, self.boot, lambda name: self.machines[host_of(name)].stop()
        )
        self.inventory = root / "machines.json"
        self.inventory.write_text(json.dumps({"all": {"hosts": {h: self.about(h) for h in HOSTS}}}))

    def about(self, host: str) -> dict[str, Any]:
        """What distinguishes hosts that are one machine in truth."""
        return {
            "ansible_python_interpreter": sys.executable,
            "ansible_port": self.machines[host].port,
            "bench_agent_dir": str(self.root / "hosts" / host / "agent"),
            "bench_run_state_dir": str(self.root / "hosts" / host / "state"),
            "bench_run_tcti": self.tpms[host].tcti,
        }

    def boot(self, instance: dict[str, Any]) -> Vm:
        """Let the machine of a VM start."""
        machine = self.machines[host_of(instance["name"])]
        machine.start()
        return Vm(
            address="127.0.0.1",
            host_keys=[machine.host_key],
            endorsement_keys=[self.endorsement_keys[host_of(instance["name"])]],
        )

    def halt(self, name: str) -> None:
        """Take the machine of a VM away."""
        self.machines[host_of(name)].stop()

    def command(self, name: str, *options: str, **variables: Any) -> list[str]:
        """The command line that a user would type, and what keeps it away from Google."""
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
            "confidential_vm_access_token": TOKEN,
            "confidential_vm_api_ca_file": str(self.double.ca_file),
            "confidential_vm_api_endpoint": self.double.endpoint,
            "confidential_vm_auth_kind": "access_token",
            "confidential_vm_connection_timeout": 60,
            "confidential_vm_known_hosts_dir": str(self.root / "known_hosts"),
            "confidential_vm_price_per_hour": 0.25,
            "confidential_vm_ssh_source_ranges": ["192.0.2.7/32"],
        }
        return [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "--inventory=inventory/gcp",
            f"--inventory={self.inventory}",
            f"--extra-vars={json.dumps(shared | variables)}",
            *options,
            f"playbooks/{name}.yml",
        ]

    def play(self, name: str, *options: str, **variables: Any) -> Done:
        """Run one of the playbooks to its end."""
        ended = subprocess.run(
            self.command(name, *options, **variables),
            cwd=PROJECT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        return Done(ended.returncode, flat(ended.stdout + ended.stderr))

    def failures(self) -> dict[str, dict[str, str]]:
        listed = json.loads((self.results / RUN / "failures.json").read_text())
        return {failure["host"]: failure for failure in listed}

    def measured(self) -> set[str]:
        return {file.name.split(".")[0] for file in (self.results / RUN).glob("*.done.json")}

    def close(self) -> None:
        """Take everything away again."""
        for machine in self.machines.values():
            machine.stop()
        for tpm in self.tpms.values():
            tpm.stop()
        self.double.close()


def host_of(name: str) -> str:
    """The host whose VM has this name."""
    return name.removeprefix("bench-")


def endorsement_key(tpm: Swtpm) -> str:
    """Ask tpm2-tools, which shares no code with the role, for the TPM's RSA endorsement key."""
    file = tpm._state.parent / "ek.pem"
    command = ["tpm2_createek", "-T", tpm.tcti, "-G", "rsa", "-f", "pem", "-u", str(file)]
    subprocess.run([*command, "-c", str(file.with_suffix(".ctx"))], check=True, capture_output=True)
    subprocess.run(["tpm2_flushcontext", "-T", tpm.tcti, "-t"], check=True, capture_output=True)
    return file.read_text()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    one = Cloud(tmp_path_factory.mktemp("gcp"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def first(cloud: Cloud) -> Done:
    """No room for one of the VMs, and another's TPM is not the one that the API names."""
    message = "The zone does not have enough resources available to fulfill the request."
    error = ("ZONE_RESOURCE_POOL_EXHAUSTED", message)
    cloud.double.fail(on=INSERT, naming="bench-tdx", operation_error=error)
    right = cloud.endorsement_keys["tdx-control"]
    cloud.endorsement_keys["tdx-control"] = cloud.endorsement_keys["tdx"]
    done = cloud.play("run", run_id=RUN)
    cloud.endorsement_keys["tdx-control"] = right
    return done


@pytest.fixture(scope="module")
def second(cloud: Cloud, first: Done) -> Done:
    """The same run again: there is room, the TPM is right, and a measured VM met its deadline."""
    cloud.double.store.vms["bench-tdx-control"].endorsement_keys = [
        cloud.endorsement_keys["tdx-control"]
    ]
    cloud.double.store.gone((ZONE, "bench-snp-control"))
    return cloud.play("run", run_id=RUN)


@pytest.fixture(scope="module")
def removed(cloud: Cloud, second: Done) -> Done:
    return cloud.play("teardown")


def test_a_vm_that_is_not_what_was_asked_for_is_not_measured(cloud: Cloud, first: Done) -> None:
    assert first.status != 0
    refused = cloud.failures()["snp"]
    assert refused["stage"] == "proof", first.text
    assert refused["reason"] == (
        "The inventory asks for SEV_SNP (TEE sev-snp) and the guest finds itself in TEE none; "
        "the API says SEV_SNP. Nothing was measured."
    )
    assert not (cloud.root / "hosts" / "snp" / "state" / "runs").exists()


def test_a_tpm_that_is_not_the_vms_is_not_measured(cloud: Cloud, first: Done) -> None:
    refused = cloud.failures()["tdx-control"]
    assert refused["stage"] == "proof"
    assert refused["reason"].startswith(f"The TPM at {cloud.tpms['tdx-control'].tcti} is not the")


def test_a_vm_that_cannot_be_made_is_named_with_a_remedy(cloud: Cloud, first: Done) -> None:
    refused = cloud.failures()["tdx"]
    assert refused["stage"] == "virtual machine"
    assert "enough resources" in refused["reason"]
    assert f"{ZONE} has no such machine free now" in refused["reason"]


def test_the_control_is_measured_over_ssh_and_sudo(cloud: Cloud, first: Done) -> None:
    assert cloud.measured() == {"snp-control"}
    document = json.loads((cloud.results / RUN / "snp-control.json").read_text())
    assert document["tpm"]["tcti"] == cloud.tpms["snp-control"].tcti
    assert [scenario["status"] for scenario in document["scenarios"]] == ["valid"]
    assert document["platform"]["tee"] == "none"


def test_host_keys_are_the_apis(cloud: Cloud, first: Done) -> None:
    for host in ("snp", "snp-control", "tdx-control"):
        known = (cloud.root / "known_hosts" / f"bench-{host}").read_text()
        assert known == f"bench-{host} {cloud.machines[host].host_key}\n"


def test_what_it_may_cost_is_said(first: Done) -> None:
    assert "3 VM(s), at most 6.0 VM-hours (1.50 by confidential_vm_price_per_hour)" in first.text
    assert "playbooks/teardown.yml" in first.text


def test_labels_say_which_run_it_was(cloud: Cloud, first: Done) -> None:
    bodies = [body for line, body in cloud.double.bodies if line.endswith("/instances")]
    assert {body["name"] for body in bodies} == {f"bench-{host}" for host in HOSTS}
    for body in bodies:
        labels = {"tpm-fleet-bench": "bench", "tpm-fleet-bench-run": "life-of-a-run"}
        assert body["labels"] == labels


def test_the_second_pass_makes_and_measures_only_what_is_missing(
    cloud: Cloud, second: Done
) -> None:
    assert cloud.measured() == {"snp-control", "tdx-control"}
    assert set(cloud.failures()) == {"snp", "tdx"}
    assert cloud.failures()["tdx"]["stage"] == "proof"
    made = [body["name"] for line, body in cloud.double.bodies if line.endswith("/instances")]
    assert sorted(made) == ["bench-snp", "bench-snp-control", "bench-tdx", "bench-tdx",
                            "bench-tdx-control"]  # fmt: skip
    assert not cloud.machines["snp-control"].running


def test_the_report_names_the_measured_and_the_refused(cloud: Cloud, second: Done) -> None:
    for name in ("report.txt", "index.html"):
        text = (cloud.report / name).read_text()
        for host in HOSTS:
            assert host in text
        assert "asks for SEV_SNP (TEE sev-snp)" in text


def test_an_impostor_at_the_vms_address_is_not_talked_to(cloud: Cloud, second: Done) -> None:
    machine = cloud.machines["snp"]
    machine.stop()
    impostor = SshHost(cloud.root / "impostor", machine.port, "ssh-ed25519 AAAA")
    impostor.start()
    try:
        limit = ("--limit", "snp")
        done = cloud.play("provision", *limit, run_id=RUN, confidential_vm_connection_timeout=5)
    finally:
        impostor.stop()
        machine.start()
    assert done.status != 0
    assert "Host key verification failed" in done.text


def test_teardown_removes_everything_and_proves_it(cloud: Cloud, removed: Done) -> None:
    assert removed.status == 0, removed.text
    assert "Nothing is left of the fleet bench in test-project" in removed.text
    store = cloud.double.store
    assert (store.instances, store.disks, store.firewalls) == ({}, {}, {})
    assert not any(machine.running for machine in cloud.machines.values())
    assert list((cloud.root / "known_hosts").iterdir()) == []


def test_the_firewall_rule_was_there_for_the_run(cloud: Cloud, removed: Done) -> None:
    assert cloud.double.count(r"^POST .*/firewalls$") == 1
    assert cloud.double.count(r"^DELETE .*/firewalls/tpm-fleet-bench-bench-ssh$") == 1


def test_a_second_teardown_is_quiet(cloud: Cloud, removed: Done) -> None:
    changes = cloud.double.count("^(POST|DELETE) ")
    again = cloud.play("teardown")
    assert again.status == 0
    assert again.text.count("changed=0") == len(HOSTS)
    assert cloud.double.count("^(POST|DELETE) ") == changes


def test_after_sigkill_a_sweep_leaves_nothing(cloud: Cloud, removed: Done) -> None:
    before = cloud.double.count(INSERT)
    play = subprocess.Popen(
        cloud.command("provision", run_id="killed"),
        cwd=PROJECT,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while cloud.double.count(INSERT) == before and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(play.pid, signal.SIGKILL)
    play.wait()
    assert cloud.double.store.instances
    listed = cloud.play("sweep", "--check", sweep_min_age=0)
    assert "run killed, 0 min old" in listed.text
    assert cloud.double.store.instances
    kept = cloud.play("sweep")
    assert "0 found and removed" in kept.text
    swept = cloud.play("sweep", sweep_min_age=0)
    assert swept.status == 0, swept.text
    store = cloud.double.store
    assert (store.instances, store.disks, store.firewalls) == ({}, {}, {})
    assert "0 found and removed" in cloud.play("sweep", sweep_min_age=0).text


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"confidential_vm_max_run_duration": 5}, "30 s to 10368000 s"),
        ({"confidential_vm_project": "X"}, "confidential_vm_project must be the id"),
        ({"confidential_vm_machine_type": "e2-micro"}, "e2-micro has no SEV_SNP"),
        ({"bench_run_signatures": 0}, "bench_run_signatures must be 1 or more"),
    ],
)
def test_a_wrong_variable_is_one_sentence_before_any_call(
    cloud: Cloud, variables: dict[str, Any], words: str
) -> None:
    before = len(cloud.double.requests)
    refused = cloud.play("run", **variables)
    assert refused.status != 0
    assert words in refused.text
    assert len(cloud.double.requests) == before
