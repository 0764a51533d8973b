#!/usr/bin/python
"""Ansible module: a Confidential VM on Amazon EC2, with a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.ec2_instance import Instance
from ansible.module_utils.ec2_module import run
from ansible.module_utils.ec2_reconcile import absent, present
from ansible.module_utils.ec2_rules import broken

if TYPE_CHECKING:
    from ansible.module_utils.ec2_api import Api

DOCUMENTATION = r"""
module: ec2_confidential_instance
short_description: A Confidential VM on Amazon EC2, with a deadline
description:
  - Makes or removes one VM. Options are named after the API's fields, in snake case.
  - EC2 has no deadline of its own. Every VM is told by its user data to shut itself down after
    O(max_run_duration), which terminates it and its volume. With O(schedule_role) EventBridge
    Scheduler terminates it too, whatever the guest does.
  - Only VMs with the tag C(tpm-fleet-bench) of the same fleet are ever changed or removed.
  - A VM that exists is compared field by field. Tags are changed while it runs; for anything else
    it must be made anew, which O(recreate) allows.
  - Combinations that the API would refuse are refused before the first call, from a dated table
    (C(plugins/module_utils/ec2_rules.py)).
extends_documentation_fragment: ec2
options:
  name:
    description: Name of the VM, its tag C(Name). EC2 takes any number of one name; this module one.
    type: str
    required: true
  fleet:
    description: Name of the fleet, the tag C(tpm-fleet-bench) on everything that is made.
    type: str
    required: true
  state:
    description: >-
      Whether the VM is to run or to be gone. V(absent) returns when it is terminated and its volume
      and schedule are gone.
    type: str
    choices: [present, absent]
    default: present
  instance_type:
    description: Machine type, such as V(m6a.large). Needed for O(state=present).
    type: str
  cpu_options_amd_sev_snp:
    description: Whether the VM has AMD SEV-SNP. EC2 has no other TEE, Intel TDX in particular.
    type: str
    choices: [enabled, disabled]
    default: disabled
  max_run_duration:
    description: >-
      Seconds after which the VM is ended, 300 to 10368000 (120 days). Needed for O(state=present).
    type: int
  schedule_role:
    description: >-
      ARN of an IAM role that EventBridge Scheduler may take on and that may terminate the VM.
      Not given, only the guest keeps the deadline.
    type: str
  image:
    description: >-
      Id of the image. It must boot by UEFI and have C(TpmSupport) V(v2.0). Needed for
      O(state=present).
    type: str
  availability_zone:
    description: Zone, such as V(eu-west-1a). Not given, AWS chooses.
    type: str
  subnet:
    description: Subnet by id. Not given, one of the default VPC.
    type: str
  security_groups:
    description: Security groups by id. Empty, the VPC's default one, which lets nothing in.
    type: list
    elements: str
    default: []
  external_address:
    description: Whether the VM gets an address on the Internet.
    type: bool
    default: true
  disk_type:
    description: Type of the EBS root volume, which is deleted with the VM.
    type: str
    default: gp3
  disk_size_gb:
    description: Size of the root volume in GiB. Not given, the image's.
    type: int
  user:
    description: Account that cloud-init makes on the VM for O(ssh_public_key). It may use sudo.
    type: str
  ssh_public_key:
    description: Public key for that account, one line.
    type: str
  tags:
    description: Further tags of the VM, its volume and its network interface.
    type: dict
    default: {}
  recreate:
    description: >-
      Whether a VM that differs in a field that cannot be changed is removed and made anew.
    type: bool
    default: false
  validate_only:
    description: Check the options against the table of rules and end; nothing is sent to AWS.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reads, changes nothing, and says what it would do.
    support: full
  diff_mode:
    description: Shows the compared fields before and after.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: A VM with SEV-SNP, gone after two hours
  ec2_confidential_instance:
    region: eu-west-1
    name: bench-snp
    fleet: trial
    instance_type: m6a.large
    cpu_options_amd_sev_snp: enabled
    image: ami-0123456789abcdef0
    max_run_duration: 7200
  delegate_to: localhost

- name: Remove it
  ec2_confidential_instance:
    region: eu-west-1
    name: bench-snp
    fleet: trial
    state: absent
  delegate_to: localhost
"""

RETURN = r"""
action:
  description: >-
    What was done, or in check mode would be; created, recreated, updated, deleted or none.
  type: str
  returned: success
vm:
  description: What the API says of the VM, read after the change.
  type: dict
  returned: when the VM exists
  contains:
    confidential_instance_type:
      description: V(SEV_SNP); C(none) for an ordinary VM.
      type: str
    address:
      description: Address to connect to; the external one where there is one.
      type: str
    internal_address:
      description: Address in the VPC.
      type: str
    ends_at:
      description: When the VM is ended, RFC 3339.
      type: str
    id:
      description: The API's id for this VM; another after it was made anew.
      type: str
kind:
  description: >-
    Class of the failure; rules, quota, capacity, machine-type, image, permission, region,
    not-found, conflict, credentials, deadline, rate, server, unreachable, busy, not-ours,
    needs-recreation, mismatch, vanished or invalid.
  type: str
  returned: failure
"""

TEXTS = (
    "instance_type",
    "schedule_role",
    "image",
    "availability_zone",
    "subnet",
    "user",
    "ssh_public_key",
)


def arguments() -> dict[str, dict[str, Any]]:
    """The module's options; the documentation above says what they mean."""
    return {
        **{name: {"type": "str"} for name in TEXTS},
        "name": {"type": "str", "required": True},
        "fleet": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "cpu_options_amd_sev_snp": {
            "type": "str",
            "choices": ["enabled", "disabled"],
            "default": "disabled",
        },
        "max_run_duration": {"type": "int"},
        "security_groups": {"type": "list", "elements": "str", "default": []},
        "external_address": {"type": "bool", "default": True},
        "disk_type": {"type": "str", "default": "gp3"},
        "disk_size_gb": {"type": "int"},
        "tags": {"type": "dict", "default": {}},
        "recreate": {"type": "bool", "default": False},
        "validate_only": {"type": "bool", "default": False},
    }


def check_options(options: dict[str, Any]) -> list[str]:
    """What is wrong with the options, in sentences; puts tags into text."""
    options["tags"] = {str(key): str(value) for key, value in options["tags"].items()}
    return broken(options)


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Have the VM as the options say."""
    instance = Instance(api, options["name"], options["fleet"])
    if options["state"] == "present":
        return present(instance, options, check=check)
    return absent(instance, check=check)


def main() -> None:
    """Entry point of the module."""
    run(
        arguments(),
        work,
        [("state", "present", ["instance_type"])],
        check_options,
    )


if __name__ == "__main__":
    main()
