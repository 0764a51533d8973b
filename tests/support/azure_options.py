"""Options of azure_confidential_vm for each kind of VM, with the module's own defaults."""

from __future__ import annotations

from typing import Any

from tests.support.module_utils import load_module

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs1lPpPFcFjqVxw1kZEr3vdHnWlwXmKqCF8YzPvVvxz"
KINDS: dict[str, dict[str, Any]] = {
    "snp": {"vm_size": "Standard_DC2as_v5", "confidential_computing_type": "SNP"},
    "tdx": {"vm_size": "Standard_DC2es_v6", "confidential_computing_type": "TDX"},
    "snp-control": {"vm_size": "Standard_D2as_v5"},
    "tdx-control": {"vm_size": "Standard_D2s_v6"},
}

FLEETS = "tpm-fleet-bench-trial-westeurope"  # name of what the fleet trial shares there
NETWORKS = {f"virtualNetworks {FLEETS}", f"networkSecurityGroups {FLEETS}"}


def parts(name: str) -> set[str]:
    """A VM and what belongs to it, as the double's store names them."""
    return {
        f"virtualMachines {name}",
        f"disks {name}-os",
        f"networkInterfaces {name}-nic",
        f"publicIPAddresses {name}-ip",
        f"schedules shutdown-computevm-{name}",
    }


def given(kind: str) -> dict[str, Any]:
    """What a user gives, besides the subnet."""
    return {
        "name": f"bench-{kind}",
        "location": "westeurope",
        "max_run_duration": 7200,
        "admin_username": "bench",
        "ssh_public_key": f"{ED25519} someone@somewhere",
        "tags": {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-1"},
    } | KINDS[kind]


def options(kind: str, **changes: Any) -> dict[str, Any]:
    """Every option by name, as the module sees it after it has looked at them."""
    module = load_module("azure_confidential_vm")
    defaults = {name: spec.get("default") for name, spec in module.arguments().items()}
    every = defaults | {"subnet_id": "/s", "public_address": True} | given(kind) | changes
    if every["image_sku"] is None:
        every["image_sku"] = "cvm" if every["confidential_computing_type"] else "server"
    return every
