"""What is refused before the first call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.azure_double import rules
from tests.support.azure_options import options


def broken(kind: str, **changes: Any) -> list[str]:
    from ansible.module_utils.azure_rules import broken as of

    return of(options(kind, **changes))


def test_what_the_inventory_asks_for_breaks_no_rule(wanted: dict[str, Any]) -> None:
    from ansible.module_utils.azure_rules import broken as of

    assert of(wanted) == []


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("snp", {"max_run_duration": None}, "max_run_duration is missing"),
        ("snp", {"max_run_duration": 1799}, "1800 s to 82800 s (23 hours)"),
        ("snp", {"max_run_duration": 82801}, "not 82801 s: auto-shutdown recurs daily"),
        ("snp", {"vm_size": "Standard_B1s"}, "Standard_B1s has no SNP (as of"),
        ("tdx", {"vm_size": "Standard_DC2as_v5"}, "Standard_DC2as_v5 has no TDX"),
        ("tdx", {"vm_size": "Standard_DC2es_v5"}, "use one of DCesv6 or ECesv6"),
        ("snp-control", {"vm_size": "Standard_EC2as_v5"}, "needs confidential_computing_type: SNP"),
        ("tdx-control", {"vm_size": "Standard_DC2es_v6"}, "for a control take Standard_D2s_v6"),
        (
            "snp",
            {"security_encryption_type": "DiskWithVMGuestState", "secure_boot_enabled": False},
            "needs secure_boot_enabled",
        ),
        ("snp", {"name": "Bench_1"}, "not 'Bench_1'"),
        ("snp", {"name": "b" * 64}, "up to 63"),
        ("snp", {"tags": {}}, "tags must name the fleet"),
        ("snp", {"tags": {"tpm-fleet-bench": ""}}, "tags must name the fleet"),
        ("snp", {"tags": {"tpm-fleet-bench": "My Fleet"}}, "tag tpm-fleet-bench=My Fleet"),
        ("snp", {"admin_username": "root"}, "not 'root'"),
        ("snp", {"admin_username": "A B"}, "not 'A B'"),
        ("snp", {"ssh_public_key": "ecdsa-sha2-nistp256 AAAA"}, "ssh-rsa or ssh-ed25519"),
        ("snp", {"ssh_public_key": ""}, "must be an OpenSSH public key"),
    ],
)
def test_each_rule_has_its_sentence(kind: str, changes: dict[str, Any], words: str) -> None:
    says = broken(kind, **changes)
    assert len(says) == 1, says
    assert words in says[0]


@pytest.mark.parametrize("seconds", [1800, 82800])
def test_the_limits_themselves_are_allowed(seconds: int) -> None:
    assert broken("snp", max_run_duration=seconds) == []


@pytest.mark.parametrize("size", sorted(rules.OFFERED["westeurope"]))
@pytest.mark.parametrize("kind", [None, "SNP", "TDX"])
def test_rules_agree_with_the_doubles(size: str, kind: str | None) -> None:
    """The module refuses beforehand what the double's offers do not have, and nothing else."""
    has = rules.OFFERED["westeurope"][size]
    refused = broken("snp", vm_size=size, confidential_computing_type=kind)
    assert bool(refused) == (has != kind), (refused, has)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ssh_source_ranges": ["192.0.2.7"]}, ""),
        ({"ssh_source_ranges": ["192.0.2.7/24"]}, "192.0.2.7/24 is no range of addresses"),
        ({"ssh_source_ranges": ["home"]}, "home is no range"),
        ({"address_prefix": "10.0.0.0/33"}, "10.0.0.0/33 is no range"),
        ({"fleet": ""}, "tags must name the fleet"),
    ],
)
def test_rules_of_the_network(changes: dict[str, Any], words: str) -> None:
    from ansible.module_utils.azure_rules import broken_network

    given = {"fleet": "trial", "ssh_source_ranges": [], "address_prefix": "10.81.0.0/24"}
    says = broken_network(given | changes)
    assert len(says) == (words != ""), says
    assert words in " ".join(says)
