"""Finding and removing what is left, the fleet's network, and the host keys of a VM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.azure_double import Vm
from tests.support.azure_double.faults import refusal
from tests.support.azure_double.server import SIGNATURE
from tests.support.azure_double.store import (
    ADDRESS,
    DISK,
    INTERFACE,
    NETWORK,
    SCHEDULE,
    SECURITY_GROUP,
    VM,
)
from tests.support.azure_options import ED25519, FLEETS, NETWORKS, parts

if TYPE_CHECKING:
    from tests.integration.azure.conftest import Azure

RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDQ=="


def aged(azure: Azure, name: str, seconds: int) -> None:
    """Let everything of a VM have been made that long ago."""
    then = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
    for (kind, _), item in azure.double.store.held.items():
        if name in item["name"]:
            item["tags"]["tpm-fleet-bench-made"] = then
            if kind in (VM, DISK):
                item["properties"]["timeCreated"] = then
            if kind == SCHEDULE:
                item["properties"]["createdDate"] = then


def populate(azure: Azure) -> None:
    """Two fleets on one network, a disk that lost its VM, and things of other people."""
    for name, fleet in (("old", "trial"), ("new", "trial"), ("other", "second")):
        made = azure.vm(name=name, tags={"tpm-fleet-bench": fleet})
        assert made.status == 0, made.answer
    azure.vm(name="theirs", tags={"tpm-fleet-bench": "x"})
    for item in azure.double.store.held.values():
        if "theirs" in item["name"]:
            item["tags"] = {"team": "other"}
    aged(azure, "old", 8000)
    store = azure.double.store
    orphan = store.get(DISK, "old-os") | {"name": "orphan", "managedBy": "", "tags": None}
    orphan["tags"] = {"tpm-fleet-bench": "trial"}
    orphan["id"] = store.identity(DISK, "orphan")
    store.held[DISK, "orphan"] = orphan


def test_everything_of_ours_is_listed_with_its_age(azure: Azure) -> None:
    populate(azure)
    azure.double.page_size = 2  # so that there are several pages
    found = azure.run("azure_leftovers").answer
    assert found["changed"] is False
    listed = {f"{item['kind'].partition('/')[2]} {item['name']}" for item in found["found"]}
    ours = parts("old") | parts("new") | parts("other") | {"disks orphan"} | NETWORKS
    assert listed == ours
    # The interface of the VM that is not ours keeps the network that it is in.
    would = azure.run("azure_leftovers", state="absent", check=True).answer["found"]
    assert {item["name"] for item in found["found"]} - {item["name"] for item in would} == {FLEETS}
    disks = azure.run("azure_leftovers", kinds=["disks"], fleet="trial").answer["found"]
    assert {item["name"] for item in disks} == {"old-os", "new-os", "orphan"}
    ages = {item["name"]: item["age"] for item in found["found"]}
    assert 8000 <= ages["old-nic"] < 8600
    assert ages["new"] < 600
    assert {item["fleet"] for item in found["found"]} == {"trial", "second"}


def test_sweep_removes_by_tag_and_age_and_nothing_else(azure: Azure) -> None:
    populate(azure)
    before = azure.double.store.names()
    would = azure.run("azure_leftovers", check=True, state="absent", min_age=7200)
    assert would.answer["changed"] is True
    assert azure.double.store.names() == before
    swept = azure.run("azure_leftovers", state="absent", min_age=7200)
    assert swept.status == 0, swept.answer
    assert before - azure.double.store.names() == parts("old") | {"disks orphan"}
    swept = azure.run("azure_leftovers", state="absent", fleet="trial")
    assert swept.status == 0, swept.answer
    assert azure.double.store.names() == parts("other") | parts("theirs") | NETWORKS
    again = azure.run("azure_leftovers", state="absent", fleet="trial")
    assert (again.status, again.answer["changed"]) == (0, False), again.answer


def test_the_network_goes_with_the_last_that_uses_it(azure: Azure) -> None:
    azure.vm()
    assert azure.run("azure_leftovers", state="absent", fleet="trial").status == 0
    assert azure.double.store.names() == set()


def test_a_young_run_keeps_its_network_and_its_deadline(azure: Azure) -> None:
    azure.vm()
    aged(azure, FLEETS, 90000)
    then = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    schedule = azure.double.store.get(SCHEDULE, "shutdown-computevm-bench-snp")
    schedule["properties"]["createdDate"] = then
    address = azure.double.store.get(ADDRESS, "bench-snp-ip")
    address["tags"]["tpm-fleet-bench-made"] = then
    swept = azure.run("azure_leftovers", state="absent", min_age=7200)
    assert (swept.status, swept.answer["found"]) == (0, []), swept.answer
    assert azure.double.store.names() == parts("bench-snp") | NETWORKS


@pytest.mark.parametrize("made", ["yesterday", "", "2999-01-01T00:00:00+00:00", "2026-11-30"])
@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_edited_tags_do_not_stop_a_sweep(azure: Azure, made: str, case: Any) -> None:
    azure.vm()
    aged(azure, "bench-snp", 8000)
    del azure.double.store.held[VM, "bench-snp"]  # its parts have no VM to go with
    for item in azure.double.store.held.values():
        item["tags"] = {
            case("tpm-fleet-bench"): "Trial & Error" if item["type"] == ADDRESS else "trial",
            case("tpm-fleet-bench-made"): made,
            case("tpm-fleet-bench-deadline"): made,
        }
        item["properties"].pop("virtualMachine", None)
    swept = azure.run("azure_leftovers", state="absent", min_age=7200)
    assert swept.status == 0, swept.answer
    assert azure.double.store.names() == set()


@pytest.mark.parametrize("fleet", ["", "  "])
def test_an_empty_name_is_not_every_fleet(azure: Azure, fleet: str) -> None:
    azure.vm()
    before = azure.double.store.names()
    refused = azure.run("azure_leftovers", state="absent", fleet=fleet)
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert azure.double.store.names() == before


def test_a_vm_that_cannot_be_removed_does_not_keep_the_others(azure: Azure) -> None:
    populate(azure)
    azure.double.fail(on="^DELETE .*/virtualMachines/old", status=403)
    failed = azure.run("azure_leftovers", state="absent", fleet="trial")
    assert failed.status == 1
    assert "virtualMachines old" in azure.double.store.names()
    assert parts("new") & azure.double.store.names() == set()


def test_a_list_that_is_refused_is_no_proof_of_absence(azure: Azure) -> None:
    azure.double.fail(
        on="^GET .*/schedules$", status=403, error=refusal("AuthorizationFailed", "x")
    )
    failed = azure.run("azure_leftovers")
    assert (failed.status, failed.answer["kind"]) == (1, "permission")


def test_the_network_is_idempotent_and_only_ours(bare: Azure) -> None:
    assert bare.network(check=True).answer["changed"] is True
    assert bare.double.store.names() == set()
    made = bare.network()
    assert made.answer["changed"] is True
    assert made.answer["subnet_id"].endswith(f"/virtualNetworks/{FLEETS}/subnets/hosts")
    assert made.answer["network_security_group_id"].endswith(FLEETS)
    assert bare.network().answer["changed"] is False
    other = bare.network(ssh_source_ranges=["198.51.100.0/24", "192.0.2.0/24"])
    assert other.answer["changed"] is True
    (rule,) = bare.double.store.get(SECURITY_GROUP, FLEETS)["properties"]["securityRules"]
    assert rule["properties"]["sourceAddressPrefixes"] == ["192.0.2.0/24", "198.51.100.0/24"]
    assert bare.network(state="absent").answer["changed"] is True
    assert bare.network(state="absent").answer["changed"] is False
    bare.network()
    bare.double.store.get(NETWORK, FLEETS)["tags"] = {"tpm-fleet-bench": "second"}
    for state in ("present", "absent"):
        assert bare.network(state=state).answer["kind"] == "not-ours"


def test_a_subnet_of_ones_own_is_used_and_nothing_made_beside_it(azure: Azure) -> None:
    subnet = f"{azure.double.store.identity(NETWORK, FLEETS)}/subnets/hosts"
    there = azure.double.store.names()
    used = azure.network(location="northeurope", subnet_id=subnet, ssh_source_ranges=[])
    assert used.answer["changed"] is False
    assert used.answer["subnet_id"] == subnet
    assert used.answer["network_security_group_id"] == ""
    assert azure.double.store.names() == there
    made = azure.vm(subnet_id=subnet, network_security_group_id="")
    assert made.status == 0, made.answer
    interface = azure.double.store.get(INTERFACE, "bench-snp-nic")
    assert "networkSecurityGroup" not in interface["properties"]


def test_a_network_in_use_is_not_removed(azure: Azure) -> None:
    azure.vm()
    refused = azure.network(state="absent")
    assert (refused.status, refused.answer["kind"]) == (1, "in-use")


BLOCK = "-----BEGIN SSH HOST KEY KEYS-----\r\n{}\r\n-----END SSH HOST KEY KEYS-----\r\n"


def boots(azure: Azure, console: str) -> dict[str, Any]:
    azure.double.store._boot = lambda _: Vm(console=console)
    assert azure.vm().status == 0
    return {"name": "bench-snp"}


def test_host_keys_come_from_the_serial_log(azure: Azure) -> None:
    text = f"[0.0] Linux\r\n{'.' * 3000}\r\n" + BLOCK.format(f"{RSA} root@old")
    vm = boots(azure, text + BLOCK.format(f"{ED25519} root@bench-snp\r\n{RSA} x") + "login: ")
    read = azure.run("azure_vm_identity", **vm)
    assert read.answer["source"] == "serial console", read.answer
    assert read.answer["host_keys"] == [ED25519, RSA]
    assert read.answer["endorsement_keys"] == []
    assert SIGNATURE.split("%", maxsplit=1)[0] not in read.text


@pytest.mark.parametrize("console", ["", "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA"])
def test_host_keys_that_do_not_appear_are_waited_for_and_then_missed(
    azure: Azure, console: str
) -> None:
    vm = boots(azure, console)
    failed = azure.run("azure_vm_identity", **vm, timeout=2)
    assert (failed.status, failed.answer["kind"]) == (1, "deadline")
    assert "has printed no SSH host keys" in failed.answer["msg"]


def test_a_log_that_is_not_there_yet_is_waited_for(azure: Azure) -> None:
    vm = boots(azure, BLOCK.format(ED25519))
    early = refusal("OperationNotAllowed", "The VM has not begun to boot.")
    azure.double.fail(on="/retrieveBootDiagnosticsData$", status=409, error=early, times=2)
    azure.double.log_statuses = [404, 404]
    assert azure.run("azure_vm_identity", **vm).answer["host_keys"] == [ED25519]
    assert len(azure.double.log_requests) == 3


@pytest.mark.parametrize("status", [403, 500, 302])
def test_the_address_of_the_log_gets_into_no_message(azure: Azure, status: int) -> None:
    """Its storage answers with that very address, and is not asked twice with a token."""
    vm = boots(azure, "")
    azure.double.log_statuses = [status] * 50
    failed = azure.run("azure_vm_identity", **vm, timeout=5, _ansible_verbosity=4)
    assert (failed.status, failed.answer["kind"]) == (1, "unreachable"), failed.answer
    assert f"HTTP status {status}" in failed.answer["msg"]
    assert "127.0.0.1" in failed.answer["msg"]
    for secret in (SIGNATURE, SIGNATURE.split("%", maxsplit=1)[0], "sig=", "/logs/"):
        assert secret not in failed.text


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/log?sig=sIgNaTuRe",
        "https://127.0.0.1:1/log?sig=sIgNaTuRe",
        "https://[::1/log?sig=sIgNaTuRe",
    ],
)
def test_an_address_that_leads_nowhere_gets_into_no_message_either(
    azure: Azure, address: str
) -> None:
    vm = boots(azure, "")
    answer = {"serialConsoleLogBlobUri": address}
    azure.double.fail(on="/retrieveBootDiagnosticsData$", status=200, error=answer, times=99)
    failed = azure.run("azure_vm_identity", **vm, timeout=3)
    assert failed.status == 1
    assert failed.answer["kind"] in ("unreachable", "invalid"), failed.answer
    for secret in ("sIgNaTuRe", "sig=", "/log"):
        assert secret not in failed.text
