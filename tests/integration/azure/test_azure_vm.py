"""azure_confidential_vm against the double: made, left alone, changed, made anew, removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.azure_double import schema
from tests.support.azure_double.store import ADDRESS, DISK, INTERFACE, SCHEDULE, VM
from tests.support.azure_options import KINDS

if TYPE_CHECKING:
    from tests.integration.azure.conftest import Azure

PUT_VM = r"^PUT .*/virtualMachines/"
CHANGES = r"^(POST|DELETE|PATCH|PUT) "
NETWORK = {
    "virtualNetworks tpm-fleet-bench-trial-westeurope",
    "networkSecurityGroups tpm-fleet-bench-trial-westeurope",
}
PARTS = {
    "virtualMachines bench-snp",
    "disks bench-snp-os",
    "networkInterfaces bench-snp-nic",
    "publicIPAddresses bench-snp-ip",
    "schedules shutdown-computevm-bench-snp",
}
TYPES = {"SNP": "SEV_SNP", "TDX": "TDX", None: "none"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_make_then_nothing_to_do_then_remove_then_nothing_to_remove(
    azure: Azure, kind: str
) -> None:
    made = azure.vm(kind)
    assert made.status == 0, made.answer
    assert (made.answer["changed"], made.answer["action"]) == (True, "created")
    vm = made.answer["vm"]
    asked = KINDS[kind].get("confidential_computing_type")
    assert vm["confidential_instance_type"] == TYPES[asked]
    assert vm["security_type"] == ("ConfidentialVM" if asked else "TrustedLaunch")
    assert (vm["address"], vm["internal_address"]) == ("203.0.113.10", "10.81.0.4")
    left = datetime.fromisoformat(vm["ends_at"]) - datetime.now(UTC)
    assert timedelta(minutes=110) < left <= timedelta(minutes=121)

    again = azure.vm(kind)
    assert (again.answer["changed"], again.answer["action"]) == (False, "none"), again.answer
    assert again.answer["diff"]["before"] == again.answer["diff"]["after"]
    assert again.answer["vm"] == vm
    assert azure.double.count(PUT_VM) == 1

    gone = azure.vm(kind, state="absent")
    assert (gone.answer["changed"], gone.answer["action"]) == (True, "deleted"), gone.answer
    assert azure.double.store.names() == NETWORK
    assert azure.vm(kind, state="absent").answer["changed"] is False


def test_everything_that_is_made_says_whose_it_is_and_until_when(azure: Azure) -> None:
    azure.vm()
    assert azure.double.store.names() == NETWORK | PARTS
    for resource in azure.double.store.held.values():
        tags = resource["tags"]
        assert tags["tpm-fleet-bench"] == "trial", resource
        assert datetime.fromisoformat(tags["tpm-fleet-bench-deadline"]) > datetime.now(UTC)
        if resource["name"].startswith("tpm-"):
            continue  # the fleet's
        assert tags["tpm-fleet-bench-run"] == "run-1"


def test_the_auto_shutdown_is_set_before_the_vm_runs(azure: Azure) -> None:
    azure.double.fail(on=PUT_VM, slow=0.5)
    made = azure.vm().answer["vm"]
    order = [request.rpartition("/")[2] for request in azure.double.requests if "PUT" in request]
    assert order == ["bench-snp-ip", "bench-snp-nic", "bench-snp", "shutdown-computevm-bench-snp"]
    properties = azure.double.store.get(SCHEDULE, order[-1])["properties"]
    ends = datetime.fromisoformat(made["ends_at"])
    assert properties["dailyRecurrence"] == {"time": ends.strftime("%H%M")}
    assert properties["targetResourceId"] == azure.double.store.get(VM, "bench-snp")["id"]
    polled = [request for request in azure.double.requests if "/operations/" in request]
    where = azure.double.requests.index(polled[-1])
    assert where > next(
        place for place, request in enumerate(azure.double.requests) if "schedules" in request
    )


def test_what_the_double_answers_is_valid_by_microsofts_description(azure: Azure) -> None:
    azure.vm()
    store = azure.double.store
    for package, model, resource in (
        ("compute", "VirtualMachine", store.get(VM, "bench-snp")),
        ("compute", "Disk", store.get(DISK, "bench-snp-os")),
        ("network", "NetworkInterface", store.get(INTERFACE, "bench-snp-nic")),
        ("network", "PublicIPAddress", store.get(ADDRESS, "bench-snp-ip")),
    ):
        assert schema.violations(package, model, resource, answer=True) == [], model


def test_the_newest_image_of_the_right_kind_is_taken(azure: Azure) -> None:
    for kind, version in (
        ("snp", "24.04.202611030"),
        ("snp-control", "24.04.202611050"),
    ):
        azure.vm(kind)
        body = next(body for line, body in azure.double.bodies if line.endswith(f"/bench-{kind}"))
        reference = body["properties"]["storageProfile"]["imageReference"]
        assert reference == {
            "publisher": "Canonical",
            "offer": "ubuntu-24_04-lts",
            "sku": "server" if "control" in kind else "cvm",
            "version": version,
        }


def test_check_mode_changes_nothing_and_says_what_it_would_do(azure: Azure) -> None:
    would = azure.vm(check=True)
    assert (would.answer["changed"], would.answer["action"]) == (True, "created"), would.answer
    assert would.answer["diff"]["before"] == {}
    after = would.answer["diff"]["after"]
    assert after["properties.hardwareProfile.vmSize"] == "Standard_DC2as_v5"
    azure.vm()
    changes = azure.double.count(CHANGES)
    bigger = azure.vm(check=True, vm_size="Standard_EC2as_v5", recreate=True)
    assert bigger.answer["action"] == "recreated"
    assert azure.vm(check=True, state="absent").answer["changed"] is True
    assert azure.double.count(CHANGES) == changes
    assert azure.double.store.names() == NETWORK | PARTS


def test_tags_change_in_place_and_keep_what_others_added(azure: Azure) -> None:
    number = azure.vm().answer["vm"]["id"]
    vm = azure.double.store.get(VM, "bench-snp")
    vm["tags"] = {key.title(): value for key, value in vm["tags"].items()} | {"costs": "mine"}
    assert azure.vm().answer["action"] == "none"  # a tag's name has no case
    changed = azure.vm(tags={"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-2"})
    assert (changed.answer["action"], changed.answer["vm"]["id"]) == ("updated", number)
    tags = azure.double.store.get(VM, "bench-snp")["tags"]
    assert (tags["costs"], tags["tpm-fleet-bench-run"]) == ("mine", "run-2")
    assert len([key for key in tags if key.lower() == "tpm-fleet-bench-run"]) == 1
    assert azure.double.count(PUT_VM) == 1


@pytest.mark.parametrize("by", ["removed", "disabled"])
def test_a_deadline_that_someone_took_away_is_set_again(azure: Azure, by: str) -> None:
    ends = azure.vm().answer["vm"]["ends_at"]
    key = (SCHEDULE, "shutdown-computevm-bench-snp")
    if by == "removed":
        del azure.double.store.held[key]
    else:
        azure.double.store.held[key]["properties"]["status"] = "Disabled"
    again = azure.vm()
    assert (again.status, again.answer["action"]) == (0, "updated"), again.answer
    assert again.answer["vm"]["ends_at"] == ends
    time = datetime.fromisoformat(ends).strftime("%H%M")
    properties = azure.double.store.held[key]["properties"]
    assert (properties["status"], properties["dailyRecurrence"]["time"]) == ("Enabled", time)


def test_a_change_that_needs_a_new_vm_is_refused_unless_allowed(azure: Azure) -> None:
    number = azure.vm().answer["vm"]["id"]
    refused = azure.vm(vm_size="Standard_EC2as_v5")
    assert (refused.status, refused.answer["kind"]) == (1, "needs-recreation")
    words = "hardwareProfile.vmSize is Standard_DC2as_v5, not Standard_EC2as_v5"
    assert words in refused.answer["msg"]
    anew = azure.vm(vm_size="Standard_EC2as_v5", recreate=True)
    assert (anew.status, anew.answer["action"]) == (0, "recreated"), anew.answer
    assert anew.answer["vm"]["id"] != number
    assert azure.double.store.names() == NETWORK | PARTS


def test_a_vm_past_its_deadline_is_deallocated_and_needs_a_new_one(azure: Azure) -> None:
    azure.vm()
    azure.double.store.shut_down("bench-snp")
    refused = azure.vm()
    assert (refused.status, refused.answer["kind"]) == (1, "needs-recreation")
    assert "status is deallocated, not running" in refused.answer["msg"]
    # Started again by hand, it is not taken for one with time left.
    azure.double.store._power(azure.double.store.get(VM, "bench-snp"), "running")
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    azure.double.store.get(VM, "bench-snp")["tags"]["tpm-fleet-bench-deadline"] = past
    refused = azure.vm()
    assert f"deadline is over since {past}" in refused.answer["msg"]
    assert azure.vm(recreate=True).answer["action"] == "recreated"


def test_a_deadline_that_nobody_can_read_is_over(azure: Azure) -> None:
    azure.vm()
    azure.double.store.get(VM, "bench-snp")["tags"]["tpm-fleet-bench-deadline"] = "soon"
    refused = azure.vm()
    assert (refused.status, refused.answer["kind"]) == (1, "needs-recreation"), refused.answer
    assert azure.vm(state="absent").answer["action"] == "deleted"


@pytest.mark.parametrize("name", ["-nic", "-ip", "-os", "shutdown-"])
def test_tags_that_were_taken_from_a_part_do_not_keep_a_vm_from_being_removed(
    azure: Azure, name: str
) -> None:
    azure.vm()
    for item in azure.double.store.held.values():
        if name in item["name"]:
            item["tags"] = {}
    gone = azure.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert azure.double.store.names() == NETWORK


@pytest.mark.parametrize("owner", [None, "second"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(VM, "bench-snp"), (INTERFACE, "bench-snp-nic"), (ADDRESS, "bench-snp-ip")],
)
def test_what_is_another_fleets_is_neither_changed_nor_removed(
    azure: Azure, kind: str, name: str, owner: str | None
) -> None:
    azure.vm()
    resource = azure.double.store.get(kind, name)
    resource["tags"] = {"tpm-fleet-bench": owner} if owner else {"team": "other"}
    if kind != VM:  # as if it had been there first
        resource["properties"].pop("virtualMachine", None)
        resource["properties"].pop("ipConfiguration", None)
        azure.double.store.held = {(kind, name): resource} | {
            key: item
            for key, item in azure.double.store.held.items()
            if item["name"].startswith("tpm-fleet-bench")
        }
    changes = azure.double.count(CHANGES)
    for state in ("present", "absent"):
        refused = azure.vm(state=state)
        assert (refused.status, refused.answer["kind"]) == (1, "not-ours"), refused.answer
        assert (owner or "without the tag") in refused.answer["msg"]
    assert azure.double.count(CHANGES) == changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_run_duration": None}, "a VM without a deadline is not made"),
        ({"max_run_duration": 60}, "1800 s to 82800 s"),
        ({"vm_size": "Standard_B1s"}, "Standard_B1s has no SNP"),
        ({"tags": {}}, "tags must name the fleet"),
        ({"tags": {}, "state": "absent"}, "tags must name the fleet"),
        ({"tags": {"tpm-fleet-bench": ""}, "state": "absent"}, "tags must name the fleet"),
    ],
)
def test_what_breaks_a_rule_is_said_before_any_call(
    azure: Azure, changes: dict[str, Any], words: str
) -> None:
    refused = azure.vm(**changes)
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert words in refused.answer["msg"]
    assert azure.double.requests == []


def test_validation_alone_sends_nothing(azure: Azure) -> None:
    checked = azure.vm(validate_only=True)
    assert (checked.status, checked.answer["changed"]) == (0, False)
    assert azure.double.requests == []


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"location": "norwayeast"}, "machine-type", "it was seen in eastus, eastus2"),
        ({"location": "northeurope"}, "capacity", "NotAvailableForSubscription"),
        ({"image_sku": "server"}, "image", "this VM needs one for Confidential"),
        ({"image_sku": "no-such"}, "image", "There is no image Canonical:ubuntu-24_04-lts:no-such"),
        ({"image_version": "1.2.3"}, "image", "no image Canonical:ubuntu-24_04-lts:cvm:1.2.3"),
    ],
)
def test_what_azure_knows_better_is_asked_before_anything_is_made(
    azure: Azure, changes: dict[str, Any], kind: str, words: str
) -> None:
    refused = azure.vm(**changes)
    assert (refused.status, refused.answer["kind"]) == (1, kind), refused.answer
    assert words in refused.answer["msg"]
    assert azure.double.count(CHANGES) == 0


def test_a_control_is_refused_an_image_of_the_first_generation(azure: Azure) -> None:
    refused = azure.vm("snp-control", image_sku="server-gen1")
    assert (refused.status, refused.answer["kind"]) == (1, "image"), refused.answer
    assert "generation V1" in refused.answer["msg"]


def test_a_vm_that_is_not_what_was_asked_for_is_a_failure_with_both_values(azure: Azure) -> None:
    azure.double.fail(on=PUT_VM, alter={"securityProfile": {"securityType": "Standard"}})
    wrong = azure.vm()
    assert (wrong.status, wrong.answer["kind"]) == (1, "mismatch")
    assert "securityProfile.securityType is unset, not ConfidentialVM" in wrong.answer["msg"]


def test_a_vm_without_a_public_address_has_none(azure: Azure) -> None:
    made = azure.vm(public_address=False)
    assert made.answer["vm"]["address"] == "10.81.0.4", made.answer
    assert "publicIPAddresses bench-snp-ip" not in azure.double.store.names()


def test_operations_that_are_followed_by_location_alone_are_waited_for(azure: Azure) -> None:
    azure.double.by_location = True
    assert azure.vm().answer["action"] == "created"
    assert azure.vm(state="absent").answer["action"] == "deleted"
    assert azure.double.count("^GET /results/") > 0
    assert azure.double.count("^GET /operations/") == 0
