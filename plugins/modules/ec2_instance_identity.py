#!/usr/bin/python
"""Ansible module: SSH host keys and endorsement keys of a VM, read through the EC2 API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.ec2_identity import endorsement_keys, host_keys
from ansible.module_utils.ec2_module import run

if TYPE_CHECKING:
    from ansible.module_utils.ec2_api import Api

DOCUMENTATION = r"""
module: ec2_instance_identity
short_description: SSH host keys and endorsement keys of a VM, read through the EC2 API
description:
  - The host keys are those that cloud-init prints on the VM's console. The module waits for them.
  - The endorsement keys are those of the NitroTPM that the hypervisor gave the VM
    (C(GetInstanceTpmEkPub)).
extends_documentation_fragment: ec2
options:
  instance_id:
    description: The VM, by the id that M(ec2_confidential_instance) returned.
    type: str
    required: true
attributes:
  check_mode:
    description: The module only reads.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Read the keys
  ec2_instance_identity:
    region: eu-west-1
    instance_id: i-0123456789abcdef0
  delegate_to: localhost
"""

RETURN = r"""
host_keys:
  description: Public SSH host keys, as C(type base64).
  type: list
  elements: str
  returned: success
endorsement_keys:
  description: Public endorsement keys, PEM. Empty where the API has none.
  type: list
  elements: str
  returned: success
kind:
  description: Class of the failure, as for M(ec2_confidential_instance).
  type: str
  returned: failure
"""


def work(api: Api, options: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Read the keys."""
    number = options["instance_id"]
    return {
        "changed": False,
        "host_keys": host_keys(api, number),
        "endorsement_keys": endorsement_keys(api, number),
    }


def main() -> None:
    """Entry point of the module."""
    run({"instance_id": {"type": "str", "required": True}}, work)


if __name__ == "__main__":
    main()
