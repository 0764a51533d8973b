"""Options of gce_confidential_instance for each kind of VM, with the module's own defaults."""

from __future__ import annotations

from typing import Any

from tests.support.module_utils import load_module

SNP = {
    "machine_type": "n2d-standard-2",
    "confidential_instance_type": "SEV_SNP",
    "min_cpu_platform": "AMD Milan",
}
TDX = {"machine_type": "c3-standard-4", "confidential_instance_type": "TDX"}
KINDS: dict[str, dict[str, Any]] = {
    "snp": SNP,
    "tdx": TDX,
    "snp-control": {"machine_type": "n2d-standard-2", "min_cpu_platform": "AMD Milan"},
    "tdx-control": {"machine_type": "c3-standard-4"},
}


def options(kind: str, **changes: Any) -> dict[str, Any]:
    """Every option by name, as the module sees it."""
    module = load_module("gce_confidential_instance")
    defaults = {name: spec.get("default") for name, spec in module.arguments().items()}
    given = {
        "name": f"bench-{kind}",
        "zone": "europe-west4-b",
        "max_run_duration": 7200,
        "labels": {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-1"},
        "metadata": {"ssh-keys": "bench:ssh-ed25519 AAAA", "enable-guest-attributes": "TRUE"},
    }
    return defaults | given | KINDS[kind] | changes
