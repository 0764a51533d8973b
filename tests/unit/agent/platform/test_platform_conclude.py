"""Conclusions on whole machines, on thinned-out evidence and on evidence that disagrees."""

from __future__ import annotations

import pytest

from tests.support import platform_machines as machines
from tests.support.platform_machines import BOOT, CVM, DMESG, DMI, Machine
from tpmbench.platform import Evidence, conclude
from tpmbench.platform.tpm import MAKERS

WHOLE = {
    "GCE SEV-SNP": (machines.GCE_SNP, "sev-snp", "hypervisor", 0),
    "GCE SEV": (machines.GCE_SEV, "sev", "hypervisor", None),
    "GCE TDX": (machines.GCE_TDX, "tdx", "hypervisor", None),
    "Azure SEV-SNP": (machines.AZURE_SNP, "sev-snp", "paravisor", None),
    "Azure Trusted Launch": (machines.AZURE_TRUSTED_LAUNCH, "none", "hypervisor", None),
    "AWS SEV-SNP": (machines.AWS_SNP, "sev-snp", "hypervisor", 0),
    "COCONUT-SVSM": (machines.COCONUT, "sev-snp", "paravisor", 2),
    "bare metal": (machines.BARE_METAL, "none", "discrete", None),
    "laptop": (machines.LAPTOP, "none", "firmware", None),
    "container": (machines.CONTAINER, "none", "software", None),
    "QEMU": (machines.QEMU, "none", "hypervisor", None),
}


@pytest.mark.parametrize(("machine", "tee", "location", "vmpl"), WHOLE.values(), ids=WHOLE)
def test_whole_machine(tmp_path, machine: Machine, tee: str, location: str, vmpl: int | None):
    found = conclude(machine.evidence(tmp_path))
    assert (found.tee, found.tpm_location, found.vmpl) == (tee, location, vmpl)
    assert found.disagreements == []


def test_order_does_not_matter(tmp_path):
    evidence = machines.AZURE_SNP.evidence(tmp_path)
    assert conclude(reversed(evidence)) == conclude(evidence)


THINNED = {
    # one kind of source left: each is enough by itself where nothing contradicts it
    "only CPUID of a TDX guest": (
        Machine(tpm=None, leaves=machines.GCE_TDX.leaves),
        "tdx",
    ),
    "only the isolation leaf": (Machine(tpm=None, leaves=machines.AZURE_SNP.leaves), "sev-snp"),
    "only the register": (Machine(tpm=None, leaves=None, msr=0b111), "sev-snp"),
    "only the register, SEV-ES": (Machine(tpm=None, leaves=None, msr=0b11), "sev"),
    "only systemd": (Machine(tpm=None, leaves=None, commands={CVM: "sev-es\n"}), "sev"),
    "only the kernel log": (
        Machine(tpm=None, leaves=None, commands={DMESG: "[ 1.0] SEV: SNP running at VMPL1.\n"}),
        "sev-snp",
    ),
    "only sysfs": (
        Machine(tpm=None, leaves=None, files={"/sys/hypervisor/sev/vmpl": "0"}),
        "sev-snp",
    ),
    "only a report's provider": (
        Machine(
            tpm=None,
            leaves=None,
            files={"/sys/kernel/config/tsm/report/x/provider": "sev_guest\n"},
        ),
        "sev-snp",
    ),
    "only a device node": (Machine(tpm=None, leaves=None, files={"/dev/tdx_guest": ""}), "tdx"),
    # absence and half a story prove nothing
    "nothing at all": (Machine(tpm=None, leaves=None), "unknown"),
    "systemd's none alone": (Machine(tpm=None, leaves=None, commands={CVM: "none\n"}), "unknown"),
    "systemd's none and the register unreadable": (
        Machine(
            tpm=None,
            leaves=machines.GCE_SNP.leaves,
            commands={CVM: "none\n", DMESG: BOOT},
        ),
        "unknown",
    ),
    "SEV offered, register says off": (
        Machine(tpm=None, leaves=machines.GCE_SNP.leaves, commands={CVM: "none\n"}, msr=0),
        "none",
    ),
    "a report directory without an entry": (
        Machine(tpm=None, leaves=None, files={"/sys/kernel/config/tsm/report/.keep": ""}),
        "unknown",
    ),
    "SEV in the log and no CPUID: a paravisor may hide SNP": (
        Machine(
            tpm=None,
            leaves=None,
            commands={DMESG: BOOT + "[ 0.5] Memory Encryption Features active: AMD SEV\n"},
        ),
        "unknown",
    ),
    "a quotation in the log": (
        Machine(
            tpm=None,
            leaves=None,
            commands={DMESG: "[ 1.0] Kernel command line: x=SNP running at VMPL1.\n"},
        ),
        "unknown",
    ),
    "VBS is no TEE": (
        Machine(
            tpm=None,
            leaves=machines.leaves("GenuineIntel", hypervisor="Microsoft Hv", isolation=(1, 1)),
        ),
        "none",
    ),
}


