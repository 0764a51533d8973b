"""The request that makes a VM, and how a VM that exists differs from it. Pure functions."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ansible.module_utils.cloud_rules import OWN_LABEL

SECONDS_TAG = "tpm-fleet-bench-max-run-duration"
MADE_TAG = "tpm-fleet-bench-made"  # of what the API keeps no time of creation

# Run at every boot. The end is fixed at the first, so that a reboot does not put it off.
# systemd-run works this early in the boot; where there is none, shutdown's own timer has to do.
_DEADLINE = """\
end=/var/lib/tpm-fleet-bench.deadline
[ -s $end ] || echo $(($(date +%s) + {seconds})) > $end
left=$(($(cat $end) - $(date +%s)))
[ $left -gt 0 ] || left=1
systemd-run --unit=tpm-fleet-bench-deadline --on-active=${{left}}s \
--timer-property=AccuracySec=1s shutdown -P now || shutdown -P +$(((left + 59) / 60))
"""


def user_data(options: dict[str, Any]) -> str:
    """What cloud-init does on the VM: the deadline, the account, host keys on the console.

    Args:
        options: ``max_run_duration`` (s), ``user``, ``ssh_public_key``.
    """
    config: dict[str, Any] = {
        "bootcmd": [["sh", "-c", _DEADLINE.format(seconds=options["max_run_duration"])]],
        "ssh": {"emit_keys_to_console": True},
    }
    if options["user"] and options["ssh_public_key"]:
        config["users"] = [
            {
                "name": options["user"],
                "shell": "/bin/bash",
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "lock_passwd": True,
                "ssh_authorized_keys": [options["ssh_public_key"].strip()],
            }
        ]
    return "#cloud-config\n" + json.dumps(config, indent=1) + "\n"  # JSON is YAML


def tags_of(options: dict[str, Any]) -> dict[str, str]:
    """Every tag of the VM."""
    return {
        **options["tags"],
        "Name": options["name"],
        OWN_LABEL: options["fleet"],
        SECONDS_TAG: str(options["max_run_duration"]),
    }


def as_tags(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags in the API's form."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tags_in(resource: dict[str, Any]) -> dict[str, str]:
    """Tags out of the API's form."""
    return {tag["Key"]: tag["Value"] for tag in resource.get("Tags", [])}


def instance_body(options: dict[str, Any], root: str) -> dict[str, Any]:
    """Build the parameters of ``RunInstances``, but for the ``ClientToken``.

    Args:
        options: the module's options by name, each present; None where not given.
        root: name of the image's root device.

    Returns:
        The parameters, in the API's spelling. Fields that were not asked for are absent.
    """
    tags = as_tags(tags_of(options))
    disk: dict[str, Any] = {"DeleteOnTermination": True, "VolumeType": options["disk_type"]}
    if options["disk_size_gb"]:
        disk["VolumeSize"] = options["disk_size_gb"]
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "AssociatePublicIpAddress": options["external_address"],
        "DeleteOnTermination": True,
    }
    if options["subnet"]:
        interface["SubnetId"] = options["subnet"]
    if options["security_groups"]:
        interface["Groups"] = sorted(options["security_groups"])
    body: dict[str, Any] = {
        "ImageId": options["image"],
        "InstanceType": options["instance_type"],
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
        "BlockDeviceMappings": [{"DeviceName": root, "Ebs": disk}],
        "NetworkInterfaces": [interface],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags}
            for kind in ("instance", "volume", "network-interface")
        ],
        "UserData": user_data(options),
    }
    if options["cpu_options_amd_sev_snp"] == "enabled":
        body["CpuOptions"] = {"AmdSevSnp": "enabled"}
    if options["availability_zone"]:
        body["Placement"] = {"AvailabilityZone": options["availability_zone"]}
    return body


def client_token(body: dict[str, Any], gone: list[str]) -> str:
    """The idempotency token of a request: the same for the same VM, another after it is gone.

    A play that was killed before it saw the answer thus finds its VM by asking for it again, even
    while ``DescribeInstances`` does not know it yet.

    Args:
        body: of :func:`instance_body`.
        gone: ids of VMs of that name that the API remembers as terminated.
    """
    what = json.dumps([body, sorted(gone)], sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()


def managed(instance: dict[str, Any], behaviour: str = "") -> dict[str, Any]:
    """The compared fields of an instance as the API describes it; for a diff.

    Args:
        instance: of ``DescribeInstances``.
        behaviour: its ``InstanceInitiatedShutdownBehavior``, which is asked for apart.
    """
    if not instance:
        return {}
    disks = [mapping.get("Ebs", {}) for mapping in instance.get("BlockDeviceMappings", [])]
    return {
        "ImageId": instance.get("ImageId"),
        "InstanceType": instance.get("InstanceType"),
        "CpuOptions.AmdSevSnp": instance.get("CpuOptions", {}).get("AmdSevSnp", "disabled"),
        "TpmSupport": instance.get("TpmSupport"),
        "InstanceInitiatedShutdownBehavior": behaviour,
        "DeleteOnTermination": all(disk.get("DeleteOnTermination") for disk in disks),
        SECONDS_TAG: tags_in(instance).get(SECONDS_TAG),
        "Tags": {k: v for k, v in tags_in(instance).items() if k != SECONDS_TAG},
    }


def wanted_fields(options: dict[str, Any]) -> dict[str, Any]:
    """The compared fields as the options ask for them."""
    tags = tags_of(options)
    return {
        "ImageId": options["image"],
        "InstanceType": options["instance_type"],
        "CpuOptions.AmdSevSnp": options["cpu_options_amd_sev_snp"],
        "TpmSupport": "v2.0",
        "InstanceInitiatedShutdownBehavior": "terminate",
        "DeleteOnTermination": True,
        SECONDS_TAG: tags.pop(SECONDS_TAG),
        "Tags": tags,
    }


def differences(wanted: dict[str, Any], there: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where a VM is not what was asked for, by field: (what is there, what is wanted).

    Tags that others added are not looked at.
    """
    differ = {}
    for name, asked in wanted.items():
        seen = there.get(name)
        if isinstance(asked, dict):
            seen = {key: value for key, value in (seen or {}).items() if key in asked}
        if asked != seen:
            differ[name] = (seen, asked)
    return differ
