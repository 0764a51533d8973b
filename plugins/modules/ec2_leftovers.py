#!/usr/bin/python
"""Ansible module: what this project left in regions of an AWS account, listed or removed."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.cloud_leftovers import swept
from ansible.module_utils.ec2_api import Api
from ansible.module_utils.ec2_leftovers import KINDS, leftovers, remove
from ansible.module_utils.ec2_module import run

DOCUMENTATION = r"""
module: ec2_leftovers
short_description: What this project left in regions of an AWS account, listed or removed
description:
  - Finds VMs, volumes and security groups by the tag C(tpm-fleet-bench), and EventBridge schedules
    by their name. Nothing else is looked at or touched.
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
    kinds = options["kinds"] or KINDS
    found = [
        item
        for one in apis.values()
        for item in leftovers(one, options["fleet"], min_age=options["min_age"])
        if item["kind"] in kinds
    ]
    return swept(
        found,
        wanted=options["state"] == "absent",
        check=check,
        remove=lambda items: remove(apis, items),
    )


def check_options(options: dict[str, Any]) -> list[str]:
    """What is wrong with the options, in sentences."""
    if options["fleet"] == "":
        return ["fleet is empty; leave it out to mean every fleet."]
    return []


def main() -> None:
    """Entry point of the module."""
    run(
        {
            "state": {"type": "str", "choices": ["listed", "absent"], "default": "listed"},
            "regions": {"type": "list", "elements": "str", "default": []},
            "fleet": {"type": "str"},
            "kinds": {"type": "list", "elements": "str", "choices": list(KINDS), "default": []},
            "min_age": {"type": "int", "default": 0},
        },
        work,
        check=check_options,
    )


if __name__ == "__main__":
    main()