@pytest.mark.parametrize(("machine", "tee"), THINNED.values(), ids=THINNED)
def test_thinned_evidence(tmp_path, machine: Machine, tee: str):
    found = conclude(machine.evidence(tmp_path))
    assert found.tee == tee
    assert found.disagreements == []


def test_two_families_against_one(tmp_path):
    """An old systemd that knows no Hyper-V TDX; the kernel and CPUID know better."""
    machine = machines.AZURE_SNP.but(commands={CVM: "none\n"})
    found = conclude(machine.evidence(tmp_path))
    assert found.tee == "sev-snp"
    assert len(found.disagreements) == 1
    assert "none: systemd-detect-virt --cvm" in found.disagreements[0]
    assert "CPUID 0x4000000C" in found.disagreements[0]


def test_one_family_against_one_is_unknown(tmp_path):
    """CPUID shows a plain guest, the kernel log an SNP one: no side is believed."""
    machine = machines.QEMU.but(commands={DMESG: machines.GCE_SNP.commands[DMESG]})
    found = conclude(machine.evidence(tmp_path))
    assert found.tee == "unknown"
    (said,) = found.disagreements
    assert said == (
        "Sources disagree on the TEE (none: CPUID 0x21, systemd-detect-virt --cvm; sev-snp: "
        "kernel log: Memory Encryption Features active, kernel log: SNP running at VMPL)."
    )


def test_levels_that_differ(tmp_path):
    machine = machines.COCONUT.but(files={"/sys/devices/system/cpu/sev/vmpl": "1\n"})
    found = conclude(machine.evidence(tmp_path))
    assert found.vmpl is None
    assert found.tpm_location == "paravisor"  # above 0 is what counts
    assert found.disagreements == [
        "Sources disagree on the VMPL (1: sysfs sev/vmpl; 2: kernel log: SNP running at VMPL)."
    ]


def test_svsm_driver_at_vmpl0(tmp_path):
    machine = machines.GCE_SNP.but(links=machines.driver("tpm-svsm"))
    found = conclude(machine.evidence(tmp_path))
    assert (found.tee, found.tpm_location) == ("sev-snp", "unknown")
    (said,) = found.disagreements
    assert said == (
        "Sources disagree on where the TPM lives (paravisor: kernel driver of the TPM; hypervisor "
        "or paravisor: TPM_PT_MANUFACTURER; discrete or firmware or hypervisor or software: "
        "kernel log: SNP running at VMPL)."
    )


