"""What each reader finds, and what it says when there is nothing to find."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from tests.support import platform_machines as machines
from tests.support.platform_machines import BOOT, DMESG, JOURNAL, Machine
from tpmbench.platform import as_document, conclude
from tpmbench.platform.cpuid import Registers
from tpmbench.platform.host import run_command

SCHEMA = json.loads((Path(__file__).parents[4] / "schema/result.schema.json").read_text())
ALL = [
    machines.GCE_SNP,
    machines.GCE_TDX,
    machines.AZURE_SNP,
    machines.AWS_SNP,
    machines.COCONUT,
    machines.BARE_METAL,
    machines.CONTAINER,
    Machine(tpm=None, leaves=None),
]


def values(machine: Machine, root: Path) -> dict[str, str | None]:
    return {item.source: item.value for item in machine.evidence(root)}


@pytest.mark.parametrize("machine", ALL)
def test_same_sources_on_every_machine(tmp_path, machine: Machine):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    evidence = machine.evidence(tmp_path / "a")
    names = [item.source for item in evidence]
    assert names == [item.source for item in machines.GCE_SNP.evidence(tmp_path / "b")]
    assert len(set(names)) == len(names)
    assert all(item.says for item in evidence)


@pytest.mark.parametrize("machine", ALL)
def test_document_fits_the_schema(tmp_path, machine: Machine):
    evidence = machine.evidence(tmp_path)
    document = as_document(evidence, conclude(evidence))
    jsonschema_rs.validator_for(SCHEMA["properties"]["platform"]).validate(document)
    assert len(document["evidence"]) == len(evidence)


def test_values_of_a_gce_guest(tmp_path):
    found = values(machines.GCE_SNP, tmp_path)
    assert found["CPUID 0x8000001F"] == "SME SEV SEV-ES SEV-SNP VMPL"
    assert found["MSR 0xC0010131"] == "SEV SEV-ES SEV-SNP"
    assert found["CPUID 0x40000000"] == "KVMKVMKVM"
    assert found["CPUID 0x4000000C"] is None
    assert found["/proc/cpuinfo flags"] == "hypervisor sev sev_es sev_snp"
    assert found["kernel log: SNP running at VMPL"] == "SEV: SNP running at VMPL0."
    assert found["kernel driver of the TPM"] == "tpm_tis"
    assert found["/dev/sev-guest"] == "present"
    assert found["/dev/tdx_guest"] is None


@pytest.mark.parametrize(
    ("isolation", "value"),
    [
        ((0x1, 0xBA2), "SNP, paravisor"),
        ((0x0, 0x2), "SNP"),
        ((0x1, 0x3), "TDX, paravisor"),
        ((0x0, 0x1), "VBS"),
        ((0x0, 0x7), "type 7"),
        (None, "none"),
    ],
)
def test_hyper_v_isolation(tmp_path, isolation, value):
    table = machines.leaves("GenuineIntel", hypervisor="Microsoft Hv", isolation=isolation)
    assert values(Machine(None, table), tmp_path)["CPUID 0x4000000C"] == value


def test_leaf_beyond_the_highest_is_not_believed(tmp_path):
    """Intel's processors answer it with the contents of another leaf."""
    table = machines.leaves("GenuineIntel", hypervisor="KVMKVMKVM", tdx=True, highest=0x16)
    assert values(Machine(None, table), tmp_path)["CPUID 0x21"] == "none"


def test_hypervisor_leaf_is_not_read_on_bare_metal(tmp_path):
    table = machines.leaves("GenuineIntel", hypervisor=None)
    table[0x40000000] = Registers(0x4000000C, *machines.words("Microsoft Hv"))
    assert values(Machine(None, table), tmp_path)["CPUID 0x40000000"] == "none"


def test_journal_where_dmesg_lost_the_beginning(tmp_path):
    late = "[ 9000.0] usb 1-1: new device\n"
    lines = "Linux version 6.8.0\nSEV: SNP running at VMPL0.\n"
    lost = Machine(None, None, {DMESG: late})
    kept = Machine(None, None, {DMESG: late, JOURNAL: lines})
    name = "kernel log: SNP running at VMPL"
    assert values(kept, tmp_path)[name] == "SEV: SNP running at VMPL0."
    found = values(lost, tmp_path)
    assert (found["kernel log"], found[name]) == ("without its beginning", None)


def test_log_that_may_not_be_read(tmp_path):
    found = {item.source: item for item in Machine(None, None).evidence(tmp_path)}
    assert found["kernel log"].value is None
    assert "not ours to read" in found["kernel log"].says


def test_priority_prefix_of_the_log(tmp_path):
    machine = Machine(None, None, {DMESG: BOOT + "<6>[    0.000000] tdx: Guest detected\n"})
    assert values(machine, tmp_path)["kernel log: tdx: Guest detected"] == "tdx: Guest detected"


def test_no_report_entry_is_made(tmp_path):
    directory = tmp_path / "sys/kernel/config/tsm/report"
    directory.mkdir(parents=True)
    found = values(Machine(None, None), tmp_path)
    assert found["/sys/kernel/config/tsm/report"] == "present, no entry"
    assert list(directory.iterdir()) == []


def test_second_chip(tmp_path):
    links = {
        "/sys/class/tpm/tpm0/device/driver": "/x/drivers/tpm_tis",
        "/sys/class/tpm/tpm1/device/driver": "/x/drivers/tpm_crb",
    }
    tpm = machines.TpmStrings("IFX", "SLB9672", "1.2", "device:/dev/tpmrm1")
    machine = Machine(tpm, None, links=links)
    assert values(machine, tmp_path)["kernel driver of the TPM"] == "tpm_crb"


def test_command_that_prints_and_fails():
    argv = [sys.executable, "-c", "print('none'); raise SystemExit(1)"]
    assert run_command(argv) == "none\n"


def test_command_that_fails_without_a_word():
    argv = [sys.executable, "-c", "import sys; sys.stderr.write('unknown option'); sys.exit(1)"]
    assert run_command(argv) is None


def test_command_that_is_not_there():
    assert run_command(["/nonexistent/systemd-detect-virt"]) is None


def test_command_that_hangs():
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert run_command(argv, timeout_s=0.5) is None


def test_files_that_cannot_be_read(tmp_path):
    names = ("dev/cpu/0/msr", "proc/cpuinfo", "sys/class/dmi/id/sys_vendor")
    for name in names:
        (tmp_path / name).mkdir(parents=True)  # reading a directory fails for root too
    found = values(Machine(None, None), tmp_path)
    assert [found[s] for s in ("MSR 0xC0010131", "/proc/cpuinfo flags", "DMI sys_vendor")] == [
        None,
        None,
        None,
    ]
