"""ec2_confidential_instance against the double: made, left alone, changed, made anew, removed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.ec2_double.store import LEGACY_IMAGE, OTHER_IMAGE
from tests.support.ec2_options import KINDS

if TYPE_CHECKING:
    from tests.integration.aws.conftest import Aws

CHANGES = r"^(Run|Terminate|Create|Delete|Authorize|Revoke)"
ROLE = "arn:aws:iam::123456789012:role/terminator"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_make_then_nothing_to_do_then_remove_then_nothing_to_remove(aws: Aws, kind: str) -> None:
    made = aws.vm(kind)
    assert made.status == 0, made.answer
    assert (made.answer["changed"], made.answer["action"]) == (True, "created")
    vm = made.answer["vm"]
    assert vm["confidential_instance_type"] == ("SEV_SNP" if kind == "snp" else "none")
    assert (vm["address"], vm["internal_address"]) == ("203.0.113.10", "172.31.0.5")
    started = aws.double.store.instances[vm["id"]]["LaunchTime"].replace(microsecond=0)
    assert datetime.fromisoformat(vm["ends_at"]) == started + timedelta(hours=2)

    again = aws.vm(kind)
    assert (again.answer["changed"], again.answer["action"]) == (False, "none")
    assert again.answer["diff"]["before"] == again.answer["diff"]["after"]
    assert again.answer["vm"] == vm
    assert aws.double.count("^RunInstances$") == 1

    gone = aws.vm(kind, state="absent")
    assert (gone.answer["changed"], gone.answer["action"]) == (True, "deleted")
    assert (aws.live(), aws.double.store.volumes) == ([], {})
    assert aws.vm(kind, state="absent").answer["changed"] is False
    assert aws.double.count("^TerminateInstances$") == 1


def test_what_is_sent_ends_the_vm_and_its_disk_by_itself(aws: Aws) -> None:
    aws.vm()
    (body,) = aws.double.made()
    assert body["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert body["BlockDeviceMappings"][0]["Ebs"]["DeleteOnTermination"] is True
    assert body["CpuOptions"] == {"AmdSevSnp": "enabled"}
    config = base64.b64decode(body["UserData"]).decode()
    assert config.startswith("#cloud-config\n")
    assert "shutdown" in json.loads(config.partition("\n")[2])["bootcmd"][0][2]
    for item in body["TagSpecifications"]:
        tags = {tag["Key"]: tag["Value"] for tag in item["Tags"]}
        assert tags["tpm-fleet-bench"] == "trial"
        assert tags["tpm-fleet-bench-run"] == "run-1"
        assert tags["tpm-fleet-bench-max-run-duration"] == "7200"


def test_check_mode_changes_nothing_and_says_what_it_would_do(aws: Aws) -> None:
    would = aws.vm(check=True)
    assert (would.answer["changed"], would.answer["action"]) == (True, "created")
    assert would.answer["diff"]["before"] == {}
    assert would.answer["diff"]["after"]["CpuOptions.AmdSevSnp"] == "enabled"
    number = aws.vm().answer["vm"]["id"]
    changes = aws.double.count(CHANGES)
    bigger = aws.vm(check=True, instance_type="m6a.xlarge", recreate=True)
    assert bigger.answer["action"] == "recreated"
    assert bigger.answer["diff"]["before"]["InstanceType"] == "m6a.large"
    assert bigger.answer["diff"]["after"]["InstanceType"] == "m6a.xlarge"
    assert aws.vm(check=True, state="absent").answer["changed"] is True
    assert aws.double.count(CHANGES) == changes
    assert aws.live() == [number]


def test_tags_change_in_place_and_keep_what_others_added(aws: Aws) -> None:
    number = aws.vm().answer["vm"]["id"]
    aws.double.store.instances[number]["Tags"].append({"Key": "team", "Value": "x"})
    changed = aws.vm(tags={"tpm-fleet-bench-run": "run-2"})
    assert changed.answer["action"] == "updated", changed.answer
    assert changed.answer["vm"]["id"] == number
    tags = changed.answer["vm"]["tags"]
    assert (tags["tpm-fleet-bench-run"], tags["team"]) == ("run-2", "x")


def test_a_change_that_needs_a_new_vm_is_refused_unless_allowed(aws: Aws) -> None:
    number = aws.vm().answer["vm"]["id"]
    refused = aws.vm(cpu_options_amd_sev_snp="disabled", max_run_duration=600)
    assert refused.answer["kind"] == "needs-recreation"
    assert "CpuOptions.AmdSevSnp is enabled, not disabled" in refused.answer["msg"]
    assert "max-run-duration is 7200, not 600" in refused.answer["msg"]
    assert aws.live() == [number]

    anew = aws.vm(instance_type="m6a.xlarge", recreate=True)
    assert (anew.status, anew.answer["action"]) == (0, "recreated"), anew.answer
    assert anew.answer["vm"]["machine_type"] == "m6a.xlarge"
    assert aws.live() == [anew.answer["vm"]["id"]] != [number]


def test_a_vm_of_another_fleet_or_of_nobody_is_left_alone(aws: Aws) -> None:
    number = aws.vm().answer["vm"]["id"]
    changes = aws.double.count(CHANGES)
    for state in ("present", "absent"):
        refused = aws.vm(state=state, fleet="second")
        assert (refused.status, refused.answer["kind"]) == (1, "not-ours")
        assert "it belongs to the fleet trial" in refused.answer["msg"]
    tags = aws.double.store.instances[number]["Tags"]
    tags[:] = [tag for tag in tags if tag["Key"] == "Name"]
    for state in ("present", "absent"):
        assert aws.vm(state=state).answer["kind"] == "not-ours"
    assert aws.double.count(CHANGES) == changes


def test_a_stopped_vm_needs_a_new_one(aws: Aws) -> None:
    number = aws.vm().answer["vm"]["id"]
    store = aws.double.store
    store.set_state(store.instances[number], "stopped")
    assert "State is stopped, not running" in aws.vm().answer["msg"]
    assert aws.vm(recreate=True).answer["action"] == "recreated"


def test_two_vms_of_one_name_are_said_to_be_and_removed_together(aws: Aws) -> None:
    aws.vm()
    twin = dict(aws.double.store.run(aws.double.made()[0] | {"ClientToken": "another"}, None))
    assert "There are 2 VMs bench-snp" in aws.vm().answer["msg"]
    assert twin["InstanceId"] in aws.live()
    assert aws.vm(state="absent").status == 0
    assert aws.live() == []


def test_a_schedule_of_aws_keeps_the_deadline_too(aws: Aws) -> None:
    made = aws.vm(schedule_role=ROLE).answer
    number = made["vm"]["id"]
    (name, schedule), = aws.double.store.schedules.items()  # fmt: skip
    assert name == f"tfb.trial.{number}"
    ends = datetime.fromisoformat(made["vm"]["ends_at"]).astimezone(UTC)
    assert schedule["ScheduleExpression"] == f"at({ends:%Y-%m-%dT%H:%M:%S})"
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert json.loads(schedule["Target"]["Input"]) == {"InstanceIds": [number]}
    assert schedule["Target"]["Arn"].endswith(":ec2:terminateInstances")
    assert aws.vm(schedule_role=ROLE).answer["action"] == "none"
    order = [one for one in aws.double.requests if one in ("RunInstances", "CreateSchedule")]
    assert order == ["RunInstances", "CreateSchedule"]
    begun = aws.double.requests.index("RunInstances")
    assert aws.double.requests[begun + 1 : begun + 3] == ["DeleteSchedule", "CreateSchedule"]

    schedule["ScheduleExpression"] = "at(2030-01-01T00:00:00)"
    assert aws.vm(schedule_role=ROLE, check=True).answer["action"] == "updated"
    assert aws.vm(schedule_role=ROLE).answer["action"] == "updated"
    assert aws.vm(schedule_role=ROLE).answer["action"] == "none"
    anew = aws.vm(schedule_role=ROLE, instance_type="m6a.xlarge", recreate=True).answer
    assert list(aws.double.store.schedules) == [f"tfb.trial.{anew['vm']['id']}"]
    aws.vm(state="absent")
    assert aws.double.store.schedules == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_run_duration": None}, "a VM without a deadline is not made"),
        ({"image": None}, "no public Ubuntu image is known"),
        ({"instance_type": "t3.micro"}, "t3.micro has no SEV-SNP"),
        ({"region": "eu-north-1"}, "eu-north-1 has no SEV-SNP"),
        ({"fleet": ""}, "tags must name the fleet"),
        ({"fleet": "", "state": "absent"}, "tags must name the fleet"),
    ],
)
def test_what_breaks_a_rule_is_said_before_any_call(
    aws: Aws, changes: dict[str, Any], words: str
) -> None:
    refused = aws.vm(**changes)
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert words in refused.answer["msg"]
    assert aws.double.requests == []


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"image": OTHER_IMAGE}, "image", "TpmSupport is unset, not v2.0"),
        ({"image": LEGACY_IMAGE}, "image", "BootMode is legacy-bios, not uefi or uefi-preferred"),
        ({"image": "ami-0123456789abcdef0"}, "image", "Choose another image of eu-west-1"),
        (
            {"cpu_options_amd_sev_snp": "disabled", "instance_type": "t2.nano"},
            "machine-type",
            "eu-west-1 has no machine type t2.nano",
        ),
    ],
)
def test_what_the_api_knows_better_is_asked_before_anything_is_made(
    aws: Aws, changes: dict[str, Any], kind: str, words: str
) -> None:
    refused = aws.vm(**changes)
    assert (refused.status, refused.answer["kind"]) == (1, kind), refused.answer
    assert words in refused.answer["msg"]
    assert aws.double.count("^RunInstances$") == 0


def test_a_vm_that_is_not_what_was_asked_for_is_a_failure_with_both_values(aws: Aws) -> None:
    aws.double.fail(on="RunInstances", alter={"CpuOptions": {"CoreCount": 1}})
    wrong = aws.vm()
    assert (wrong.status, wrong.answer["kind"]) == (1, "mismatch")
    assert "CpuOptions.AmdSevSnp is disabled, not enabled" in wrong.answer["msg"]


def test_validation_alone_sends_nothing(aws: Aws) -> None:
    assert aws.vm(validate_only=True).answer["changed"] is False
    assert aws.vm(validate_only=True, image=None).status == 1
    assert aws.double.requests == []