LOCATIONS = {
    "no TPM": (machines.GCE_SNP.but(tpm=None), "unknown"),
    "an emulator on a machine with a chip": (
        machines.BARE_METAL.but(tpm=machines.CONTAINER.tpm),
        "software",
    ),
    "an emulator behind a wrapper": (
        machines.GCE_SNP.but(
            tpm=machines.TpmStrings("IBM", "SW   TPM", "1.2", "pcap:mssim:port=2321")
        ),
        "software",
    ),
    "vtpm_proxy": (
        machines.LAPTOP.but(
            tpm=machines.kernel_tpm("IBM", "SW   TPM"),
            links={
                "/sys/class/tpm/tpm0": "../../devices/virtual/tpm/tpm0",
                "/sys/class/tpm/tpm0/device/driver": None,
            },
        ),
        "software",
    ),
    "libtpms without a driver": (
        Machine(tpm=machines.kernel_tpm("IBM", "SW   TPM"), leaves=None),
        "software",
    ),
    "a chip passed through to a guest": (
        machines.QEMU.but(tpm=machines.kernel_tpm("STM ", "ST33")),
        "discrete",
    ),
    "OP-TEE": (
        Machine(
            tpm=machines.kernel_tpm("MSFT", "fTPM"),
            leaves=None,
            links=machines.driver("ftpm-tee"),
        ),
        "firmware",
    ),
    "Microsoft's code, nobody knows where": (
        Machine(tpm=machines.kernel_tpm("MSFT", "xCG fTPM"), leaves=None),
        "unknown",
    ),
    "an unknown maker": (machines.LAPTOP.but(tpm=machines.kernel_tpm("ZZZ", "")), "unknown"),
    "Google's vTPM above a paravisor": (
        machines.GCE_SNP.but(commands={DMESG: "[ 1.0] SEV: SNP running at VMPL1.\n"}),
        "paravisor",
    ),
    "Azure, CPUID not allowed, kernel log readable": (
        machines.AZURE_SNP.but(leaves=None, commands={CVM: None}),
        "paravisor",
    ),
}


@pytest.mark.parametrize(("machine", "location"), LOCATIONS.values(), ids=LOCATIONS)
def test_location(tmp_path, machine: Machine, location: str):
    assert conclude(machine.evidence(tmp_path)).tpm_location == location


def test_chip_in_an_impossible_place(tmp_path):
    machine = machines.BARE_METAL.but(tpm=machines.kernel_tpm("AMZN", "NitroTPMv1.0"))
    found = conclude(machine.evidence(tmp_path))
    assert found.tpm_location == "unknown"
    assert "hypervisor: TPM_PT_MANUFACTURER" in found.disagreements[0]


def test_what_the_cloud_says_counts():
    source = "cloud metadata service: Azure securityType"
    said = Evidence(source, "ConfidentialVM", "")
    plain = Evidence("CPUID 0x1 ECX bit 31", "0", "")
    assert conclude([said]).tee == "unknown"  # one of two TEEs
    assert conclude([said, Evidence("/dev/tdx_guest", "present", "")]).tee == "tdx"
    assert conclude([said, plain]).disagreements != []


def test_dmi_alone_decides_nothing(tmp_path):
    machine = Machine(tpm=None, leaves=None, files={DMI + "sys_vendor": "Google\n"})
    assert conclude(machine.evidence(tmp_path)).tee == "unknown"


def told(*observations: tuple[str, str]):
    return conclude([Evidence(source, value, "") for source, value in observations])


KVM = ("CPUID 0x40000000", "KVMKVMKVM")
BEHIND_QEMU = (
    ("CPUID 0x1 ECX bit 31", "1"),
    ("kernel driver of the TPM", "tpm_tis"),
    ("TPM_PT_MANUFACTURER", "IBM"),
)
LOG = "kernel log: Memory Encryption Features active"
ISOLATION_LINE = "Hyper-V: Isolation Config: Group A 0x1, Group B "


@pytest.mark.parametrize(
    ("observations", "tee"),
    [
        ([("CPUID 0x4000000C", "TDX, paravisor")], "tdx"),
        ([("systemd-detect-virt --cvm", "sev-snp")], "sev-snp"),
        ([("systemd-detect-virt --cvm", "sev")], "sev"),
        ([("systemd-detect-virt --cvm", "tdx")], "tdx"),
        ([(LOG, "Memory Encryption Features active: Intel TDX")], "tdx"),
        ([(LOG, "Memory Encryption Features active: TDX")], "tdx"),
        ([(LOG, "AMD Memory Encryption Features active: SEV SEV-ES"), KVM], "sev"),
        ([(LOG, "Memory Encryption Features active: AMD SEV"), KVM], "sev"),
        ([(LOG, "Memory Encryption Features active: AMD SME"), KVM], "unknown"),
        ([("kernel log: tdx: Guest detected", "tdx: Guest detected")], "tdx"),
        ([("kernel log: Hyper-V: Isolation Config", ISOLATION_LINE + "0xba2")], "sev-snp"),
        ([("kernel log: Hyper-V: Isolation Config", ISOLATION_LINE + "0xbe3")], "tdx"),
        ([("kernel log: Hyper-V: Isolation Config", ISOLATION_LINE + "0x1")], "unknown"),
        ([("/proc/cpuinfo flags", "hypervisor tdx_guest")], "tdx"),
        ([("/proc/cpuinfo flags", "sev tdx_host_platform")], "unknown"),
        ([("/sys/kernel/config/tsm/report", "tdx_guest")], "tdx"),
        ([("/dev/sev-guest", "present")], "sev-snp"),
    ],
)
def test_what_one_value_tells_of_the_tee(observations, tee):
    found = told(*observations)
    assert (found.tee, found.disagreements) == (tee, [])


