"""The real playbooks and inventory/gcp against the double of the Compute API.

The two hosts that ask for a Confidential VM must be refused before a sample is taken, and the
controls measured. One run is taken through its life, as in test_local_fleet.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cloud_fleet import MARKS, CloudFleet, Done
from tests.support.compute_double import ComputeDouble, Vm
from tests.support.compute_double.server import TOKEN
from tests.support.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUN = "Life.of-a-run"
ZONE = "europe-west4-b"
INSERT = r"^POST .*/instances$"
pytestmark = MARKS


class Cloud(CloudFleet):
    """Google Compute Engine."""

    provider = "gcp"
    hosts = ("snp", "snp-control", "tdx", "tdx-control")

    def make_double(self, halt: Callable[[str], None]) -> ComputeDouble:
        return ComputeDouble(self.root, self._boot, halt)

    def environment(self) -> dict[str, str]:
        return {"CLOUDSDK_CORE_PROJECT": "test-project", "CLOUDSDK_COMPUTE_ZONE": ZONE}

    def variables(self) -> dict[str, Any]:
        return {
            "confidential_vm_access_token": TOKEN,
            "confidential_vm_auth_kind": "access_token",
            "confidential_vm_price_per_hour": 0.25,
            "confidential_vm_ssh_source_ranges": ["192.0.2.7/32"],
        }

    def _boot(self, instance: dict[str, Any]) -> Vm:
        host, key = self.start(instance["name"])
        return Vm("127.0.0.1", [key], endorsement_keys=[self.endorsement_keys[host]])


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
    refused = cloud.failures(RUN)["snp"]
    assert refused["stage"] == "proof", first.text
    assert refused["reason"] == (
        "The inventory asks for SEV_SNP (TEE sev-snp) and the guest finds itself in TEE none; "
        "the API says SEV_SNP. Nothing was measured."
    )
    assert not (cloud.root / "hosts" / "snp" / "state" / "runs").exists()


def test_a_tpm_that_is_not_the_vms_is_not_measured(cloud: Cloud, first: Done) -> None:
    refused = cloud.failures(RUN)["tdx-control"]
    assert refused["stage"] == "proof"
    assert refused["reason"].startswith(f"The TPM at {cloud.tpms['tdx-control'].tcti} is not the")


def test_a_vm_that_cannot_be_made_is_named_with_a_remedy(cloud: Cloud, first: Done) -> None:
    refused = cloud.failures(RUN)["tdx"]
    assert refused["stage"] == "virtual machine"
    assert "enough resources" in refused["reason"]
    assert f"{ZONE} has no such machine free now" in refused["reason"]


def test_the_control_is_measured_over_ssh_and_sudo(cloud: Cloud, first: Done) -> None:
    assert cloud.measured(RUN) == {"snp-control"}
    document = cloud.document(RUN, "snp-control")
    assert document["tpm"]["tcti"] == cloud.tpms["snp-control"].tcti
    assert [scenario["status"] for scenario in document["scenarios"]] == ["valid"]
    assert document["platform"]["tee"] == "none"


def test_host_keys_are_the_apis(cloud: Cloud, first: Done) -> None:
    assert cloud.known_hosts() == {
        f"bench-{host}": f"bench-{host} {cloud.machines[host].host_key}\n"
        for host in ("snp", "snp-control", "tdx-control")
    }


def test_what_it_may_cost_is_said(first: Done) -> None:
    assert "3 VM(s), at most 6.0 VM-hours (1.50 by confidential_vm_price_per_hour)" in first.text
    assert "playbooks/teardown.yml" in first.text


def test_labels_say_which_run_it_was(cloud: Cloud, first: Done) -> None:
    bodies = [body for line, body in cloud.double.bodies if line.endswith("/instances")]
    assert {body["name"] for body in bodies} == {f"bench-{host}" for host in cloud.hosts}
    for body in bodies:
        labels = {"tpm-fleet-bench": "bench", "tpm-fleet-bench-run": "life-of-a-run"}
        assert body["labels"] == labels


def test_the_second_pass_makes_and_measures_only_what_is_missing(
    cloud: Cloud, second: Done
) -> None:
    assert cloud.measured(RUN) == {"snp-control", "tdx-control"}
    assert set(cloud.failures(RUN)) == {"snp", "tdx"}
    assert cloud.failures(RUN)["tdx"]["stage"] == "proof"
    made = [body["name"] for line, body in cloud.double.bodies if line.endswith("/instances")]
    assert sorted(made) == ["bench-snp", "bench-snp-control", "bench-tdx", "bench-tdx",
                            "bench-tdx-control"]  # fmt: skip
    assert not cloud.machines["snp-control"].running


def test_the_report_names_the_measured_and_the_refused(cloud: Cloud, second: Done) -> None:
    for text in cloud.reports():
        for host in cloud.hosts:
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
        impostor.close()
        machine.start()
    assert done.status != 0
    assert "Host key verification failed" in done.text


def test_teardown_removes_everything_and_proves_it(cloud: Cloud, removed: Done) -> None:
    assert removed.status == 0, removed.text
    assert "Nothing is left of the fleet bench in test-project" in removed.text
    store = cloud.double.store
    assert (store.instances, store.disks, store.firewalls) == ({}, {}, {})
    assert cloud.is_halted()


def test_the_firewall_rule_was_there_for_the_run(cloud: Cloud, removed: Done) -> None:
    assert cloud.double.count(r"^POST .*/firewalls$") == 1
    assert cloud.double.count(r"^DELETE .*/firewalls/tpm-fleet-bench-bench-ssh$") == 1


def test_a_second_teardown_is_quiet(cloud: Cloud, removed: Done) -> None:
    changes = cloud.double.count("^(POST|DELETE) ")
    again = cloud.play("teardown")
    assert again.status == 0
    assert again.text.count("changed=0") == len(cloud.hosts)
    assert cloud.double.count("^(POST|DELETE) ") == changes


def test_after_sigkill_a_sweep_leaves_nothing(cloud: Cloud, removed: Done) -> None:
    before = cloud.double.count(INSERT)
    play = cloud.begin("provision", run_id="killed")
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
