"""What botocore's model of the EC2 API cannot say about a Confidential VM, as a dated table.

Seen on 2026-11-30. Sources: botocore 1.44.8's documentation of ``CpuOptionsRequest.AmdSevSnp``
(the families), AWS's page "AMD SEV-SNP for Amazon EC2 instances" (sizes and regions) and "NitroTPM
prerequisites". What AWS adds later is one row here. The API has the last word, and is asked
(``DescribeInstanceTypes``) before anything is made.
"""

from __future__ import annotations

import re
from typing import Any

from ansible.module_utils.cloud_rules import naming

SEEN = "2026-11-30"

# AWS has no limit of its own, since the deadline is ours. Less than five minutes would end a VM
# before it is reached; EventBridge Scheduler takes times in any distance.
SHORTEST, LONGEST = 300, 120 * 86400  # seconds

# Sizes that take CpuOptions.AmdSevSnp, by family.
SEV_SNP_SIZES = {
    "m6a": ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge"),
    "c6a": ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge"),
    "r6a": ("large", "xlarge", "2xlarge", "4xlarge"),
}
SEV_SNP_REGIONS = ("eu-west-1", "us-east-2")

BOOT_MODES = ("uefi", "uefi-preferred")
TPM_SUPPORT = "v2.0"

_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")
_ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/\S+")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def broken(options: dict[str, Any]) -> list[str]:
    """Sentences, one for each rule that these options of the module break.

    Args:
        options: the module's options by name, each present; None where not given.
    """
    return [*whose(options), *(_of_a_vm(options) if options["state"] == "present" else [])]


def whose(options: dict[str, Any]) -> list[str]:
    """Sentences about whose the VM is and where; they hold for its removal too."""
    says = naming(options["name"], {**options["tags"], "tpm-fleet-bench": options["fleet"]}, "tags")
    if not _REGION.fullmatch(options["region"]):
        says.append(f"region must be one such as eu-west-1, not '{options['region']}'.")
    return says


def _of_a_vm(options: dict[str, Any]) -> list[str]:
    says = [*_deadline(options["max_run_duration"]), *_image(options["image"])]
    if options["cpu_options_amd_sev_snp"] == "enabled":
        says += _sev_snp(options["instance_type"], options["region"])
    if options["schedule_role"] and not _ROLE.fullmatch(options["schedule_role"]):
        says.append(
            "schedule_role must be the ARN of an IAM role, arn:aws:iam::ACCOUNT:role/NAME, not "
            f"'{options['schedule_role']}'."
        )
    if options["user"] and not _ACCOUNT.fullmatch(options["user"]):
        says.append(f"user must be the name of an account on the VM, not '{options['user']}'.")
    if "\n" in (options["ssh_public_key"] or "").strip():
        says.append("ssh_public_key must be one line.")
    return says


def _deadline(seconds: int | None) -> list[str]:
    if seconds is None:
        return ["max_run_duration is missing: a VM without a deadline is not made."]
    if not SHORTEST <= seconds <= LONGEST:
        return [
            f"max_run_duration must be {SHORTEST} s to {LONGEST} s (120 days), not {seconds} s."
        ]
    return []


def _image(image: str | None) -> list[str]:
    if not image:
        says = (
            "image is missing: AWS gives a VM a TPM only if its image has TpmSupport v2.0, and no "
            f"public Ubuntu image is known to (as of {SEEN}); register one as docs/clouds.md shows "
            "and give its id."
        )
        return [says]
    return [] if _IMAGE.fullmatch(image) else [f"image must be an id, ami-…, not '{image}'."]


def _sev_snp(machine: str, region: str) -> list[str]:
    says = []
    family, _, size = machine.partition(".")
    if size not in SEV_SNP_SIZES.get(family, ()):
        sizes = "; ".join(f"{name}.{', '.join(all_)}" for name, all_ in SEV_SNP_SIZES.items())
        says.append(f"machine type {machine} has no SEV-SNP (as of {SEEN}); use {sizes}.")
    if region not in SEV_SNP_REGIONS:
        says.append(
            f"{region} has no SEV-SNP (as of {SEEN}); use {' or '.join(SEV_SNP_REGIONS)}, or add "
            "the region to plugins/module_utils/ec2_rules.py if AWS offers it there now."
        )
    return says
