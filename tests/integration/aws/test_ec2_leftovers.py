"""Finding and removing what is left, the security group, and the keys of a VM."""

from __future__ import annotations

import base64
import textwrap
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.ec2_double import Vm
from tests.support.ec2_options import GIVEN

if TYPE_CHECKING:
    from tests.integration.aws.conftest import Aws

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs1lPpPFcFjqVxw1kZEr3vdHnWlwXmKqCF8YzPvVvxz"
ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA=="
BLOCK = "-----BEGIN SSH HOST KEY KEYS-----\r\n{}\r\n-----END SSH HOST KEY KEYS-----\r\n"
ROLE = "arn:aws:iam::123456789012:role/terminator"
RULE = {"fleet": "trial", "source_ranges": ["192.0.2.0/24", "2001:db8::/32"]}


def left(aws: Aws, region: str = "eu-west-1") -> set[str]:
    store = aws.double.stores[region]
    held = {f"vm {store.name_of(item)}" for item in store.live()}
    held |= {f"disk {store.name_of(item) or 'theirs'}" for item in store.volumes.values()}
    held |= {f"schedule {name.split('.')[1]}" for name in store.schedules}
    return held | {f"group {item['GroupName']}" for item in store.groups.values()}


def populate(aws: Aws) -> None:
    """Two fleets, an old VM, a disk that lost its VM, a group, and things of other people."""
    store, then = aws.double.store, datetime.now(UTC) - timedelta(seconds=8000)
    for name, fleet in (("old", "trial"), ("new", "trial"), ("other", "second")):
        made = aws.vm(name=name, fleet=fleet, schedule_role=ROLE if name == "old" else None)
        assert made.status == 0, made.answer
        if name == "old":
            old = made.answer["vm"]["id"]
    store.instances[old]["LaunchTime"] = then
    disk = store.instances[old]["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    store.volumes[disk]["CreateTime"] = then
    store.schedules[f"tfb.trial.{old}"]["CreationDate"] = then
    orphan = {"Tags": [{"Key": "tpm-fleet-bench", "Value": "trial"},
                       {"Key": "Name", "Value": "orphan"}]}  # fmt: skip
    store.volumes["vol-0f"] = store.volumes[disk] | orphan | {"VolumeId": "vol-0f",
                                                              "State": "available"}  # fmt: skip
    assert aws.run("ec2_ssh_ingress", **RULE).status == 0
    (group,) = store.groups.values()
    for tag in group["Tags"]:
        if tag["Key"] == "tpm-fleet-bench-made":
            tag["Value"] = then.isoformat()
    store.groups["sg-theirs"] = group | {"GroupId": "sg-theirs", "GroupName": "theirs", "Tags": []}
    theirs = {"VolumeId": "vol-0e", "State": "available", "CreateTime": then, "Tags": []}
    store.volumes["vol-0e"] = theirs
    # A schedule of ours by name alone, that does something else.
    store.schedules["tfb.trial.i-0"] = {
        "State": "ENABLED",
        "CreationDate": then,
        "Target": {"Arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances"},
    }


def test_everything_of_ours_is_listed_with_its_age(aws: Aws) -> None:
    populate(aws)
    aws.double.page(2)  # so that there are several pages
    found = aws.run("ec2_leftovers").answer
    assert found["changed"] is False
    ages = {(item["kind"], item["fleet"], item["name"]): item["age"] for item in found["found"]}
    number = next(item["id"] for item in found["found"] if item["name"] == "old")
    assert set(ages) == {
        ("instances", "trial", "old"),
        ("instances", "trial", "new"),
        ("instances", "second", "other"),
        ("volumes", "trial", "old"),
        ("volumes", "trial", "new"),
        ("volumes", "second", "other"),
        ("volumes", "trial", "orphan"),
        ("schedules", "trial", f"tfb.trial.{number}"),
        ("security_groups", "trial", "tpm-fleet-bench-trial-ssh"),
    }
    assert 8000 <= ages["instances", "trial", "old"] < 8600
    assert ages["instances", "trial", "new"] < 600
    assert 8000 <= ages["security_groups", "trial", "tpm-fleet-bench-trial-ssh"] < 8600


def test_sweep_removes_by_tag_and_age_and_nothing_else(aws: Aws) -> None:
    populate(aws)
    before = left(aws)
    would = aws.run("ec2_leftovers", check=True, state="absent", min_age=7200)
    assert would.answer["changed"] is True
    assert left(aws) == before
    swept = aws.run("ec2_leftovers", state="absent", min_age=7200)
    assert swept.status == 0, swept.answer
    assert before - left(aws) == {"vm old", "disk old", "disk orphan"}
    assert len(aws.double.store.schedules) == 1
    aws.run("ec2_leftovers", state="absent", fleet="trial")
    theirs = {"disk theirs", "group theirs", "schedule trial"}
    assert left(aws) == {"vm other", "disk other"} | theirs
    again = aws.run("ec2_leftovers", state="absent", fleet="trial")
    assert (again.status, again.answer["changed"]) == (0, False)
    assert aws.run("ec2_leftovers", state="absent").status == 0
    assert left(aws) == theirs


def test_an_empty_fleet_is_not_every_fleet(aws: Aws) -> None:
    aws.vm()
    refused = aws.run("ec2_leftovers", state="absent", fleet="")
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert len(aws.live()) == 1


def test_a_fleet_is_not_taken_for_one_whose_name_begins_like_it(aws: Aws) -> None:
    aws.vm(fleet="trial-2", schedule_role=ROLE)
    assert aws.run("ec2_leftovers", fleet="trial").answer["found"] == []


def test_regions_are_looked_at_one_by_one(aws: Aws) -> None:
    aws.vm(region="us-east-2")
    assert aws.run("ec2_leftovers").answer["found"] == []
    both = {"region": "eu-west-1", "regions": ["us-east-2", "eu-west-1"]}
    found = aws.run("ec2_leftovers", **both, state="absent").answer["found"]
    assert {item["region"] for item in found} == {"us-east-2"}
    assert left(aws, "us-east-2") == set()


def test_only_some_kinds(aws: Aws) -> None:
    aws.vm()
    aws.run("ec2_ssh_ingress", **RULE)
    kinds = {"kinds": ["schedules", "security_groups"]}
    aws.run("ec2_leftovers", fleet="trial", state="absent", **kinds)
    group = "group tpm-fleet-bench-trial-ssh"  # which the VM that stays needs
    assert left(aws) == {"vm bench-snp", "disk bench-snp", group}
    aws.run("ec2_leftovers", fleet="trial", state="absent", kinds=["instances"])
    assert left(aws) - {"disk bench-snp"} == {group}  # a disk outlives its VM a little
    aws.run("ec2_leftovers", fleet="trial", state="absent", **kinds)
    assert left(aws) - {"disk bench-snp"} == set()


def test_a_vm_that_cannot_be_removed_does_not_keep_the_others(aws: Aws) -> None:
    for name in ("one", "two"):
        aws.vm(name=name)
    denied = "You are not authorized to perform this operation."
    code = "UnauthorizedOperation"
    aws.double.fail(on="^TerminateInstances$", status=403, code=code, message=denied)
    failed = aws.run("ec2_leftovers", state="absent", fleet="trial")
    assert (failed.status, failed.answer["kind"]) == (1, "permission")
    assert "Grant ec2:TerminateInstances" in failed.answer["msg"]
    assert len(aws.live()) == 1


def test_a_list_that_is_refused_is_no_proof_of_absence(aws: Aws) -> None:
    aws.double.fail(on="^ListSchedules$", status=403, code="AccessDeniedException", message="No.")
    failed = aws.run("ec2_leftovers")
    assert (failed.status, failed.answer["kind"]) == (1, "permission")
    assert "Grant scheduler:ListSchedules" in failed.answer["msg"]


def test_the_security_group_is_idempotent_and_only_ours(aws: Aws) -> None:
    assert aws.run("ec2_ssh_ingress", check=True, **RULE).answer["changed"] is True
    assert aws.double.store.groups == {}
    made = aws.run("ec2_ssh_ingress", **RULE).answer
    assert made["changed"] is True
    assert aws.run("ec2_ssh_ingress", **RULE).answer["changed"] is False
    other = aws.run("ec2_ssh_ingress", **(RULE | {"source_ranges": ["198.51.100.7/32"]}))
    assert other.answer["diff"]["before"]["source_ranges"] == RULE["source_ranges"]
    assert other.answer["group_id"] == made["group_id"]
    (entry,) = aws.double.store.groups[made["group_id"]]["IpPermissions"]
    assert entry == {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "IpRanges": [{"CidrIp": "198.51.100.7/32"}],
    }
    entry["UserIdGroupPairs"] = [{"GroupId": "sg-other"}]
    aws.double.store.groups[made["group_id"]]["IpPermissions"].append({"IpProtocol": "-1"})
    assert aws.run("ec2_ssh_ingress", **RULE).answer["changed"] is True
    assert aws.run("ec2_ssh_ingress", **RULE).answer["changed"] is False
    gone = {"state": "absent", "fleet": "trial"}
    assert aws.run("ec2_ssh_ingress", **gone).answer["changed"] is True
    assert aws.run("ec2_ssh_ingress", **gone).answer["changed"] is False
    made = aws.run("ec2_ssh_ingress", **RULE).answer
    aws.double.store.groups[made["group_id"]]["Tags"] = []
    for state in ("present", "absent"):
        assert aws.run("ec2_ssh_ingress", **RULE, state=state).answer["kind"] == "not-ours"


def test_a_lost_response_does_not_keep_the_group_from_being_found(aws: Aws) -> None:
    aws.double.fail(on="^CreateSecurityGroup$", lose_response=True)
    assert aws.run("ec2_ssh_ingress", **RULE).status == 0
    assert len(aws.double.store.groups) == 1


def test_the_group_is_made_where_the_subnet_is(aws: Aws) -> None:
    made = aws.run("ec2_ssh_ingress", **RULE, subnet="subnet-0a").answer
    assert aws.double.store.groups[made["group_id"]]["VpcId"] == "vpc-0other"
    aws.double.store.vpcs.clear()
    failed = aws.run("ec2_ssh_ingress", **RULE)
    assert failed.answer["kind"] == "not-found"
    assert "has no default VPC" in failed.answer["msg"]


def test_a_group_in_use_is_waited_for(aws: Aws) -> None:
    group = aws.run("ec2_ssh_ingress", **RULE).answer["group_id"]
    number = aws.vm(security_groups=[group]).answer["vm"]["id"]
    aws.goes_after(number, looks=4)
    assert aws.run("ec2_ssh_ingress", state="absent", fleet="trial").status == 0
    assert aws.double.store.groups == {}


def boots(aws: Aws, vm: Vm) -> dict[str, Any]:
    aws.double.store._boot = lambda _: vm
    return {"instance_id": aws.vm(**GIVEN).answer["vm"]["id"]}


def test_host_keys_come_from_the_console_and_endorsement_keys_from_the_api(aws: Aws) -> None:
    public = ec.generate_private_key(ec.SECP384R1()).public_key()
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = "x" * 70000 + "\r\n" + BLOCK.format(f"{ECDSA} root@old")
    text += BLOCK.format(f"{ED25519} root@bench-snp") + "login: "
    keys = {"ecc-sec-p384": base64.b64encode(der).decode()}
    vm = boots(aws, Vm(console=text, endorsement_keys=keys))
    read = aws.run("ec2_instance_identity", **vm).answer
    assert read["host_keys"] == [ED25519]
    (pem,) = read["endorsement_keys"]
    assert serialization.load_pem_public_key(textwrap.dedent(pem).encode()) == public


@pytest.mark.parametrize("console", ["", "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA"])
def test_host_keys_that_do_not_appear_are_waited_for_and_then_missed(
    aws: Aws, console: str
) -> None:
    vm = boots(aws, Vm(console=console))
    failed = aws.run("ec2_instance_identity", **vm, timeout=1)
    assert (failed.status, failed.answer["kind"]) == (1, "deadline")
    assert "has printed no SSH host keys" in failed.answer["msg"]
