"""gce_confidential_instance against the double: made, left alone, changed, made anew, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.compute_double import discovery
from tests.support.gce_options import KINDS

if TYPE_CHECKING:
    from tests.integration.gcp.conftest import Gce

INSERT = r"^POST projects/test-project/zones/europe-west4-b/instances$"
CHANGES = r"^(POST|DELETE|PATCH|PUT) "
KEY = ("europe-west4-b", "bench-snp")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_make_then_nothing_to_do_then_remove_then_nothing_to_remove(gce: Gce, kind: str) -> None:
    made = gce.vm(kind)
    assert made.status == 0, made.answer
    assert (made.answer["changed"], made.answer["action"]) == (True, "created")
    vm = made.answer["vm"]
    asked = KINDS[kind].get("confidential_instance_type", "none")
    assert vm["confidential_instance_type"] == asked
    assert (vm["address"], vm["internal_address"]) == ("203.0.113.10", "10.164.0.2")
    assert vm["ends_at"]

    again = gce.vm(kind)
    assert (again.answer["changed"], again.answer["action"]) == (False, "none")
    assert again.answer["diff"]["before"] == again.answer["diff"]["after"]
    assert again.answer["vm"] == vm
    assert gce.double.count(INSERT) == 1

    gone = gce.vm(kind, state="absent")
    assert (gone.answer["changed"], gone.answer["action"]) == (True, "deleted")
    assert (gce.double.store.instances, gce.double.store.disks) == ({}, {})
    assert gce.vm(kind, state="absent").answer["changed"] is False
    assert gce.double.count("^DELETE ") == 1


def test_what_the_double_answers_is_valid_by_googles_schema(gce: Gce) -> None:
    gce.vm()
    assert discovery.violations("Instance", gce.double.store.instances[KEY]) == []


def test_the_newest_image_that_is_not_deprecated_is_taken(gce: Gce) -> None:
    gce.vm()
    _, body = next(item for item in gce.double.bodies if item[0].endswith("/instances"))
    source = body["disks"][0]["initializeParams"]["sourceImage"]
    assert source == "projects/ubuntu-os-cloud/global/images/ubuntu-2404-v2"


def test_check_mode_changes_nothing_and_says_what_it_would_do(gce: Gce) -> None:
    would = gce.vm(check=True)
    assert (would.answer["changed"], would.answer["action"]) == (True, "created")
    assert would.answer["diff"]["before"] == {}
    assert would.answer["diff"]["after"]["machineType"] == "n2d-standard-2"
    gce.vm()
    changes = gce.double.count(CHANGES)
    bigger = gce.vm(check=True, machine_type="n2d-standard-4", recreate=True)
    assert bigger.answer["action"] == "recreated"
    assert bigger.answer["diff"]["before"]["machineType"] == "n2d-standard-2"
    assert bigger.answer["diff"]["after"]["machineType"] == "n2d-standard-4"
    assert gce.vm(check=True, state="absent").answer["changed"] is True
    assert gce.double.count(CHANGES) == changes
    assert list(gce.double.store.instances) == [KEY]


def test_labels_and_metadata_change_in_place_and_keep_what_others_added(gce: Gce) -> None:
    number = gce.vm().answer["vm"]["id"]
    instance = gce.double.store.instances[KEY]
    instance["labels"]["goog-added"] = "1"
    changed = gce.vm(
        labels={"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-2"},
        metadata={"ssh-keys": "bench:ssh-ed25519 BBBB"},
    )
    assert changed.answer["action"] == "updated", changed.answer
    assert changed.answer["vm"]["id"] == number
    assert gce.double.store.instances[KEY]["labels"] == {
        "tpm-fleet-bench": "trial",
        "tpm-fleet-bench-run": "run-2",
        "goog-added": "1",
    }
    assert gce.double.count(INSERT) == 1


def test_a_change_that_needs_a_new_vm_is_refused_unless_allowed(gce: Gce) -> None:
    number = gce.vm().answer["vm"]["id"]
    refused = gce.vm(machine_type="n2d-standard-4")
    assert refused.status == 1
    assert refused.answer["kind"] == "needs-recreation"
    assert "machineType is n2d-standard-2, not n2d-standard-4" in refused.answer["msg"]
    assert gce.double.store.instances[KEY]["id"] == number

    anew = gce.vm(machine_type="n2d-standard-4", recreate=True)
    assert (anew.status, anew.answer["action"]) == (0, "recreated")
    assert anew.answer["vm"]["id"] != number
    assert anew.answer["vm"]["machine_type"] == "n2d-standard-4"
    assert len(gce.double.store.instances) == 1


def test_a_vm_of_someone_else_is_neither_changed_nor_removed(gce: Gce) -> None:
    gce.vm()
    gce.double.store.instances[KEY]["labels"] = {"team": "other"}
    changes = gce.double.count(CHANGES)
    for state in ("present", "absent"):
        refused = gce.vm(state=state)
        assert (refused.status, refused.answer["kind"]) == (1, "not-ours")
    assert gce.double.count(CHANGES) == changes


def test_a_stopped_vm_needs_a_new_one(gce: Gce) -> None:
    gce.vm()
    gce.double.store.instances[KEY]["status"] = "TERMINATED"
    assert "status is TERMINATED, not RUNNING" in gce.vm().answer["msg"]
    assert gce.vm(recreate=True).answer["action"] == "recreated"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_run_duration": None}, "a VM without a deadline is not made"),
        ({"max_run_duration": 10}, "30 s to 10368000 s"),
        ({"machine_type": "e2-micro"}, "e2-micro has no SEV_SNP"),
        ({"labels": {}}, "labels must name the fleet"),
    ],
)
def test_what_breaks_a_rule_is_said_before_any_call(
    gce: Gce, changes: dict[str, Any], words: str
) -> None:
    refused = gce.vm(**changes)
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert words in refused.answer["msg"]
    assert gce.double.requests == []


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"image_family": "plain"}, "image", "has no guestOsFeatures SEV_SNP_CAPABLE"),
        ({"image": "plain-v1"}, "image", "Image plain-v1"),
        ({"image_family": "no-such"}, "not-found", "image_family"),
        ({"zone": "europe-west4-z"}, "machine-type", "europe-west4-z has no AMD Milan"),
        ({"zone": "mars-east1-a"}, "not-found", "mars-east1-a"),
    ],
)
def test_what_the_api_knows_better_is_asked_before_anything_is_made(
    gce: Gce, changes: dict[str, Any], kind: str, words: str
) -> None:
    refused = gce.vm(**changes)
    assert (refused.status, refused.answer["kind"]) == (1, kind), refused.answer
    assert words in refused.answer["msg"]
    assert gce.double.count(INSERT) == 0


def test_a_vm_that_is_not_what_was_asked_for_is_a_failure_with_both_values(gce: Gce) -> None:
    gce.double.fail(
        on=INSERT, alter={"confidentialInstanceConfig": {"confidentialInstanceType": "SEV"}}
    )
    wrong = gce.vm()
    assert (wrong.status, wrong.answer["kind"]) == (1, "mismatch")
    field = "confidentialInstanceConfig.confidentialInstanceType"
    assert f"{field} is SEV, not SEV_SNP" in wrong.answer["msg"]
