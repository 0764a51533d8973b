"""The requests: valid by botocore's own models, and what they say."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

import botocore
import pytest
from botocore.serialize import create_serializer

from tests.support.ec2_double import model, rules
from tests.support.ec2_double.store import IMAGE, Store
from tests.support.ec2_options import options

ROLE = "arn:aws:iam::123456789012:role/terminator"


def build(wanted: dict[str, Any]) -> dict[str, Any]:
    from ansible.module_utils.ec2_body import instance_body

    return instance_body(wanted, "/dev/sda1")


def read(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send it through botocore's serializer and read it as the double does."""
    one = model.model("ec2").operation_model(operation)
    sent = create_serializer("ec2").serialize_to_request(body, one)["body"]
    form = {name: str(value) for name, value in sent.items() if name not in ("Action", "Version")}
    return model.from_query(one.input_shape, form)


def test_models_are_the_recorded_ones() -> None:
    assert botocore.__version__ == model.VERSION
    for service, (_, digest) in model.MODELS.items():
        assert hashlib.sha256(model.model_bytes(service)).hexdigest() == digest


def test_body_is_valid_by_botocores_model(wanted: dict[str, Any]) -> None:
    body = build(wanted)
    assert read("RunInstances", body) == body


def test_body_obeys_the_rules_that_the_model_lacks(wanted: dict[str, Any]) -> None:
    image = Store("eu-west-1", None, None).images[IMAGE]
    assert rules.run_instances(build(wanted), image, "eu-west-1") is None


def test_every_option_at_once_is_valid_by_botocores_model() -> None:
    body = build(
        options(
            "snp",
            availability_zone="eu-west-1b",
            subnet="subnet-0a",
            security_groups=["sg-2", "sg-1"],
            external_address=False,
            disk_size_gb=20,
        )
    )
    assert read("RunInstances", body) == body
    assert body["NetworkInterfaces"] == [
        {
            "DeviceIndex": 0,
            "AssociatePublicIpAddress": False,
            "DeleteOnTermination": True,
            "SubnetId": "subnet-0a",
            "Groups": ["sg-1", "sg-2"],
        }
    ]
    assert body["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 20
    assert body["Placement"] == {"AvailabilityZone": "eu-west-1b"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("CpuOptions", "AmdSevSnp"), "true"),
        (("CpuOptions", "amd_sev_snp"), "enabled"),
        (("InstanceInitiatedShutdownBehavior",), "delete"),
        (("InstanceType",), "m6a.tiny"),
        (("MinCount",), "one"),
        (("TpmSupport",), "v2.0"),
        (("MaxCount",), None),
    ],
)
def test_the_double_catches_what_a_body_builder_gets_wrong(
    path: tuple[str, ...], value: Any
) -> None:
    form = {
        "ImageId": IMAGE,
        "InstanceType": "m6a.large",
        "MinCount": "1",
        "MaxCount": "1",
        "CpuOptions.AmdSevSnp": "enabled",
    }
    shape = model.model("ec2").operation_model("RunInstances").input_shape
    assert model.from_query(shape, form)["CpuOptions"] == {"AmdSevSnp": "enabled"}
    name = ".".join(path)
    wrong = form | {name: value} if value is not None else {k: form[k] for k in form if k != name}
    with pytest.raises(model.Invalid):
        model.from_query(shape, wrong)


def test_the_answers_that_the_double_writes_are_read_by_botocore() -> None:
    with pytest.raises(KeyError):
        model.to_xml(model.model("ec2").shape_for("Instance"), {"Tpm": "v2.0"})


