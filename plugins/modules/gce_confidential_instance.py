#!/usr/bin/python
"""Ansible module: a Confidential VM on Google Compute Engine, with a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_rules import OWN_LABEL, naming
from ansible.module_utils.gce_instance import Instance
from ansible.module_utils.gce_module import run
from ansible.module_utils.gce_reconcile import absent, present
from ansible.module_utils.gce_rules import broken

if TYPE_CHECKING:
    from ansible.module_utils.gce_api import Api

DOCUMENTATION = r"""
module: gce_confidential_instance
short_description: A Confidential VM on Google Compute Engine, with a deadline
description:
  - Makes or removes one VM. Options are named after the API's fields, in snake case.
  - Every VM has O(max_run_duration) with the action C(DELETE), and a boot disk that goes with it,
    so that Google removes it even if nobody else does.
  - Only VMs that the label C(tpm-fleet-bench) gives to the fleet in O(labels) are ever changed or
    removed.
  - A VM that exists is compared field by field. Labels and metadata are changed while it runs; for
    anything else it must be made anew, which O(recreate) allows.
  - Combinations that the API would refuse are refused before the first call, from a dated table
    (C(plugins/module_utils/gce_rules.py)).
extends_documentation_fragment: gce
options:
  name:
    description: Name of the VM, which is that of its boot disk too.
    type: str
    required: true
  state:
    description: >-
      Whether the VM is to run or to be gone. V(absent) returns when the API no longer knows it.
    type: str
    choices: [present, absent]
    default: present
  zone:
    description: Zone, such as V(europe-west4-b).
    type: str
    required: true
  machine_type:
    description: Machine type, such as V(n2d-standard-2). Needed for O(state=present).
    type: str
  confidential_instance_type:
    description: Technology of the Confidential VM. Not given, the VM is an ordinary one.
    type: str
    choices: [SEV, SEV_SNP, TDX]
  confidential_tpm_type:
    description:
      - V(EPHEMERAL) asks for a TPM inside the TEE (an SVSM); V(NO_CC_TPM), as not given, for the
        hypervisor's.
      - In the API's schema; where it is offered was not checked.
    type: str
    choices: [EPHEMERAL, NO_CC_TPM]
  min_cpu_platform:
    description: Oldest CPU platform. V(AMD Milan) is needed for SEV-SNP.
    type: str
  max_run_duration:
    description: >-
      Seconds after which Google deletes the VM, 30 to 10368000 (120 days). Needed for
      O(state=present). It may end up to 30 s late.
    type: int
  provisioning_model:
    description: V(SPOT) is cheaper and may be taken away at any time.
    type: str
    choices: [STANDARD, SPOT]
    default: STANDARD
  on_host_maintenance:
    description: What happens when the host is maintained. SEV-SNP and TDX need V(TERMINATE).
    type: str
    choices: [TERMINATE, MIGRATE]
    default: TERMINATE
  image_project:
    description: Project of the image.
    type: str
    default: ubuntu-os-cloud
  image_family:
    description: >-
      Family of the image. The newest that is not deprecated and has every C(guestOsFeatures) entry
      that the VM needs is taken.
    type: str
    default: ubuntu-2404-lts-amd64
  image:
    description: One image by name, instead of O(image_family). It is checked in the same way.
    type: str
  enable_secure_boot:
    description: Secure Boot. The vTPM and integrity monitoring are always on.
    type: bool
    default: false
  disk_type:
    description: Type of the boot disk.
    type: str
    default: pd-balanced
  disk_size_gb:
    description: Size of the boot disk in GiB, 10 or more.
    type: int
    default: 10
  network:
    description: >-
      Network, by name in the project or as a partial URL. V(default) without O(subnetwork).
    type: str
  subnetwork:
    description: Subnetwork as a partial URL, C(projects/P/regions/R/subnetworks/S).
    type: str
  nic_type:
    description: Network interface. Confidential VMs of the third generation need V(GVNIC).
    type: str
    choices: [GVNIC, VIRTIO_NET]
    default: GVNIC
  external_address:
    description: Whether the VM gets an address on the Internet.
    type: bool
    default: true
  labels:
    description: >-
      Labels of the VM and its disk. C(tpm-fleet-bench), the fleet's name, is needed, for
      O(state=absent) too.
    type: dict
    default: {}
  metadata:
    description: Metadata of the VM, such as C(ssh-keys).
    type: dict
    default: {}
  tags:
    description: Network tags.
    type: list
    elements: str
    default: []
  service_account:
    description: E-mail address of the account that the VM runs as. Not given, it has none.
    type: str
  service_account_scopes:
    description: OAuth scopes of that account.
    type: list
    elements: str
    default: [https://www.googleapis.com/auth/cloud-platform]
  recreate:
    description: >-
      Whether a VM that differs in a field that cannot be changed is deleted and made anew.
    type: bool
    default: false
  validate_only:
    description: Check the options against the table of rules and end; nothing is sent to Google.
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
- name: A VM with SEV-SNP, gone after two hours
  gce_confidential_instance:
    project: my-project
    zone: europe-west4-b
    name: bench-snp
    machine_type: n2d-standard-2
    confidential_instance_type: SEV_SNP
    min_cpu_platform: AMD Milan
    max_run_duration: 7200
    labels: {tpm-fleet-bench: trial}
  delegate_to: localhost

- name: Remove it
  gce_confidential_instance:
    project: my-project
    zone: europe-west4-b
    name: bench-snp
    state: absent
    labels: {tpm-fleet-bench: trial}
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
      description: Technology; C(none) for an ordinary VM.
      type: str
    confidential_tpm_type:
      description: TPM inside the TEE; C(none) where it is the hypervisor's.
      type: str
    address:
      description: Address to connect to; the external one where there is one.
      type: str
    internal_address:
      description: Address in the VPC network.
      type: str
    cpu_platform:
      description: CPU platform that it runs on.
      type: str
    ends_at:
      description: When Google deletes the VM, RFC 3339.
      type: str
    id:
      description: The API's number for this VM; another after it was made anew.
      type: str
kind:
  description: >-
    Class of the failure; rules, quota, capacity, machine-type, image, permission, api-disabled,
    not-found, conflict, credentials, deadline, rate, server, unreachable, busy, not-ours,
    needs-recreation, mismatch, vanished or invalid.
  type: str
  returned: failure
"""


TEXTS = ("machine_type", "min_cpu_platform", "image", "network", "subnetwork", "service_account")


def arguments() -> dict[str, dict[str, Any]]:
    """The module's options; the documentation above says what they mean."""
    return {
        **{name: {"type": "str"} for name in TEXTS},
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "zone": {"type": "str", "required": True},
        "confidential_instance_type": {"type": "str", "choices": ["SEV", "SEV_SNP", "TDX"]},
        "confidential_tpm_type": {"type": "str", "choices": ["EPHEMERAL", "NO_CC_TPM"]},
        "max_run_duration": {"type": "int"},
        "provisioning_model": _choice("STANDARD", "SPOT"),
        "on_host_maintenance": _choice("TERMINATE", "MIGRATE"),
        "image_project": {"type": "str", "default": "ubuntu-os-cloud"},
        "image_family": {"type": "str", "default": "ubuntu-2404-lts-amd64"},
        "enable_secure_boot": {"type": "bool", "default": False},
        "disk_type": {"type": "str", "default": "pd-balanced"},
        "disk_size_gb": {"type": "int", "default": 10},
        "nic_type": _choice("GVNIC", "VIRTIO_NET"),
        "external_address": {"type": "bool", "default": True},
        "labels": {"type": "dict", "default": {}},
        "metadata": {"type": "dict", "default": {}},
        "tags": {"type": "list", "elements": "str", "default": []},
        "service_account_scopes": {
            "type": "list",
            "elements": "str",
            "default": ["https://www.googleapis.com/auth/cloud-platform"],
        },
        "recreate": {"type": "bool", "default": False},
        "validate_only": {"type": "bool", "default": False},
    }


def _choice(*values: str) -> dict[str, Any]:
    return {"type": "str", "choices": list(values), "default": values[0]}


def check_options(options: dict[str, Any]) -> list[str]:
    """What is wrong with the options, in sentences; puts labels and metadata into text."""
    for field in ("labels", "metadata"):
        options[field] = {str(key): str(value) for key, value in options[field].items()}
    if options["state"] == "absent":
        return naming(options["name"], {OWN_LABEL: options["labels"].get(OWN_LABEL, "")})
    return broken(options)


def work(api: Api, options: dict[str, Any], check: bool) -> dict[str, Any]:
    """Have the VM as the options say."""
    fleet = options["labels"][OWN_LABEL]
    instance = Instance(api, options["zone"], options["name"], fleet)
    if options["state"] == "present":
        return present(instance, options, check=check)
    return absent(instance, check=check)


def main() -> None:
    """Entry point of the module."""
    run(
        arguments(),
        work,
        [("state", "present", ["machine_type"])],
        check_options,
    )


if __name__ == "__main__":
    main()
