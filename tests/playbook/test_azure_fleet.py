"""The real playbooks and inventory/azure against the double of Resource Manager.

One fleet is taken through its life: refused, measured but for the host that is not in the TEE it
asks for, measured with that host, found, removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.azure_double import AzureDouble, Vm
from tests.support.azure_double.server import SIGNATURE, TOKEN
from tests.support.cloud_fleet import MARKS, CloudFleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RUN = "Run.1"
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
pytestmark = MARKS


class Cloud(CloudFleet):
    """Azure; the inventory's other two hosts are asked for at the end: two are quicker."""

    provider = "azure"
    hosts = ("snp", "snp-control")

    def make_double(self, halt: Callable[[str], None]) -> AzureDouble:
        double = AzureDouble(self.root, self._boot, halt)
        double.store.address = "127.0.0.1"
        return double

    def environment(self) -> dict[str, str]:
        return {
            "AZURE_SUBSCRIPTION_ID": self.double.store.subscription,
            "AZURE_DEFAULTS_GROUP": self.double.store.group,
            "AZURE_DEFAULTS_LOCATION": "westeurope",
            "BENCH_SSH_FROM": "192.0.2.7/32",
        }

    def variables(self) -> dict[str, Any]:
        return {
            # Of the account on this machine; the one on the VM may not be called root.
            "confidential_vm_user": "bench",
            "confidential_vm_azure_access_token": TOKEN,
            "confidential_vm_azure_auth_kind": "access_token",
        }

    def _boot(self, vm: dict[str, Any]) -> Vm:
        _, key = self.start(vm["name"])
        return Vm(console=CONSOLE.format(key))


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    one = Cloud(tmp_path)
    yield one
    one.close()


def test_a_fleet_is_refused_measured_found_and_removed(cloud: Cloud, tmp_path: Path) -> None:
    some = f"--limit={','.join(cloud.hosts)}"
    refused = cloud.play("run", some, confidential_vm_max_run_duration=60)
    assert refused.status != 0
    assert "max_run_duration must be 1800 s to 82800 s" in refused.text
    assert cloud.double.requests == []

    first = cloud.play("run", some, run_id=RUN)
    assert first.status != 0
    failures = cloud.failures(RUN)
    assert failures["snp"]["stage"] == "proof", first.text
    assert failures["snp"]["reason"] == (
        "The inventory asks for SEV_SNP (TEE sev-snp) and the guest finds itself in TEE none; "
        "the API says SEV_SNP. Nothing was measured."
    )
    assert cloud.measured(RUN) == {"snp-control"}, first.text
    assert "2 VM(s), at most 4.0 VM-hours" in first.text
    assert "when Azure deallocates it; disks and addresses cost on" in first.text
    assert cloud.known_hosts() == {
        f"bench-{host}": f"bench-{host} {machine.host_key}\n"
        for host, machine in cloud.machines.items()
    }
    names = cloud.double.store.names()
    for host in cloud.hosts:
        assert f"virtualMachines bench-{host}" in names
        assert f"schedules shutdown-computevm-bench-{host}" in names
    assert "networkSecurityGroups tpm-fleet-bench-bench-westeurope" in names
    asked = {
        line.rpartition("/")[2]: body["properties"]["securityProfile"]["securityType"]
        for line, body in cloud.double.bodies
        if "/virtualMachines/" in line
    }
    assert asked == {"bench-snp": "ConfidentialVM", "bench-snp-control": "TrustedLaunch"}
    runs = {held["tags"]["tpm-fleet-bench-run"] for held in cloud.double.store.held.values()}
    assert runs == {"run-1"}

    cloud.give_evidence("snp", "AZURE_SNP")
    second = cloud.play("run", some, run_id=RUN)
    assert second.status == 0, second.text
    assert cloud.measured(RUN) == set(cloud.hosts)
    platform = cloud.document(RUN, "snp")["platform"]
    assert (platform["tee"], platform["tpm_location"]) == ("sev-snp", "paravisor")
    assert cloud.document(RUN, "snp-control")["platform"]["tee"] == "none"
    for text in cloud.reports():
        assert "snp-control" in text
        assert "paravisor" in text

    changes = cloud.double.count("^(PUT|PATCH|DELETE) ")
    (find := tmp_path / "find.yml").write_text(FIND)
    found = cloud.play(find, "--limit=snp", run_id=RUN)
    assert (found.status, "snp : ok=" in found.text) == (0, True), found.text
    assert cloud.double.count("^(PUT|PATCH|DELETE) ") == changes

    removed = cloud.play("teardown")
    assert removed.status == 0, removed.text
    assert "Nothing is left of the fleet bench in bench-group: no VM, no disk" in removed.text
    assert cloud.double.store.names() == set()
    assert cloud.is_halted()
    swept = cloud.play("sweep", "--limit=tdx", sweep_min_age=0)
    assert "0 found and removed" in swept.text

    for done in (first, second, found, removed):
        for secret in (TOKEN, SIGNATURE, "sig="):
            assert secret not in done.text.replace("config", "")
