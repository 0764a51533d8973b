"""The real playbooks and inventory/aws against the doubles of the EC2 and the scheduler's API.

One run is taken through its life: refused, measured but for the host that is not in the TEE that it
asks for, measured with that host, removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cloud_fleet import MARKS, CloudFleet, Done
from tests.support.ec2_double import Ec2Double, Vm
from tests.support.ec2_double.store import IMAGE, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUN = "Life.of-a-run"
ROLE = "arn:aws:iam::123456789012:role/terminator"
BLOCK = "-----BEGIN SSH HOST KEY KEYS-----\n{}\n-----END SSH HOST KEY KEYS-----\n"
pytestmark = MARKS


class Cloud(CloudFleet):
    """Amazon EC2."""

    provider = "aws"
    hosts = ("snp", "snp-control")

    def make_double(self, halt: Callable[[str], None]) -> Ec2Double:
        return Ec2Double(self.root, self._boot, halt)

    def environment(self) -> dict[str, str]:
        return self.double.environment() | {
            "AWS_REGION": "eu-west-1",
            "BENCH_AMI": IMAGE,
            "BENCH_SSH_FROM": "192.0.2.7/32",
        }

    def variables(self) -> dict[str, Any]:
        return {"confidential_vm_aws_schedule_role": ROLE}

    def _boot(self, instance: dict[str, Any]) -> Vm:
        host, key = self.start(Store.name_of(instance))
        der = "".join(self.endorsement_keys[host].splitlines()[1:-1])  # PEM without its frame
        return Vm("127.0.0.1", BLOCK.format(key), {"rsa-2048": der})


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    one = Cloud(tmp_path_factory.mktemp("aws"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def refused(cloud: Cloud) -> Done:
    done = cloud.play("run", confidential_vm_type="TDX")
    assert cloud.double.requests == []
    return done


@pytest.fixture(scope="module")
def first(cloud: Cloud, refused: Done) -> Done:
    return cloud.play("run", run_id=RUN)


@pytest.fixture(scope="module")
def second(cloud: Cloud, first: Done) -> Done:
    """The same run again, when the guest finds itself in the TEE that it asks for."""
    cloud.give_evidence("snp", "AWS_SNP")
    return cloud.play("run", run_id=RUN)


@pytest.fixture(scope="module")
def removed(cloud: Cloud, second: Done) -> Done:
    assert cloud.double.store.schedules
    return cloud.play("teardown")


def test_a_tee_that_aws_has_not_is_said_before_any_call(refused: Done) -> None:
    assert refused.status != 0
    assert "AWS has no Intel TDX" in refused.text


def test_a_vm_that_is_not_what_was_asked_for_is_not_measured(cloud: Cloud, first: Done) -> None:
    assert first.status != 0
    failures = cloud.failures(RUN)
    assert failures.keys() == {"snp"}, first.text
    assert failures["snp"]["stage"] == "proof"
    assert failures["snp"]["reason"] == (
        "The inventory asks for SEV_SNP (TEE sev-snp) and the guest finds itself in TEE none; "
        "the API says SEV_SNP. Nothing was measured."
    )


def test_the_vms_are_made_as_the_inventory_asks(cloud: Cloud, first: Done) -> None:
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


def test_the_control_is_measured_with_the_tpm_that_the_api_names(cloud: Cloud, first: Done) -> None:
    assert cloud.measured(RUN) == {"snp-control"}, first.text
    document = cloud.document(RUN, "snp-control")
    assert document["platform"]["tee"] == "none"
    assert document["tpm"]["tcti"] == cloud.tpms["snp-control"].tcti
    assert [scenario["status"] for scenario in document["scenarios"]] == ["valid"]
    assert cloud.double.count("^GetInstanceTpmEkPub$") > 0
    assert "Compare them with what the cloud says" in first.text


def test_host_keys_are_the_consoles_and_the_cost_is_said(cloud: Cloud, first: Done) -> None:
    assert cloud.known_hosts() == {
        f"bench-{host}": f"bench-{host} {machine.host_key}\n"
        for host, machine in cloud.machines.items()
    }
    assert "2 VM(s), at most 4.0 VM-hours" in first.text


def test_an_empty_fleet_is_not_every_fleet(cloud: Cloud, first: Done) -> None:
    swept = cloud.play("sweep", sweep_fleet="", sweep_min_age=0)
    assert swept.status != 0
    assert "sweep_fleet is empty; leave it out" in swept.text
    assert len(cloud.double.store.live()) == len(cloud.hosts)


def test_a_vm_that_is_what_was_asked_for_is_measured(cloud: Cloud, second: Done) -> None:
    assert second.status == 0, second.text
    assert cloud.measured(RUN) == {"snp", "snp-control"}
    platform = cloud.document(RUN, "snp")["platform"]
    assert (platform["tee"], platform["tpm_location"]) == ("sev-snp", "hypervisor")
    assert len(cloud.double.made()) == len(cloud.hosts)  # in the first pass; none was made again
    for text in cloud.reports():
        assert "snp-control" in text
        assert "SEV-SNP" in text


def test_teardown_removes_everything_and_proves_it(cloud: Cloud, removed: Done) -> None:
    assert removed.status == 0, removed.text
    words = "eu-west-1: no VM, no volume, no security group, no schedule"
    assert f"Nothing is left of the fleet bench in {words}" in removed.text
    store = cloud.double.store
    assert (store.live(), store.volumes, store.groups, store.schedules) == ([], {}, {}, {})
    assert cloud.is_halted()
