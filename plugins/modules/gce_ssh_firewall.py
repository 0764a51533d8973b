#!/usr/bin/python
"""Ansible module: a firewall rule that lets SSH through to the VMs of a fleet."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_rules import LABEL, ranges
from ansible.module_utils.gce_body import firewall_body, firewall_mark
from ansible.module_utils.gce_errors import GceError
from ansible.module_utils.gce_module import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible.module_utils.gce_api import Api

DOCUMENTATION = r"""
module: gce_ssh_firewall
short_description: A firewall rule that lets SSH through to the VMs of a fleet
description:
  - The rule is called C(tpm-fleet-bench-FLEET-ssh), and its description says whose it is. A rule of
    that name with another description is left alone.
  - A rule that differs is made anew.
extends_documentation_fragment: gce
options:
  state:
    description: Whether the rule is to be there.
    type: str
    choices: [present, absent]
    default: present
  fleet:
    description: Name of the fleet.
    type: str
    required: true
  network:
    description: Network, by name in the project or as a partial URL.
    type: str
    default: default
  source_ranges:
    description: CIDR ranges from which SSH is let through. Needed for O(state=present).
    type: list
    elements: str
  tag:
    description: Network tag of the VMs. Needed for O(state=present).
    type: str
attributes:
  check_mode:
    description: Says what it would do.
    support: full
  diff_mode:
    description: Shows the rule before and after.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Let SSH through from the office
  gce_ssh_firewall:
    project: my-project
    fleet: trial
    source_ranges: [192.0.2.0/24]
    tag: tpm-fleet-bench-trial
  delegate_to: localhost
"""

RETURN = r"""
name:
  description: Name of the rule.
  type: str
  returned: success
kind:
  description: Class of the failure, as for M(gce_confidential_instance).
  type: str
  returned: failure
"""


def bring(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Have the rule there, or gone.

    Raises:
        GceError: the API refuses, or the rule is someone else's (kind ``not-ours``).
    """
    name = f"tpm-fleet-bench-{options['fleet']}-ssh"
    path = api.of_global("firewalls", name)
    wanted = firewall_body(name, options) if options["state"] == "present" else {}
    found = api.find(path)
    if found is not None and found.get("description") != firewall_mark(options["fleet"]):
        raise GceError(
            "not-ours",
            f"There is a firewall rule {name} that this project did not make; it is left alone. "
            "Choose another name for the fleet.",
        )
    there = _compared(found)
    asked = {field: _comparable(field, value) for field, value in wanted.items()}
    before = {field: there.get(field) for field in asked} if found and asked else there
    if before == asked:
        return {"changed": False, "name": name}
    if found and not check:
        with _unless("not-found"):  # another play was first
            api.change("DELETE", path)
    if wanted and not check:
        with _unless("conflict"):  # the same
            api.change("POST", api.of_global("firewalls"), wanted)
        made = _compared(api.find(path))
        if any(made.get(field) != value for field, value in asked.items()):
            raise GceError(
                "conflict",
                f"Someone else is changing the firewall rule {name}; run again when they are done.",
            )
    return {"changed": True, "name": name, "diff": {"before": before, "after": asked}}


@contextmanager
def _unless(kind: str) -> Iterator[None]:
    """Go on where a change is refused because what it wants is so already."""
    try:
        yield
    except GceError as error:
        if error.kind != kind:
            raise


def _compared(rule: dict[str, Any] | None) -> dict[str, Any]:
    return {field: _comparable(field, value) for field, value in (rule or {}).items()}


def _comparable(field: str, value: Any) -> Any:
    if field == "network":  # a URL in the answer
        return re.sub(r".*projects/[^/]+/", "", value)
    return sorted(value) if field in ("sourceRanges", "targetTags") else value


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
            "network": {"type": "str", "default": "default"},
            "source_ranges": {"type": "list", "elements": "str"},
            "tag": {"type": "str"},
        },
        bring,
        [("state", "present", ["source_ranges", "tag"])],
        check_options,
    )


if __name__ == "__main__":
    main()
