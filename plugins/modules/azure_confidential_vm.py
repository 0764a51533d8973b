#!/usr/bin/python
"""Ansible module: a confidential VM on Azure, with a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_module import AZURE
from ansible.module_utils.azure_reconcile import absent, present
from ansible.module_utils.azure_rules import broken
from ansible.module_utils.azure_vm import Machine
from ansible.module_utils.cloud_module import run_with
from ansible.module_utils.cloud_rules import OWN_LABEL, naming

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api

DOCUMENTATION = r"""
module: azure_confidential_vm
short_description: A confidential VM on Azure, with a deadline
description:
  - Makes or removes one VM with its boot disk, network interface, public address and
    auto-shutdown. Options are named after the API's fields, in snake case.
  - Azure has no time to live for a VM. Every VM gets an auto-shutdown
    (C(Microsoft.DevTestLab/schedules)) at its deadline, which stops and deallocates it; the disk
    and the address stay, and cost a little, until the VM is removed. The guest ends itself a
    quarter of an hour later, in case the auto-shutdown did not.
  - Disk, interface and address have C(deleteOption) C(Delete), so that they go with the VM.
  - Only what has the tag C(tpm-fleet-bench) with the fleet's name is ever changed or removed.
  - A VM that exists is compared field by field. Tags and the auto-shutdown are set while it runs;
    for anything else it must be made anew, which O(recreate) allows.
  - Combinations that the API would refuse are refused before the first call, from a dated table
    (C(plugins/module_utils/azure_rules.py)); whether the region has the size and the image is
    asked before anything is made.
  - What fails half-way is removed again.
