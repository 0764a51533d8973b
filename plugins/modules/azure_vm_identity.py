#!/usr/bin/python
"""Ansible module: SSH host keys of a VM on Azure, out of its serial log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_module import AZURE
from ansible.module_utils.azure_serial import host_keys
from ansible.module_utils.cloud_module import run_with

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api

DOCUMENTATION = r"""
module: azure_vm_identity
short_description: SSH host keys of a VM on Azure, out of its serial log
description:
  - The host keys are those that cloud-init prints on the serial console at the end of the first
    boot, read through boot diagnostics. The module waits for them.
  - The address at which Azure hands out the log is a secret for some minutes; it gets into no
    message and no result.
  - Azure's API names no endorsement key of a VM's TPM, so that list is empty.
extends_documentation_fragment: azure
options:
  name:
    description: Name of the VM.
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
  azure_vm_identity:
    subscription_id: 00000000-0000-0000-0000-000000000000
    resource_group: bench
    name: bench-snp
  delegate_to: localhost
"""

RETURN = r"""
host_keys:
  description: Public SSH host keys, as C(type base64).
  type: list
  elements: str
  returned: success
source:
  description: Where they were read.
  type: str
  returned: success
endorsement_keys:
  description: Always empty.
  type: list
  elements: str
  returned: success
kind:
  description: Class of the failure, as for M(azure_confidential_vm).
  type: str
  returned: failure
"""


def work(api: Api, options: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Read the keys."""
    return {
        "changed": False,
        "source": "serial console",
        "host_keys": host_keys(api, options["name"]),
        "endorsement_keys": [],
    }


def main() -> None:
    """Entry point of the module."""
    run_with(AZURE, {"name": {"type": "str", "required": True}}, work)


if __name__ == "__main__":
    main()
