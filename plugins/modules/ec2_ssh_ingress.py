#!/usr/bin/python
"""Ansible module: a security group that lets SSH through to the VMs of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_rules import LABEL, ranges
from ansible.module_utils.ec2_ingress import (
    find_group,
    group_name,
    make_group,
    ranges_of,
    remove_group,
    set_ranges,
    vpc_of,
)
from ansible.module_utils.ec2_module import run

if TYPE_CHECKING:
    from ansible.module_utils.ec2_api import Api

DOCUMENTATION = r"""
module: ec2_ssh_ingress
short_description: A security group that lets SSH through to the VMs of a fleet
description:
  - The group is called C(tpm-fleet-bench-FLEET-ssh), and its tag says whose it is. A group of that
    name without the tag is left alone.
  - What it lets in besides SSH from O(source_ranges) is taken away.
extends_documentation_fragment: ec2
options:
  state:
    description: Whether the group is to be there.
    type: str
    choices: [present, absent]
    default: present
  fleet:
    description: Name of the fleet.
    type: str
    required: true
  subnet:
    description: >-
      Subnet of the VMs, by id; the group is made in its VPC. Not given, in the default VPC.
    type: str
  source_ranges:
    description: CIDR ranges from which SSH is let through. Needed for O(state=present).
    type: list
    elements: str
attributes:
  check_mode:
    description: Says what it would do.
    support: full
  diff_mode:
    description: Shows the ranges before and after.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Let SSH through from the office
  ec2_ssh_ingress:
    region: eu-west-1
    fleet: trial
    source_ranges: [192.0.2.0/24]
  delegate_to: localhost
"""

RETURN = r"""
name:
  description: Name of the group.
  type: str
  returned: success
group_id:
  description: Its id, for the VMs; empty where it is not there.
  type: str
  returned: success
kind:
  description: Class of the failure, as for M(ec2_confidential_instance).
  type: str
  returned: failure
"""


def bring(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Have the group there, or gone.

    Raises:
        Ec2Error: the API refuses, or the group is someone else's (kind ``not-ours``).
    """
    fleet = options["fleet"]
    vpc = vpc_of(api, options["subnet"])
    group = find_group(api, fleet, vpc)
    wanted = options["source_ranges"] if options["state"] == "present" else None
    before, after = _shown(group and ranges_of(group)), _shown(wanted)
    if before != after and not check:
        if wanted is None:
            remove_group(api, group["GroupId"]) if group else None
            group = None
        else:
            group = group or make_group(api, fleet, vpc)
            set_ranges(api, fleet, group, wanted)
    return {
        "changed": before != after,
        "name": group_name(fleet),
        "group_id": group["GroupId"] if group else "",
        "diff": {"before": before, "after": after},
    }


def _shown(ranges: list[str] | None) -> dict[str, Any]:
    return {} if ranges is None else {"source_ranges": sorted(ranges)}


def check_options(options: dict[str, Any]) -> list[str]:
    """What is wrong with the options, in sentences; puts ranges into one form."""
    options["source_ranges"], says = ranges(options["source_ranges"] or [])
    if not options["fleet"] or not LABEL.fullmatch(options["fleet"]):
        says.append(f"fleet must be small letters, digits and hyphens, not '{options['fleet']}'.")
    return says


def main() -> None:
    """Entry point of the module."""
    run(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "fleet": {"type": "str", "required": True},
            "subnet": {"type": "str"},
            "source_ranges": {"type": "list", "elements": "str"},
        },
        bring,
        [("state", "present", ["source_ranges"])],
        check_options,
    )


if __name__ == "__main__":
    main()