extends_documentation_fragment: azure
options:
  name:
    description: Name of the VM, which those of its parts begin with.
    type: str
    required: true
  state:
    description: >-
      Whether the VM is to run or to be gone. V(absent) returns when the API no longer knows it nor
      any of its parts.
    type: str
    choices: [present, absent]
    default: present
  location:
    description: Region, such as V(westeurope). Needed for O(state=present).
    type: str
  vm_size:
    description: Size, such as V(Standard_DC2as_v5). Needed for O(state=present).
    type: str
  confidential_computing_type:
    description:
      - Technology of the confidential VM, which its size must have. It is the size's property; the
        API is asked for C(securityType) C(ConfidentialVM).
      - Not given, the VM is one with C(TrustedLaunch), whose vTPM is the hypervisor's.
    type: str
    choices: [SNP, TDX]
  security_encryption_type:
    description: >-
      What of a confidential VM is encrypted with its keys; its state (the vTPM's) alone, or the
      boot disk too. V(NonPersistedTPM) keeps no state; in the API's schema, where it is offered was
      not checked.
    type: str
    choices: [VMGuestStateOnly, DiskWithVMGuestState, NonPersistedTPM]
    default: VMGuestStateOnly
  secure_boot_enabled:
    description: Secure Boot. The vTPM is always on.
    type: bool
    default: true
  max_run_duration:
    description: >-
      Seconds after which Azure stops and deallocates the VM, 1800 to 82800 (23 hours), rounded up
      to the minute. Needed for O(state=present).
    type: int
  image_publisher:
    description: Publisher of the image.
    type: str
    default: Canonical
  image_offer:
    description: Offer of the image.
    type: str
    default: ubuntu-24_04-lts
  image_sku:
    description: SKU of the image; not given, V(cvm) for a confidential VM and V(server) otherwise.
    type: str
  image_version:
    description: Version of the image. V(latest) is looked up before the VM is made.
    type: str
    default: latest
  storage_account_type:
    description: Type of the boot disk.
    type: str
    choices: [Standard_LRS, StandardSSD_LRS, Premium_LRS]
    default: StandardSSD_LRS
  disk_size_gb:
    description: Size of the boot disk in GiB; not given, the image's.
    type: int
  admin_username:
    description: Account that is made, with sudo. Needed for O(state=present).
    type: str
  ssh_public_key:
    description: Its public key, C(ssh-ed25519) or C(ssh-rsa). Needed for O(state=present).
    type: str
  subnet_id:
    description: >-
      Id of the subnet, such as M(azure_fleet_network) returns. Needed for O(state=present).
    type: str
  network_security_group_id:
    description: Id of a network security group for the interface. Not given, the subnet's decides.
    type: str
  public_address:
    description: Whether the VM gets an address on the Internet.
    type: bool
    default: true
  tags:
    description: Tags of everything that is made. C(tpm-fleet-bench), the fleet's name, is needed.
    type: dict
    default: {}
  recreate:
    description: >-
      Whether a VM that differs in a field that cannot be changed, is stopped, or is past its
      deadline is deleted and made anew.
    type: bool
    default: false
  validate_only:
    description: Check the options against the table of rules and end; nothing is sent to Azure.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reads, changes nothing, and says what it would do.
    support: full
  diff_mode:
    description: Shows the compared fields before and after.
    support: full
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: A VM with SEV-SNP, deallocated after two hours
  azure_confidential_vm:
    subscription_id: 00000000-0000-0000-0000-000000000000
    resource_group: bench
    location: westeurope
    name: bench-snp
    vm_size: Standard_DC2as_v5
    confidential_computing_type: SNP
    max_run_duration: 7200
    admin_username: bench
    ssh_public_key: "{{ lookup('file', '~/.ssh/id_ed25519.pub') }}"
    subnet_id: "{{ network.subnet_id }}"
    network_security_group_id: "{{ network.network_security_group_id }}"
    tags: {tpm-fleet-bench: trial}
  delegate_to: localhost

- name: Remove it
  azure_confidential_vm:
    subscription_id: 00000000-0000-0000-0000-000000000000
    resource_group: bench
    name: bench-snp
    tags: {tpm-fleet-bench: trial}
    state: absent
  delegate_to: localhost
"""

RETURN = r"""
action:
  description: >-
    What was done, or in check mode would be; created, recreated, updated, deleted or none.
  type: str
  returned: success
vm:
  description: What the API says of the VM, read after the change.
  type: dict
  returned: when the VM exists
  contains:
    confidential_instance_type:
      description: Technology, SEV_SNP or TDX, out of the security type and the size; else C(none).
      type: str
    security_type:
      description: C(ConfidentialVM), C(TrustedLaunch) or C(Standard), as the API says.
      type: str
    address:
      description: Address to connect to; the public one where there is one.
      type: str
    internal_address:
      description: Address in the virtual network.
      type: str
    ends_at:
      description: When Azure stops and deallocates the VM, RFC 3339.
      type: str
    id:
      description: Azure's id for this VM; another after it was made anew.
      type: str
kind:
  description: >-
    Class of the failure; rules, quota, capacity, machine-type, image, permission, policy, provider,
    no-group, no-subscription, not-found, conflict, in-use, credentials, deadline, rate, server,
    unreachable, busy, not-ours, needs-recreation, mismatch, vanished or invalid.
  type: str
  returned: failure
"""

TEXTS = (
    "location",
    "vm_size",
    "image_sku",
    "admin_username",
    "ssh_public_key",
    "subnet_id",
    "network_security_group_id",
)
NEEDED = ["location", "vm_size", "admin_username", "ssh_public_key", "subnet_id"]


def arguments() -> dict[str, dict[str, Any]]:
    """The module's options; the documentation above says what they mean."""
    return {
        # Not a secret, although its name has "key" in it.
        **{name: {"type": "str", "no_log": False} for name in TEXTS},
        "name": {"type": "str", "required": True},
        "state": _choice("present", "absent"),
        "confidential_computing_type": {"type": "str", "choices": ["SNP", "TDX"]},
        "security_encryption_type": _choice(
            "VMGuestStateOnly", "DiskWithVMGuestState", "NonPersistedTPM"
        ),
        "secure_boot_enabled": {"type": "bool", "default": True},
        "max_run_duration": {"type": "int"},
        "image_publisher": {"type": "str", "default": "Canonical"},
        "image_offer": {"type": "str", "default": "ubuntu-24_04-lts"},
        "image_version": {"type": "str", "default": "latest"},
        "storage_account_type": {
            "type": "str",
            "choices": ["Standard_LRS", "StandardSSD_LRS", "Premium_LRS"],
            "default": "StandardSSD_LRS",
        },
        "disk_size_gb": {"type": "int"},
        "public_address": {"type": "bool", "default": True},
        "tags": {"type": "dict", "default": {}},
        "recreate": {"type": "bool", "default": False},
        "validate_only": {"type": "bool", "default": False},
    }


def _choice(*values: str) -> dict[str, Any]:
    return {"type": "str", "choices": list(values), "default": values[0]}


def check_options(options: dict[str, Any]) -> list[str]:
    """What is wrong with the options, in sentences; completes the image, makes tags text."""
    options["tags"] = {str(key): str(value) for key, value in options["tags"].items()}
    if options["state"] == "absent":
        return naming(options["name"], {OWN_LABEL: options["tags"].get(OWN_LABEL, "")}, "tags")
    if not options["image_sku"]:
        options["image_sku"] = "cvm" if options["confidential_computing_type"] else "server"
    return broken(options)


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Have the VM as the options say."""
    machine = Machine(api, options["name"], options["tags"][OWN_LABEL])
    if options["state"] == "present":
        return present(machine, options, check=check)
    return absent(machine, check=check)


def main() -> None:
    """Entry point of the module."""
    run_with(AZURE, arguments(), work, [("state", "present", NEEDED)], check_options)


if __name__ == "__main__":
    main()
