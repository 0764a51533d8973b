"""The system before and after a run."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import jsonschema_rs
import pytest

from tpmbench.platform import SystemProbe

SCHEMA = json.loads((Path(__file__).parents[4] / "schema/result.schema.json").read_text())[
    "properties"
]["system"]
V2 = {
    "/proc/self/cgroup": "0::/system.slice/bench.service\n",
    "/proc/self/mountinfo": (
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    ),
}
V1 = {
    "/proc/self/cgroup": "5:memory:/box\n1:cpu,cpuacct:/box/inner\n0::/\n",
    "/proc/self/mountinfo": (
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    ),
}
SERVICE = "/sys/fs/cgroup/system.slice/bench.service/"


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def probe(root: Path, cpus: int = 4, release: str = "6.8.0") -> SystemProbe:
    names = os.uname_result(("Linux", "host", release, "#1", "x86_64"))
    return SystemProbe(root=root, uname=lambda: names, affinity=lambda _: set(range(cpus)))


def test_every_field(tmp_path):
    put(
        tmp_path,
        {
            "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\nID=ubuntu\n',
            "/proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 7B13\n",
            "/proc/loadavg": "0.25 0.10 0.05 1/200 4242\n",
            "/proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\n",
            "/proc/sys/kernel/random/boot_id": "553a5337-e236-40c8-af7f-1e3c0898c490\n",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            "/boot/config-6.8.0": "CONFIG_TCG_TPM=y\nCONFIG_TCG_TPM2_HMAC=y\n",
            SERVICE + "cpu.max": "150000 100000\n",
            SERVICE + "cpu.stat": "usage_usec 5\nnr_periods 10\nnr_throttled 2\n",
            **V2,
        },
    )
    before = probe(tmp_path)
    put(
        tmp_path,
        {
            "/proc/loadavg": "1.75 0.10 0.05 1/200 4242\n",
            "/proc/stat": "cpu  150 0 120 910 0 0 0 20 5 0\n",
            SERVICE + "cpu.stat": "usage_usec 9\nnr_periods 60\nnr_throttled 5\n",
        },
    )
    system, facts = before.finish(123_456)
    assert system.as_document() == {
        "kernel": "6.8.0",
        "machine": "x86_64",
        "operating_system": "Ubuntu 24.04.2 LTS",
        "cpu_model": "AMD EPYC 7B13",
        "cpus_usable": 4,
        "boot_id": "553a5337-e236-40c8-af7f-1e3c0898c490",
        "cpu_governor": "performance",
        "cpu_quota_cores": 1.5,
        "load_1m_before": 0.25,
        "load_1m_after": 1.75,
        "steal_ratio": 0.1,  # 20 of 200 ticks; guest time is part of user
        "peak_memory_bytes": 123_456,
    }
    jsonschema_rs.validator_for(SCHEMA).validate(system.as_document())
    assert (facts.quota_periods, facts.throttled_periods) == (50, 3)
    assert facts.kernel_tpm_hmac is True
    assert facts.clocksource == "tsc"


def test_nothing_can_be_read(tmp_path):
    system, facts = probe(tmp_path).finish(0)
    jsonschema_rs.validator_for(SCHEMA).validate(system.as_document())
    absent = [name for name, value in system.as_document().items() if value is None]
    assert absent == [
        "operating_system",
        "cpu_model",
        "boot_id",
        "cpu_governor",
        "cpu_quota_cores",
        "load_1m_before",
        "load_1m_after",
        "steal_ratio",
    ]
    assert (facts.quota_periods, facts.throttled_periods) == (None, None)
    assert (facts.kernel_tpm_hmac, facts.clocksource) == (None, None)
    assert facts.clock_resolution_ns >= 1


def test_this_machine():
    system, facts = SystemProbe().finish(1)
    jsonschema_rs.validator_for(SCHEMA).validate(system.as_document())
    assert system.kernel == os.uname().release
    assert system.cpus_usable == len(os.sched_getaffinity(0))
    assert system.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.clock_resolution_ns < 1_000_000


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({**V2, SERVICE + "cpu.max": "max 100000"}, None),
        ({**V2, SERVICE + "cpu.max": "50000 100000"}, 0.5),
        # the tightest group on the way up counts
        ({**V2, SERVICE + "cpu.max": "max 100000",
          "/sys/fs/cgroup/system.slice/cpu.max": "25000 100000"}, 0.25),
        # a container that sees its own group as the root of the hierarchy
        ({**V2, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "200000 100000"}, 2.0),
        ({**V2, "/proc/self/cgroup": "0::/../other\n",
          "/sys/fs/cgroup/cpu.max": "200000 100000"}, 2.0),
        ({**V1, "/sys/fs/cgroup/cpu/box/inner/cpu.cfs_quota_us": "-1",
          "/sys/fs/cgroup/cpu/box/inner/cpu.cfs_period_us": "100000"}, None),
        ({**V1, "/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "75000",
          "/sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000"}, 0.75),
        ({**V1, "/sys/fs/cgroup/memory/box/cpu.max": "1000 100000"}, None),
    ],
)  # fmt: skip
def test_quota(tmp_path, files, cores):
    put(tmp_path, files)
    assert probe(tmp_path).finish(0)[0].cpu_quota_cores == cores


@pytest.mark.parametrize(
    ("after", "ratio"),
    [
        ("cpu  100 0 100 800 0 0 0 10 0 0", None),  # no tick went by
        ("cpu  200 0 100 800 0 0 0 9 0 0", 0.0),  # the counter went back
        ("cpu  100 0 100 800 0 0 0 110 0 0", 1.0),
        ("cpu  1 2 3", None),
    ],
)
def test_steal(tmp_path, after, ratio):
    put(tmp_path, {"/proc/stat": "cpu  100 0 100 800 0 0 0 10 0 0\n"})
    before = probe(tmp_path)
    put(tmp_path, {"/proc/stat": after + "\n"})
    assert before.finish(0)[0].steal_ratio == ratio


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("CONFIG_TCG_TPM2_HMAC=y\n", True),
        ("# CONFIG_TCG_TPM2_HMAC is not set\n", False),
        ("CONFIG_TCG_TPM=y\n", False),  # before 6.10
    ],
)
def test_kernel_hmac_setting(tmp_path, text, active):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(text.encode()))
    assert probe(tmp_path).finish(0)[1].kernel_tpm_hmac is active


def test_broken_kernel_configuration(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_X=y" * 100)[:20])
    assert probe(tmp_path).finish(0)[1].kernel_tpm_hmac is None
