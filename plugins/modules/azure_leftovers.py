#!/usr/bin/python
"""Ansible module: what this project left in an Azure resource group, listed or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_leftovers import KINDS, leftovers, remove
from ansible.module_utils.azure_module import AZURE
from ansible.module_utils.cloud_leftovers import ARGUMENTS, Selection, broken, swept
from ansible.module_utils.cloud_module import run_with

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api

DOCUMENTATION = r"""
module: azure_leftovers
short_description: What this project left in an Azure resource group, listed or removed
description:
  - Finds VMs, auto-shutdowns, network interfaces, public addresses, disks, network security groups
    and virtual networks of any region by the tag C(tpm-fleet-bench). Nothing else is touched.
  - With O(state=absent), what a VM or an interface uses that stays, stays too.
  - Fails where a list is refused, since then nobody can say that nothing is there.
extends_documentation_fragment: azure
options:
  state:
    description: Whether to list them or to remove them.
    type: str
    choices: [listed, absent]
    default: listed
  fleet:
    description: Only what belongs to this fleet. Not given, to any; an empty name is refused.
    type: str
  min_age:
    description: >-
      Only what was made at least that many seconds ago. What has no legible time counts as old.
    type: int
    default: 0
  keep_until_deadline:
    description: Whether to leave out VMs whose own deadline is still to come, whatever their age.
    type: bool
    default: false
  kinds:
    description: Only resources of these types, by the last part of their names. Not given, all.
    type: list
    elements: str
    choices:
      - virtualMachines
      - schedules
      - networkInterfaces
      - publicIPAddresses
      - disks
      - networkSecurityGroups
      - virtualNetworks
attributes:
  check_mode:
    description: Lists what it would remove.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Remove what is older than three hours, of any fleet
  azure_leftovers:
    subscription_id: 00000000-0000-0000-0000-000000000000
    resource_group: bench
    state: absent
    min_age: 10800
  delegate_to: localhost
"""

RETURN = r"""
found:
  description: What was found, with O(state=absent) before it was removed.
  type: list
  elements: dict
  returned: success
  contains:
    kind: {description: "Type of the resource, such as V(Microsoft.Compute/disks).", type: str}
    name: {description: Name of the resource., type: str}
    vm: {description: "Name of the VM that it is or belongs to, if known.", type: str}
    location: {description: Region., type: str}
    fleet: {description: The fleet that it belongs to., type: str}
    run: {description: The run that it was made in., type: str}
    status: {description: What the API says of its state., type: str}
    age: {description: Seconds since it was made., type: int}
    path: {description: Id of the resource., type: str}
kind:
  description: Class of the failure, as for M(azure_confidential_vm).
  type: str
  returned: failure
"""


NAMES = {kind.rpartition("/")[2]: kind for kind in KINDS}


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """List what is there, and remove it where that is asked for."""
    kinds = [NAMES[name] for name in options["kinds"] or []]
    wanted = Selection.of(options | {"kinds": kinds})
    found = leftovers(api, wanted)
    return swept(
        found, wanted=wanted.removable, check=check, remove=lambda items: remove(api, items)
    )


def main() -> None:
    """Entry point of the module."""
    kinds = {"type": "list", "elements": "str", "choices": list(NAMES)}
    run_with(AZURE, ARGUMENTS | {"kinds": kinds}, work, check=broken)


if __name__ == "__main__":
    main()