def test_sev_in_the_log_does_not_contradict_snp_but_tdx():
    line = (LOG, "Memory Encryption Features active: AMD SEV")
    hyper_v = ("CPUID 0x40000000", "Microsoft Hv")
    assert told(line, hyper_v, ("CPUID 0x4000000C", "SNP, paravisor")).disagreements == []
    assert told(line, hyper_v, ("CPUID 0x4000000C", "TDX, paravisor")).tee == "unknown"


def test_systemd_that_could_read_the_register_counts():
    found = told(("MSR 0xC0010131", "SEV SEV-ES SEV-SNP"), ("systemd-detect-virt --cvm", "none"))
    assert found.tee == "unknown"
    assert len(found.disagreements) == 1


@pytest.mark.parametrize(
    ("observations", "location"),
    [
        ([("TCTI", "swtpm:port=2321"), ("TPM_PT_MANUFACTURER", "ZZZ")], "software"),
        ([("TCTI", "libtss2-tcti-mssim.so.0:port=1")], "software"),
        ([("TCTI", "libtpms:/tmp/state")], "software"),
        ([("TCTI", "device:/dev/tpmrm0")], "unknown"),
        ([*BEHIND_QEMU, KVM], "hypervisor"),
        ([*BEHIND_QEMU, ("CPUID 0x40000000", "TCGTCGTCGTCG")], "software"),
        ([("kernel driver of the TPM", "tpm_ibmvtpm")], "hypervisor"),
        ([("kernel driver of the TPM", "virtual device without a driver")], "software"),
        ([("kernel driver of the TPM", "tpm_tis_spi")], "unknown"),
        (
            [("TPM_PT_MANUFACTURER", "MSFT"), ("CPUID 0x4000000C", "TDX, paravisor")],
            "paravisor",
        ),
        ([("TPM_PT_MANUFACTURER", "MSFT"), ("CPUID 0x1 ECX bit 31", "0")], "unknown"),
        ([("TPM_PT_MANUFACTURER", "GOOG"), ("sysfs sev/vmpl", "1")], "paravisor"),
        ([("sysfs sev/vmpl", "2")], "paravisor"),
        ([("sysfs sev/vmpl", "0")], "unknown"),
    ],
)
def test_what_values_tell_of_the_tpm(observations, location):
    found = told(*observations)
    assert (found.tpm_location, found.disagreements) == (location, [])


def test_level_zero_excludes_a_paravisor():
    svsm = ("kernel driver of the TPM", "tpm-svsm")
    assert told(svsm).tpm_location == "paravisor"
    assert told(svsm, ("sysfs sev/vmpl", "0")).tpm_location == "unknown"


@pytest.mark.parametrize(
    ("code", "location"),
    [
        *((code, "discrete") for code in ("ATML", "IFX", "NSG", "NSM", "NTC", "NTZ", "SNS")),
        *((code, "discrete") for code in ("STM", "WEC")),
        *((code, "firmware") for code in ("AMD", "INTC", "QCOM")),
        *((code, "hypervisor") for code in ("AMZN", "GOOG")),
        ("IBM", "software"),
        ("MSFT", "unknown"),
    ],
)
def test_every_maker(code, location):
    assert told(("TPM_PT_MANUFACTURER", code)).tpm_location == location
    assert code in MAKERS


def test_no_maker_is_left_untested():
    assert len(MAKERS) == 16
