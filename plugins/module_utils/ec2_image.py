"""Whether the image and the machine type of a VM can do what is asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.ec2_errors import Ec2Error
from ansible.module_utils.ec2_rules import BOOT_MODES, TPM_SUPPORT

if TYPE_CHECKING:
    from ansible.module_utils.ec2_api import Api

# What an image must be: field of DescribeImages, its values, and what follows where it is not so.
_NEEDED = [
    ("State", ("available",), "it is not ready, or has been withdrawn"),
    ("Architecture", ("x86_64",), "the machine types with SEV-SNP are x86_64"),
    ("RootDeviceType", ("ebs",), "a VM that shuts down is only terminated with its volume on EBS"),
    ("BootMode", BOOT_MODES, "a TPM and SEV-SNP need UEFI"),
    ("TpmSupport", (TPM_SUPPORT,), "a VM of it has no NitroTPM to measure"),
]


def root_device(api: Api, image: str) -> str:
    """See that an image will do, and name its root device.

    Raises:
        Ec2Error: it does not exist here (kind ``not-found`` or ``image``), or lacks something
            (kind ``image``), which the sentence names.
    """
    found = api.call("describe_images", ImageIds=[image]).get("Images", [])
    if not found:
        raise Ec2Error(
            "image",
            f"There is no image {image} in {api.region}, or it is not shared with this account.",
        )
    lacks = [
        f"{field} is {found[0].get(field) or 'unset'}, not {' or '.join(values)} ({why})"
        for field, values, why in _NEEDED
        if found[0].get(field) not in values
    ]
    if lacks:
        raise Ec2Error(
            "image",
            f"Image {image} will not do: {'; '.join(lacks)}. docs/clouds.md shows how to register "
            "one that does.",
        )
    root: str = found[0]["RootDeviceName"]
    return root


def check_machine(api: Api, options: dict[str, Any]) -> None:
    """See that the region has the machine type, with SEV-SNP where that is asked for.

    Raises:
        Ec2Error: it does not; kind ``machine-type``.
    """
    machine = options["instance_type"]
    try:
        answer = api.call("describe_instance_types", InstanceTypes=[machine])
    except Ec2Error as error:
        if error.code != "InvalidInstanceType":
            raise
        answer = {}
    types = answer.get("InstanceTypes", [])
    if not types:
        raise Ec2Error(
            "machine-type", f"{api.region} has no machine type {machine}; choose another of either."
        )
    features = types[0].get("ProcessorInfo", {}).get("SupportedFeatures", [])
    if options["cpu_options_amd_sev_snp"] == "enabled" and "amd-sev-snp" not in features:
        raise Ec2Error(
            "machine-type",
            f"AWS says that {machine} has no SEV-SNP in {api.region}; choose another of either.",
        )
    if types[0].get("NitroTpmSupport", "supported") != "supported":
        raise Ec2Error("machine-type", f"{machine} has no NitroTPM; choose another machine type.")
