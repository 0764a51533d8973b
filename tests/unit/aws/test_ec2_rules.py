"""What is refused before the first call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.ec2_double import rules
from tests.support.ec2_double.store import IMAGE, Store
from tests.support.ec2_options import options


def broken(kind: str, **changes: Any) -> list[str]:
    from ansible.module_utils.ec2_rules import broken as of

    return of(options(kind, **changes))


def test_what_the_inventory_asks_for_breaks_no_rule(wanted: dict[str, Any]) -> None:
    from ansible.module_utils.ec2_rules import broken as of

    assert of(wanted) == []


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("snp", {"max_run_duration": None}, "max_run_duration is missing"),
        ("snp", {"max_run_duration": 299}, "300 s to 10368000 s"),
        ("snp", {"max_run_duration": 120 * 86400 + 1}, "not 10368001 s"),
        ("snp", {"instance_type": "m6a.48xlarge"}, "m6a.48xlarge has no SEV-SNP"),
        ("snp", {"instance_type": "m7a.large"}, "use m6a.large, xlarge"),
        ("snp", {"region": "us-east-1"}, "us-east-1 has no SEV-SNP"),
        ("snp", {"region": "Ireland"}, "region must be one such as eu-west-1"),
        ("snp", {"image": None}, "register one as docs/clouds.md shows"),
        ("snp", {"image": "ubuntu"}, "image must be an id, ami-"),
        ("snp", {"name": "Bench_1"}, "not 'Bench_1'"),
        ("snp", {"fleet": ""}, "tags must name the fleet"),
        ("snp", {"fleet": "My Fleet"}, "tpm-fleet-bench=My Fleet"),
        ("snp", {"schedule_role": "terminator"}, "schedule_role must be the ARN"),
        ("snp", {"user": "no good"}, "user must be the name"),
        ("snp", {"ssh_public_key": "a\nb"}, "one line"),
    ],
)
def test_each_rule_has_its_sentence(kind: str, changes: dict[str, Any], words: str) -> None:
    says = broken(kind, **changes)
    assert words in " ".join(says)
    # A region that is none has no SEV-SNP either.
    assert len(says) == (2 if changes.get("region") == "Ireland" else 1), says


@pytest.mark.parametrize("seconds", [300, 120 * 86400])
def test_the_limits_themselves_are_allowed(seconds: int) -> None:
    assert broken("snp", max_run_duration=seconds) == []


def test_a_control_runs_anywhere() -> None:
    assert broken("snp-control", instance_type="t3.micro", region="eu-north-1") == []


def test_removal_needs_no_image() -> None:
    assert broken("snp", state="absent", image=None, max_run_duration=None) == []


@pytest.mark.parametrize("snp", ["enabled", "disabled"])
@pytest.mark.parametrize("machine", sorted(rules.KNOWN_TYPES))
@pytest.mark.parametrize("region", ["eu-west-1", "eu-north-1", "us-east-2"])
def test_rules_agree_with_the_doubles(snp: str, machine: str, region: str) -> None:
    """The module refuses beforehand what the double would refuse afterwards, and nothing else."""
    from ansible.module_utils.ec2_body import instance_body
    from ansible.module_utils.ec2_rules import broken as of

    wanted = options("snp", cpu_options_amd_sev_snp=snp, instance_type=machine, region=region)
    image = Store(region, None, None).images[IMAGE]
    refused = rules.run_instances(instance_body(wanted, "/dev/sda1"), image, region)
    assert bool(of(wanted)) == bool(refused), (of(wanted), refused)