def test_every_vm_has_a_deadline_and_takes_its_disk_along(wanted: dict[str, Any]) -> None:
    body = build(wanted)
    assert body["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert [item["Ebs"]["DeleteOnTermination"] for item in body["BlockDeviceMappings"]] == [True]
    kinds = {item["ResourceType"]: item["Tags"] for item in body["TagSpecifications"]}
    assert set(kinds) == {"instance", "volume", "network-interface"}
    for tags in kinds.values():
        assert {"Key": "tpm-fleet-bench", "Value": "trial"} in tags
        assert {"Key": "tpm-fleet-bench-max-run-duration", "Value": "7200"} in tags


def test_a_control_asks_for_nothing_confidential() -> None:
    assert "CpuOptions" not in build(options("snp-control"))


def test_user_data_is_what_cloud_init_reads() -> None:
    from ansible.module_utils.ec2_body import user_data

    first, _, rest = user_data(options("snp")).partition("\n")
    assert first == "#cloud-config"
    config = json.loads(rest)
    (user,) = config["users"]
    assert (user["name"], user["ssh_authorized_keys"]) == (
        "bench",
        ["ssh-ed25519 AAAA bench@here"],
    )
    assert config["ssh"] == {"emit_keys_to_console": True}
    assert len(user_data(options("snp"))) < 16384  # EC2's limit
    assert "users" not in user_data(options("snp", user=None))


def test_the_token_is_the_same_for_the_same_vm_and_another_after_it() -> None:
    from ansible.module_utils.ec2_body import client_token

    body = build(options("snp"))
    token = client_token(body, [])
    assert re.fullmatch(r"[0-9a-f]{64}", token)
    assert client_token(build(options("snp")), []) == token
    others = {
        client_token(body, ["i-1"]),
        client_token(build(options("snp-control")), []),
        client_token(build(options("snp", tags={"tpm-fleet-bench-run": "run-2"})), []),
    }
    assert len(others | {token}) == 4


def answer(wanted: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The VM as the API would describe it, with what nobody asked for."""
    body = build(wanted)
    tags = body["TagSpecifications"][0]["Tags"]
    return {
        "InstanceId": "i-1",
        "ImageId": body["ImageId"],
        "InstanceType": body["InstanceType"],
        "CpuOptions": {"CoreCount": 1, "ThreadsPerCore": 2} | body.get("CpuOptions", {}),
        "TpmSupport": "v2.0",
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"DeleteOnTermination": True}}],
        "Tags": [*tags, {"Key": "aws:added", "Value": "1"}],
    } | changes


def compare(wanted: dict[str, Any], found: dict[str, Any], behaviour: str = "terminate") -> Any:
    from ansible.module_utils.ec2_body import differences, managed, wanted_fields

    return differences(wanted_fields(wanted), managed(found, behaviour))


def test_what_aws_adds_is_no_difference(wanted: dict[str, Any]) -> None:
    assert compare(wanted, answer(wanted)) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"CpuOptions": {}}, {"CpuOptions.AmdSevSnp": ("disabled", "enabled")}),
        ({"InstanceType": "m6a.xlarge"}, {"InstanceType": ("m6a.xlarge", "m6a.large")}),
        ({"TpmSupport": None}, {"TpmSupport": (None, "v2.0")}),
        (
            {"BlockDeviceMappings": [{"Ebs": {"DeleteOnTermination": False}}]},
            {"DeleteOnTermination": (False, True)},
        ),
    ],
)
def test_differences_name_both_values(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    wanted = options("snp")
    assert compare(wanted, answer(wanted, **changes)) == expected


def test_a_vm_that_would_only_stop_and_a_control_that_became_confidential_differ() -> None:
    wanted = options("snp-control")
    assert compare(wanted, answer(wanted), "stop") == {
        "InstanceInitiatedShutdownBehavior": ("stop", "terminate")
    }
    snp = answer(wanted, CpuOptions={"AmdSevSnp": "enabled"})
    assert compare(wanted, snp) == {"CpuOptions.AmdSevSnp": ("enabled", "disabled")}


def test_the_schedule_is_valid_by_botocores_model() -> None:
    from ansible.module_utils.ec2_schedule import schedule_body

    at = datetime(2026, 12, 1, 10, 30, 5, tzinfo=UTC)
    body = schedule_body("f" * 40, "i-0123456789abcdef0", at, ROLE)
    shape = model.model("scheduler").operation_model("CreateSchedule").input_shape
    assert model.from_json(shape, body) == body
    assert rules.create_schedule(body) is None
    assert len(body["Name"]) == 64
    assert body["ScheduleExpression"] == "at(2026-12-01T10:30:05)"
    wrong = body | {"ScheduleExpression": "at(2026-12-01 10:30)"}
    assert rules.create_schedule(wrong) is not None
    with pytest.raises(model.Invalid):
        model.from_json(shape, body | {"ActionAfterCompletion": "GO"})
