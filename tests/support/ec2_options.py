"""Options of ec2_confidential_instance for each kind of VM, with the module's own defaults."""

from __future__ import annotations

from typing import Any

from tests.support.ec2_double.store import IMAGE
from tests.support.module_utils import load_module

KINDS: dict[str, dict[str, Any]] = {
    "snp": {"cpu_options_amd_sev_snp": "enabled"},
    "snp-control": {},
}
GIVEN: dict[str, Any] = {
    "fleet": "trial",
    "instance_type": "m6a.large",
    "image": IMAGE,
    "max_run_duration": 7200,
    "user": "bench",
    "ssh_public_key": "ssh-ed25519 AAAA bench@here",
    "tags": {"tpm-fleet-bench-run": "run-1"},
}


def options(kind: str, **changes: Any) -> dict[str, Any]:
    """Every option by name, as the module sees it."""
    module = load_module("ec2_confidential_instance")
    defaults = {name: spec.get("default") for name, spec in module.arguments().items()}
    given = GIVEN | {"name": f"bench-{kind}", "region": "eu-west-1"}
    return defaults | given | KINDS[kind] | changes
