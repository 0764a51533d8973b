#!/usr/bin/python
"""Ansible module: the network of a fleet on Azure, and who may come in by SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_body import timed
from ansible.module_utils.azure_module import AZURE
from ansible.module_utils.azure_network import FleetNetwork
from ansible.module_utils.azure_rules import broken_network
from ansible.module_utils.cloud_module import run_with
from ansible.module_utils.cloud_rules import OWN_LABEL

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api

DOCUMENTATION = r"""
module: azure_fleet_network
short_description: The network of a fleet on Azure, and who may come in by SSH
description:
  - A virtual network with one subnet, and a network security group for the VMs' interfaces, both
    called C(tpm-fleet-bench-FLEET-REGION) and tagged. Something of that name without the fleet's
    tag is left alone.
  - With O(subnet_id) no network is made, and a security group only to let SSH through.
extends_documentation_fragment: azure
options:
  state:
    description: Whether they are to be there.
    type: str
    choices: [present, absent]
    default: present
  fleet:
    description: Name of the fleet.
    type: str
    required: true
  location:
    description: Region.
    type: str
    required: true
  subnet_id:
    description: Id of a subnet that is there already, in the same region.
    type: str
  ssh_source_ranges:
    description: CIDR ranges from which SSH is let through. Azure lets nothing in by itself.
    type: list
    elements: str
    default: []
  address_prefix:
    description: Addresses of the network and its subnet, CIDR.
    type: str
    default: 10.81.0.0/24
  max_run_duration:
    description: Seconds until the deadline that is written into the tags.
    type: int
    default: 7200
  tags:
    description: More tags, such as the run's.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Says what it would do.
    support: full
  diff_mode:
    description: Shows what differs, before and after.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Let SSH through from the office
  azure_fleet_network:
    subscription_id: 00000000-0000-0000-0000-000000000000
    resource_group: bench
    location: westeurope
    fleet: trial
    ssh_source_ranges: [192.0.2.0/24]
  register: network
  delegate_to: localhost
"""

RETURN = r"""
subnet_id:
  description: Id of the subnet.
  type: str
  returned: when present
network_security_group_id:
  description: Id of the network security group; empty where none is ours.
  type: str
  returned: when present
kind:
  description: Class of the failure, as for M(azure_confidential_vm).
  type: str
  returned: failure
"""


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Have the network there, or gone."""
    fleet = options["fleet"]
    network = FleetNetwork(api, fleet, options["location"], options["subnet_id"])
    if options["state"] == "absent":
        return network.absent(check=check)
    tags = timed(options["tags"] | {OWN_LABEL: fleet}, options["max_run_duration"])
    ranges = options["ssh_source_ranges"]
    return network.present(ranges, options["address_prefix"], tags, check=check)


def main() -> None:
    """Entry point of the module."""
    run_with(
        AZURE,
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "fleet": {"type": "str", "required": True},
            "location": {"type": "str", "required": True},
            "subnet_id": {"type": "str"},
            "ssh_source_ranges": {"type": "list", "elements": "str", "default": []},
            "address_prefix": {"type": "str", "default": "10.81.0.0/24"},
            "max_run_duration": {"type": "int", "default": 7200},
            "tags": {"type": "dict", "default": {}},
        },
        work,
        check=broken_network,
    )


if __name__ == "__main__":
    main()
