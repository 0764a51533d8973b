#!/usr/bin/python
"""Ansible module: SSH host keys and endorsement keys of a VM, read through the Compute API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.gce_identity import endorsement_keys, host_keys
from ansible.module_utils.gce_module import run

if TYPE_CHECKING:
    from ansible.module_utils.gce_api import Api

DOCUMENTATION = r"""
module: gce_instance_identity
short_description: SSH host keys and endorsement keys of a VM, read through the Compute API
description:
  - The host keys are those that the VM publishes in its guest attributes or prints on its serial
    console. The module waits for them.
  - The endorsement keys are those of the vTPM that the hypervisor gave the VM
    (C(getShieldedInstanceIdentity)).
extends_documentation_fragment: gce
options:
  name:
    description: Name of the VM.
    type: str
    required: true
  zone:
    description: Its zone.
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
  gce_instance_identity:
    project: my-project
    zone: europe-west4-b
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
  description: Public endorsement keys, PEM. Empty where the API has none.
  type: list
  elements: str
  returned: success
kind:
  description: Class of the failure, as for M(gce_confidential_instance).
  type: str
  returned: failure
"""


def work(api: Api, options: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Read the keys."""
    name, zone = options["name"], options["zone"]
    source, keys = host_keys(api, zone, name)
    return {
        "changed": False,
        "source": source,
        "host_keys": keys,
        "endorsement_keys": endorsement_keys(api, zone, name),
    }


def main() -> None:
    """Entry point of the module."""
    run(
        {"name": {"type": "str", "required": True}, "zone": {"type": "str", "required": True}},
        work,
    )


if __name__ == "__main__":
    main()
