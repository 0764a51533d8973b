#!/usr/bin/python
"""Ansible module: what this project left in regions of an AWS account, listed or removed."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.cloud_leftovers import ARGUMENTS, Selection, broken, swept
from ansible.module_utils.ec2_api import Api
from ansible.module_utils.ec2_leftovers import KINDS, leftovers, remove
from ansible.module_utils.ec2_module import run

DOCUMENTATION = r"""
module: ec2_leftovers
short_description: What this project left in regions of an AWS account, listed or removed
description:
  - Finds VMs, volumes and security groups by the tag C(tpm-fleet-bench), and EventBridge schedules
    by their name. Nothing else is looked at or touched.
  - With O(state=absent), what a VM uses that stays, stays too.
  - Only the named regions are looked at; the API has no list over all of them.
extends_documentation_fragment: ec2
options:
  state:
    description: Whether to list them or to remove them.
    type: str
    choices: [listed, absent]
    default: listed
  regions:
    description: More regions than O(region).
    type: list
    elements: str
    default: []
  fleet:
    description: Only what belongs to this fleet. Not given, to any; empty, it is refused.
    type: str
  kinds:
    description: Only these kinds. Empty, all.
    type: list
    elements: str
    choices: [instances, schedules, volumes, security_groups]
    default: []
  min_age:
    description: Only what was made at least that many seconds ago.
    type: int
    default: 0
  keep_until_deadline:
    description: Whether to leave out VMs whose own deadline is still to come, whatever their age.
    type: bool
    default: false
attributes:
  check_mode:
    description: Lists what it would remove.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Remove what is older than three hours, of any fleet
  ec2_leftovers:
    region: eu-west-1
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
    kind: {description: "V(instances), V(schedules), V(volumes) or V(security_groups).", type: str}
    name: {description: Its name; its id where it has none., type: str}
    vm: {description: "Name of the VM that it is or belongs to, if known.", type: str}
    id: {description: What the API calls it., type: str}
    region: {description: Where it is., type: str}
    fleet: {description: The fleet that it belongs to., type: str}
    run: {description: The run that it was made in., type: str}
    status: {description: What the API says of its state., type: str}
    age: {description: Seconds since it was made., type: int}
kind:
  description: Class of the failure, as for M(ec2_confidential_instance).
  type: str
  returned: failure
"""


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """List what is there, and remove it where that is asked for."""
    apis = {api.region: api} | {
        region: Api(options | {"region": region})
        for region in options["regions"]
        if region != api.region
    }
    wanted = Selection.of(options)
    found = [item for one in apis.values() for item in leftovers(one, wanted)]
    return swept(
        found, wanted=wanted.removable, check=check, remove=lambda items: remove(apis, items)
    )


def main() -> None:
    """Entry point of the module."""
    lists: dict[str, dict[str, Any]] = {
        "regions": {"type": "list", "elements": "str", "default": []},
        "kinds": {"type": "list", "elements": "str", "choices": list(KINDS), "default": []},
    }
    run(ARGUMENTS | lists, work, check=broken)


if __name__ == "__main__":
    main()
