"""What the APIs refuse although their models allow it. Seen on 2026-11-30; see docs/clouds.md."""

from __future__ import annotations

import json
import re
from typing import Any

SNP_TYPES = {
    *(f"m6a.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")),
    *(f"c6a.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")),
    *("c6a.12xlarge", "c6a.16xlarge"),
    *(f"r6a.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge")),
}
SNP_REGIONS = {"us-east-2", "eu-west-1"}
KNOWN_TYPES = SNP_TYPES | {"m6a.48xlarge", "m5.large", "m7a.large", "t3.micro"}

Refusal = tuple[str, str] | None


def run_instances(body: dict[str, Any], image: dict[str, Any], region: str) -> Refusal:
    """Why EC2 would not make this VM: code and message; None if it would.

    Args:
        body: of ``RunInstances``, valid by the model.
        image: of ``DescribeImages``.
        region: where.
    """
    machine = body.get("InstanceType", "m1.small")
    if machine not in KNOWN_TYPES:
        return "InvalidParameterValue", f"Invalid value '{machine}' for InstanceType."
    if "NetworkInterfaces" in body and {"SubnetId", "SecurityGroupIds"} & set(body):
        return (
            "InvalidParameterCombination",
            (
                "Network interfaces and an instance-level subnet ID or security groups may not be "
                "specified on the same request"
            ),
        )
    if len(body.get("ClientToken", "")) > 64:
        return "InvalidParameterValue", "Client token may be up to 64 characters."
    if body.get("CpuOptions", {}).get("AmdSevSnp") == "enabled":
        return _sev_snp(machine, image, region)
    return None


def _sev_snp(machine: str, image: dict[str, Any], region: str) -> Refusal:
    if machine not in SNP_TYPES or region not in SNP_REGIONS:
        return (
            "InvalidParameterCombination",
            f"The CpuOptions AmdSevSnp is not supported by instance type {machine} in {region}.",
        )
    if image.get("BootMode") not in ("uefi", "uefi-preferred"):
        return "InvalidParameterCombination", "AMD SEV-SNP requires an AMI with boot mode UEFI."
    return None


def create_schedule(body: dict[str, Any]) -> Refusal:
    """Why the scheduler would not take this schedule; None if it would."""
    if not re.fullmatch(r"at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)", body["ScheduleExpression"]):
        return "ValidationException", f"Invalid Schedule Expression {body['ScheduleExpression']}."
    target = body["Target"]
    if target["Arn"].startswith("arn:aws:scheduler:::aws-sdk:"):
        try:
            given = json.loads(target["Input"])
        except (KeyError, ValueError):
            return "ValidationException", "Input for a universal target must be JSON."
        if not isinstance(given.get("InstanceIds"), list):
            return "ValidationException", "Required member InstanceIds is missing."
    return None
