"""Warnings: each on its own side of its threshold, and none on a quiet machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest

from tests.support import platform_machines as machines
from tpmbench.platform import Facts, Platform, System, conclude, host_warnings

SCHEMA = json.loads((Path(__file__).parents[4] / "schema/result.schema.json").read_text())
QUIET = System(
    kernel="6.8.0",
    machine="x86_64",
    operating_system="Ubuntu 24.04.2 LTS",
    cpu_model="AMD EPYC 7B13",
    cpus_usable=4,
    boot_id="553a5337-e236-40c8-af7f-1e3c0898c490",
    cpu_governor="performance",
    cpu_quota_cores=None,
    load_1m_before=0.3,
    load_1m_after=1.4,
    steal_ratio=0.001,
    peak_memory_bytes=90_000_000,
)
CALM = Facts(
    quota_periods=None,
    throttled_periods=None,
    kernel_tpm_hmac=False,
    clock_resolution_ns=1,
    clocksource="kvm-clock",
)
CLEAR = Platform("sev-snp", "hypervisor", 0)


@pytest.mark.parametrize(
    "machine",
    [
        machines.GCE_SNP,
        machines.GCE_TDX,
        machines.AZURE_SNP,
        machines.AWS_SNP,
        machines.COCONUT,
        machines.BARE_METAL,
        machines.LAPTOP,
        machines.QEMU,
    ],
)
def test_quiet_machine_has_no_warning(tmp_path, machine):
    assert host_warnings(QUIET, conclude(machine.evidence(tmp_path)), CALM) == []


def test_quiet_machine_where_little_can_be_read():
    system = replace(
        QUIET,
        cpu_governor=None,
        load_1m_before=None,
        load_1m_after=None,
        steal_ratio=None,
        boot_id=None,
    )
    facts = replace(CALM, kernel_tpm_hmac=None, clocksource=None)
    assert host_warnings(system, CLEAR, facts) == []


CASES = {
    # code: what is just too much, what is just not, what the message must name
    "load": ({"load_1m_before": 2.01}, {"load_1m_before": 2.0}, ["2.01", "2.00"]),
    "steal": ({"steal_ratio": 0.011}, {"steal_ratio": 0.01}, ["1.1%", "1%"]),
    "few-cpus": ({"cpus_usable": 1}, {"cpus_usable": 2}, ["1 processor", "2"]),
    "governor": ({"cpu_governor": "powersave"}, {"cpu_governor": "schedutil"}, ["powersave"]),
    "cpu-quota": ({"cpu_quota_cores": 0.5}, {"cpu_quota_cores": 1.0}, ["0.50", "1"]),
    "throttled": (
        {"throttled_periods": 3, "quota_periods": 50},
        {"throttled_periods": 0, "quota_periods": 50},
        ["3 of 50"],
    ),
    "coarse-clock": (
        {"clock_resolution_ns": 1_001},
        {"clock_resolution_ns": 1_000},
        ["1001 ns", "1000 ns"],
    ),
    "slow-clocksource": ({"clocksource": "hpet"}, {"clocksource": "tsc"}, ["hpet"]),
    "kernel-tpm-hmac": (
        {"kernel_tpm_hmac": True},
        {"kernel_tpm_hmac": False},
        ["CONFIG_TCG_TPM2_HMAC"],
    ),
    "software-tpm": (
        {"tpm_location": "software"},
        {"tpm_location": "discrete"},
        ["say nothing about hardware"],
    ),
    "tpm-location-unknown": ({"tpm_location": "unknown"}, {"tpm_location": "firmware"}, []),
    "tee-unknown": ({"tee": "unknown"}, {"tee": "none"}, []),
    "evidence-disagrees": (
        {"disagreements": ["Sources disagree on x."]},
        {"disagreements": []},
        ["Sources disagree on x."],
    ),
}


def warned(changes: dict[str, object]):
    parts = [
        replace(part, **{k: v for k, v in changes.items() if hasattr(part, k)})
        for part in (QUIET, CLEAR, CALM)
    ]
    return host_warnings(*parts)


@pytest.mark.parametrize(("code", "case"), CASES.items(), ids=CASES)
def test_threshold(code, case):
    beyond, within, named = case
    assert warned(within) == []
    (warning,) = warned(beyond)
    assert warning.code == code
    assert all(text in warning.message for text in named)
    assert warning.remedy.endswith((".", "performance"))
    item = SCHEMA["properties"]["warnings"]["items"]
    jsonschema_rs.validator_for({**item, "$defs": SCHEMA["$defs"]}).validate(warning.as_document())


def test_kernel_hmac_does_not_touch_an_emulator():
    codes = [w.code for w in warned({"tpm_location": "software", "kernel_tpm_hmac": True})]
    assert codes == ["software-tpm"]


def test_container_says_software_tpm_and_no_more(tmp_path):
    platform = conclude(machines.CONTAINER.evidence(tmp_path))
    assert [w.code for w in host_warnings(QUIET, platform, CALM)] == ["software-tpm"]


def test_each_disagreement_is_named():
    codes = warned({"disagreements": ["One.", "Two."]})
    assert [w.message for w in codes] == ["One.", "Two."]
