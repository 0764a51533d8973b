"""What is another's is neither changed nor removed, and what is ours is found and goes."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.ec2_double import Vm

if TYPE_CHECKING:
    from tests.integration.aws.conftest import Aws

ROLE = "arn:aws:iam::123456789012:role/terminator"
RULE = {"fleet": "trial", "source_ranges": ["192.0.2.0/24"]}


def retagged(aws: Aws, number: str, key: str, value: str) -> None:
    """Let someone edit a VM's tag by hand."""
    for tag in aws.double.store.instances[number]["Tags"]:
        if tag["Key"] == key:
            tag["Value"] = value


def test_our_vm_goes_though_another_has_its_name(aws: Aws) -> None:
    """On EC2 a name is a tag, which anyone may give to theirs at any time."""
    ours = aws.vm().answer["vm"]["id"]
    theirs = aws.vm(name="theirs", fleet="second").answer["vm"]["id"]
    retagged(aws, theirs, "Name", "bench-snp")
    before = copy.deepcopy(aws.double.store.instances[theirs])
    gone = aws.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert aws.live() == [theirs] != [ours]
    for state in ("absent", "present"):
        refused = aws.vm(state=state, recreate=True)
        assert (refused.status, refused.answer["kind"]) == (1, "not-ours"), refused.answer
    assert aws.double.store.instances[theirs] == before


@pytest.mark.parametrize("fleet", ["*", "tri?l", "trial,second"])
def test_a_filter_has_no_wildcards(aws: Aws, fleet: str) -> None:
    """The API takes ``*`` and ``?`` in a tag's value for any."""
    aws.vm()
    refused = aws.run("ec2_leftovers", state="absent", fleet=fleet)
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert len(aws.live()) == 1


def test_what_an_unfiltered_list_has_besides_is_not_ours(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.vm(name="ours")
    theirs = [aws.vm(name=fleet, fleet=fleet).answer["vm"]["id"] for fleet in ("one", "two")]
    aws.double.store.instances[theirs[1]]["Tags"] = []
    monkeypatch.setattr("tests.support.ec2_double.methods._passing", lambda items, _: list(items))
    aws.run("ec2_leftovers", state="absent", fleet="trial", kinds=["volumes", "security_groups"])
    swept = aws.run("ec2_leftovers", fleet="trial", kinds=["instances"])
    assert [item["name"] for item in swept.answer["found"]] == ["ours"]
    every = aws.run("ec2_leftovers", kinds=["instances"])
    assert {item["name"] for item in every.answer["found"]} == {"ours", "one"}


def test_a_vm_with_time_left_is_swept_by_age_only_if_that_is_asked_for(aws: Aws) -> None:
    group = aws.run("ec2_ssh_ingress", **RULE).answer["group_id"]
    vm = {"security_groups": [group], "schedule_role": ROLE}
    numbers = {
        name: aws.vm(name=name, max_run_duration=hours * 3600, **vm).answer["vm"]["id"]
        for name, hours in (("long", 8), ("over", 2))
    }
    store, then = aws.double.store, datetime.now(UTC) - timedelta(hours=3)
    for number in numbers.values():
        store.instances[number]["LaunchTime"] = then
        disk = store.instances[number]["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
        store.volumes[disk] |= {"CreateTime": then, "Attachments": [{"InstanceId": number}]}
        store.schedules[f"tfb.trial.{number}"]["CreationDate"] = then
    for tag in store.groups[group]["Tags"]:
        if tag["Key"] == "tpm-fleet-bench-made":
            tag["Value"] = "by hand"
    how = {"state": "absent", "min_age": 7200}
    swept = aws.run("ec2_leftovers", **how, keep_until_deadline=True)
    assert swept.status == 0, swept.answer
    kinds = [(item["kind"], item["vm"]) for item in swept.answer["found"]]
    assert sorted(kinds) == [("instances", "over"), ("schedules", ""), ("volumes", "over")]
    assert aws.live() == [numbers["long"]]
    assert list(store.schedules) == [f"tfb.trial.{numbers['long']}"]
    assert list(store.groups) == [group]
    assert aws.run("ec2_leftovers", **how).status == 0
    assert aws.live() == []
    assert store.groups == store.schedules == {}


@pytest.mark.parametrize("edited", ["", "soon", "²", "9" * 30])
def test_an_edited_deadline_is_no_deadline(aws: Aws, edited: str) -> None:
    number = aws.vm(schedule_role=ROLE).answer["vm"]["id"]
    retagged(aws, number, "tpm-fleet-bench-max-run-duration", edited)
    refused = aws.vm(schedule_role=ROLE)
    assert (refused.status, refused.answer["kind"]) == (1, "needs-recreation"), refused.answer
    swept = aws.run("ec2_leftovers", state="absent", keep_until_deadline=True)
    assert swept.status == 0, swept.answer
    assert aws.live() == []


@pytest.mark.parametrize("state", ["stopped", "shutting-down", "terminated"])
def test_a_vm_that_ends_meanwhile_is_not_waited_for(aws: Aws, state: str) -> None:
    aws.double.store._boot = lambda _: Vm(console="")
    number = aws.vm().answer["vm"]["id"]
    aws.double.store.set_state(aws.double.store.instances[number], state)
    failed = aws.run("ec2_instance_identity", instance_id=number)
    assert (failed.status, failed.answer["kind"]) == (1, "vanished")
    assert f"{number} is {state}" in failed.answer["msg"]


def test_rules_that_another_hosts_task_takes_away_meanwhile_are_no_failure(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one's own address has changed every host takes the old one away, all at once."""
    from ansible.module_utils import ec2_ingress

    aws.run("ec2_ssh_ingress", **(RULE | {"source_ranges": ["198.51.100.7/32"]}))
    change, (group,) = ec2_ingress._set_ranges, aws.double.store.groups.values()

    def after_another(*given: object) -> None:
        group["IpPermissions"] = []
        monkeypatch.setattr(ec2_ingress, "_set_ranges", change)
        change(*given)

    monkeypatch.setattr(ec2_ingress, "_set_ranges", after_another)
    done = aws.run("ec2_ssh_ingress", **RULE)
    assert (done.status, done.answer["changed"]) == (0, True), done.answer
    assert [entry["IpRanges"] for entry in group["IpPermissions"]] == [[{"CidrIp": "192.0.2.0/24"}]]
