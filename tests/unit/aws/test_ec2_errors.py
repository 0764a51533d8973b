"""Refusals as AWS words them, and the class and remedy that each gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.ec2_double import Ec2Double

DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/b is "
    "not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:eu-west-1:1:instance/* "
    "because no identity-based policy allows it. Encoded authorization failure message: 4GIOHlTk"
)


@pytest.mark.parametrize(
    ("code", "message", "status", "kind", "words"),
    [
        ("UnauthorizedOperation", DENIED, 403, "permission", "Grant ec2:RunInstances to"),
        ("UnauthorizedOperation", "No.", 403, "permission", "Grant ec2:DescribeImages to"),
        ("InsufficientInstanceCapacity", "We have no", 500, "capacity", "eu-west-1 has no such"),
        ("VcpuLimitExceeded", "You have requested more vCPU", 400, "quota", "Service Quotas"),
        ("MaxSpotInstanceCountExceeded", "Max", 400, "quota", "Service Quotas"),
        ("RequestLimitExceeded", "Request limit exceeded.", 503, "rate", "run again in a minute"),
        ("ThrottlingException", "Rate exceeded", 400, "rate", "Too many"),
        ("InternalError", "An internal error", 500, "server", "run again"),
        ("Whatever", "x", 502, "server", "run again"),
        ("", "", 429, "rate", "DescribeImages was refused with 429"),
        ("AuthFailure", "AWS was not able to validate", 401, "credentials", "clock"),
        ("ExpiredToken", "The security token is expired", 400, "credentials", "log in again"),
        ("OptInRequired", "You are not subscribed", 401, "region", "Is eu-west-1 enabled"),
        ("InvalidAMIID.NotFound", "does not exist", 400, "image", "another image of eu-west-1"),
        (
            "InvalidParameterCombination",
            "The instance type requires boot mode uefi",
            400,
            "image",
            "TpmSupport v2.0",
        ),
        (
            "InvalidParameterCombination",
            "The CpuOptions AmdSevSnp is not supported",
            400,
            "machine-type",
            "which machine types have SEV-SNP",
        ),
        ("Unsupported", "The requested configuration", 400, "machine-type", "docs/clouds.md"),
        ("InvalidInstanceID.NotFound", "does not exist", 400, "not-found", "spelled right"),
        ("ResourceNotFoundException", "Schedule x", 404, "not-found", "spelled right"),
        ("InvalidGroup.Duplicate", "exists", 400, "conflict", "Run again."),
        ("IdempotentParameterMismatch", "differ", 400, "conflict", "Run again."),
        ("DependencyViolation", "dependent object", 400, "busy", "minute"),
        ("InvalidParameterValue", "Value (x) is invalid", 400, "invalid", "(x) is invalid"),
    ],
)
def test_refusals(code: str, message: str, status: int, kind: str, words: str) -> None:
    from ansible.module_utils.ec2_errors import refused

    error = refused(code, message, status, region="eu-west-1", operation="DescribeImages")
    assert (error.kind, words in str(error)) == (kind, True), str(error)
    assert error.retriable == (kind in ("rate", "server"))
    assert "4GIOHlTk" not in str(error)
    assert "\n" not in str(error)


def api(**changes: Any) -> Any:
    from ansible.module_utils.ec2_api import ARGUMENTS, Api

    options = {name: spec.get("default") for name, spec in ARGUMENTS.items()}
    return Api(options | {"region": "eu-west-1"} | changes, pauses=lambda _: None)


def test_a_region_that_nobody_knows_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible.module_utils.ec2_errors import Ec2Error
    from botocore.exceptions import EndpointConnectionError

    one = api(region="mars-east-1")
    error = EndpointConnectionError(endpoint_url="https://ec2.mars-east-1.amazonaws.com/")
    said = one._not_sent(error)
    assert isinstance(said, Ec2Error)
    assert (said.kind, said.retriable) == ("region", False)
    assert "Does AWS have a region mars-east-1?" in str(said)
    known = api()._not_sent(error)
    assert (known.kind, known.retriable) == ("unreachable", True)


def test_a_parameter_that_botocore_refuses_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in Ec2Double.environment().items():
        monkeypatch.setenv(name, value)
    from ansible.module_utils.ec2_errors import Ec2Error

    with pytest.raises(Ec2Error) as refused:
        api().call("run_instances", MinCount="one", MaxCount=1)
    assert refused.value.kind == "invalid"
    assert "\n" not in str(refused.value)
