#!/usr/bin/python
"""Ansible module: what this project left in a Google Cloud project, listed or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_leftovers import ARGUMENTS, Selection, broken, swept
from ansible.module_utils.gce_leftovers import KINDS, leftovers, remove
from ansible.module_utils.gce_module import run

if TYPE_CHECKING:
    from ansible.module_utils.gce_api import Api

DOCUMENTATION = r"""
module: gce_leftovers
short_description: What this project left in a Google Cloud project, listed or removed
description:
  - Finds VMs and disks of any zone by the label C(tpm-fleet-bench), and firewall rules by their
    description. Nothing else is looked at or touched.
  - With O(state=absent), what a VM uses that stays, stays too.
  - Fails where a zone could not be looked at, since then nobody can say that nothing is there.
extends_documentation_fragment: gce
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
    description: Only what was made at least that many seconds ago.
    type: int
    default: 0
  keep_until_deadline:
    description: Whether to leave out VMs whose own deadline is still to come, whatever their age.
    type: bool
    default: false
  kinds:
    description: Only these kinds. Empty, all.
    type: list
    elements: str
    choices: [instances, disks, firewalls]
    default: []
attributes:
  check_mode:
    description: Lists what it would remove.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Remove what is older than three hours, of any fleet
  gce_leftovers:
    project: my-project
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
    kind: {description: V(instances) or V(disks) or V(firewalls)., type: str}
    name: {description: Name of the resource., type: str}
    vm: {description: The VM that it is or belongs to; empty for a firewall rule., type: str}
    zone: {description: Zone; empty for a firewall rule., type: str}
    fleet: {description: The fleet that it belongs to., type: str}
    run: {description: The run that it was made in., type: str}
    status: {description: What the API says of its state., type: str}
    age: {description: Seconds since it was made., type: int}
kind:
  description: Class of the failure, as for M(gce_confidential_instance).
  type: str
  returned: failure
"""


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """List what is there, and remove it where that is asked for."""
    wanted = Selection.of(options)
    found = leftovers(api, wanted)
    return swept(
        found, wanted=wanted.removable, check=check, remove=lambda items: remove(api, items)
    )


def main() -> None:
    """Entry point of the module."""
    kinds = {"type": "list", "elements": "str", "choices": list(KINDS), "default": []}
    run(ARGUMENTS | {"kinds": kinds}, work, check=broken)


if __name__ == "__main__":
    main()
