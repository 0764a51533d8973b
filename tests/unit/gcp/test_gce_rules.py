"""What is refused before the first call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.compute_double import rules
from tests.support.compute_double.store import FEATURES
from tests.support.gce_options import options


def broken(kind: str, **changes: Any) -> list[str]:
    from ansible.module_utils.gce_rules import broken as of

    return of(options(kind, **changes))


def test_what_the_inventory_asks_for_breaks_no_rule(wanted: dict[str, Any]) -> None:
    from ansible.module_utils.gce_rules import broken as of

    assert of(wanted) == []


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("snp", {"max_run_duration": None}, "max_run_duration is missing"),
        ("snp", {"max_run_duration": 29}, "30 s to 10368000 s"),
        ("snp", {"max_run_duration": 120 * 86400 + 1}, "not 10368001 s"),
        ("snp", {"machine_type": "e2-micro"}, "machine type e2-micro has no SEV_SNP"),
        ("tdx", {"machine_type": "n2d-standard-2"}, "n2d-standard-2 has no TDX"),
        ("tdx", {"machine_type": "c3-standard-4-lssd"}, "has no TDX"),
        ("snp", {"min_cpu_platform": None}, "needs min_cpu_platform: AMD Milan, not none"),
        ("snp", {"on_host_maintenance": "MIGRATE"}, "needs on_host_maintenance: TERMINATE"),
        (
            "tdx",
            {"confidential_tpm_type": "EPHEMERAL"},
            "needs confidential_instance_type: SEV_SNP",
        ),
        ("snp-control", {"confidential_tpm_type": "EPHEMERAL"}, "needs confidential_instance"),
        ("snp", {"name": "Bench_1"}, "not 'Bench_1'"),
        ("snp", {"name": "b" * 64}, "up to 63"),
        ("snp", {"labels": {}}, "labels must name the fleet"),
        ("snp", {"labels": {"tpm-fleet-bench": "My Fleet"}}, "tpm-fleet-bench=My Fleet"),
    ],
)
def test_each_rule_has_its_sentence(kind: str, changes: dict[str, Any], words: str) -> None:
    says = broken(kind, **changes)
    assert len(says) == 1, says
    assert words in says[0]


@pytest.mark.parametrize("seconds", [30, 120 * 86400])
def test_the_limits_themselves_are_allowed(seconds: int) -> None:
    assert broken("snp", max_run_duration=seconds) == []


@pytest.mark.parametrize("tee", ["SEV", "SEV_SNP", "TDX"])
@pytest.mark.parametrize(
    "machine", ["n2d-standard-2", "c3-standard-4", "c2d-standard-2", "e2-micro"]
)
@pytest.mark.parametrize("platform", [None, "AMD Milan"])
@pytest.mark.parametrize("maintenance", ["MIGRATE", "TERMINATE"])
def test_rules_agree_with_the_doubles(
    tee: str, machine: str, platform: str | None, maintenance: str
) -> None:
    """The module refuses beforehand what the double would refuse afterwards, and nothing else."""
    from ansible.module_utils.gce_body import instance_body
    from ansible.module_utils.gce_rules import broken as of

    wanted = options(
        "snp",
        confidential_instance_type=tee,
        machine_type=machine,
        min_cpu_platform=platform,
        on_host_maintenance=maintenance,
    )
    refused = rules.refusal(instance_body(wanted, "x"), set(FEATURES))
    assert bool(of(wanted)) == bool(refused), (of(wanted), refused)


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        ("snp", {"SEV_SNP_CAPABLE", "UEFI_COMPATIBLE", "GVNIC"}),
        ("tdx", {"TDX_CAPABLE", "UEFI_COMPATIBLE", "GVNIC"}),
        ("snp-control", {"UEFI_COMPATIBLE", "GVNIC"}),
    ],
)
def test_features_that_an_image_must_have(kind: str, features: set[str]) -> None:
    from ansible.module_utils.gce_rules import image_features

    assert set(image_features(options(kind))) == features
