"""What each observation allows: the table that conclusions are drawn from.

A rule holds where every one of its conditions does. It then leaves some answers open and rules
the others out. Sources that are not independent of each other are of one family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tpmbench.platform import sources
from tpmbench.platform.model import Tee, TpmLocation
from tpmbench.platform.tpm import MAKERS, SOFTWARE_TCTI, VIRTUAL_DEVICE

Answer = TypeVar("Answer", Tee, TpmLocation)


@dataclass(frozen=True)
class Rule(Generic[Answer]):
    """One line of the table.

    Attributes:
        family: Which sources it belongs with; families are independent of each other.
        when: Source and regular expression that its value must match, each; the first is what
            the rule is named after.
        allows: The answers that it leaves open.
        usual: The answer to take if several are left in the end.
        weak: Not enough by itself, and gives way to others of its family.
        decisive: No rule that is not decisive counts beside it.
    """

    family: str
    when: tuple[tuple[str, str], ...]
    allows: frozenset[Answer]
    usual: Answer | None = None
    weak: bool = False
    decisive: bool = False


def _tee(family: str, *when: tuple[str, str], allows: str, weak: bool = False) -> Rule[Tee]:
    answers: tuple[Tee, ...] = ("sev-snp", "sev", "tdx", "none")
    return Rule(family, when, frozenset(a for a in answers if a in allows.split()), weak=weak)


def _tpm(
    family: str,
    *when: tuple[str, str],
    allows: str,
    usual: TpmLocation | None = None,
    decisive: bool = False,
) -> Rule[TpmLocation]:
    answers: tuple[TpmLocation, ...] = (
        "hypervisor",
        "paravisor",
        "discrete",
        "firmware",
        "software",
    )
    return Rule(
        family,
        when,
        frozenset(a for a in answers if a in allows.split()),
        usual,
        decisive=decisive,
    )


_ON_HYPER_V = (sources.CPUID_HYPERVISOR, "^Microsoft Hv$")
_NOT_ON_HYPER_V = (sources.CPUID_HYPERVISOR, "^(?!Microsoft Hv$)")
_A_GUEST = (sources.CPUID_GUEST, "^1$")
_NO_TDX_LEAF = (sources.CPUID_TDX, "^none$")
_NO_SEV_LEAF = (sources.CPUID_ENCRYPTION, "^(?!.*SEV)")

TEE_RULES: tuple[Rule[Tee], ...] = (
    # The processor, and systemd, which reads the processor.
    _tee("processor", (sources.MSR_SEV_STATUS, "SEV-SNP"), allows="sev-snp"),
    _tee("processor", (sources.MSR_SEV_STATUS, "^SEV(?!.*SNP)"), allows="sev"),
    # Azure's paravisor hides the register's bits, as it hides leaf 0x8000001F (systemd 28242).
    _tee("processor", (sources.MSR_SEV_STATUS, "^none$"), _NOT_ON_HYPER_V, allows="none"),
    _tee("processor", (sources.CPUID_TDX, "^IntelTDX$"), allows="tdx"),
    _tee("processor", (sources.CPUID_ISOLATION, "^SNP"), allows="sev-snp"),
    _tee("processor", (sources.CPUID_ISOLATION, "^TDX"), allows="tdx"),
    _tee("processor", (sources.CPUID_ISOLATION, "^VBS"), allows="none"),
    _tee(
        "processor",
        (sources.CPUID_ISOLATION, "^none$"),
        _NO_TDX_LEAF,
        _NO_SEV_LEAF,
        allows="none",
    ),
    _tee("processor", (sources.CPUID_GUEST, "^0$"), allows="none"),
    # Linux itself looks for a TEE nowhere else: sme_enable() needs the bit in leaf 0x8000001F,
    # tdx_early_init() leaf 0x21; only Hyper-V has a way around them, its isolation leaf.
    _tee(
        "processor",
        (sources.CPUID_TDX, "^none$"),
        _NO_SEV_LEAF,
        _A_GUEST,
        _NOT_ON_HYPER_V,
        allows="none",
    ),
    _tee("processor", (sources.DETECT_CVM, "^sev-snp$"), allows="sev-snp"),
    _tee("processor", (sources.DETECT_CVM, "^sev(-es)?$"), allows="sev"),
    _tee("processor", (sources.DETECT_CVM, "^tdx$"), allows="tdx"),
    # systemd also says none where it sees the SEV bit and may not read SEV_STATUS.
    _tee("processor", (sources.DETECT_CVM, "^none$"), _NO_SEV_LEAF, allows="none", weak=True),
    _tee(
        "processor",
        (sources.DETECT_CVM, "^none$"),
        (sources.MSR_SEV_STATUS, "."),
        allows="none",
        weak=True,
    ),
    # The kernel.
    _tee("kernel", (sources.LOG_ENCRYPTION, "SEV-SNP"), allows="sev-snp"),
    _tee("kernel", (sources.LOG_ENCRYPTION, "TDX"), allows="tdx"),
    # Below a paravisor (vTOM) the line reads SEV, although it is SEV-SNP.
    _tee("kernel", (sources.LOG_ENCRYPTION, r"\bSEV\b(?!.*SNP)"), allows="sev sev-snp"),
    _tee(
        "kernel",
        (sources.LOG_ENCRYPTION, r"\bSEV\b(?!.*SNP)"),
        _NOT_ON_HYPER_V,
        allows="sev",
    ),
    _tee("kernel", (sources.LOG_VMPL, "."), allows="sev-snp"),
    _tee("kernel", (sources.SEV_VMPL, "."), allows="sev-snp"),
    _tee("kernel", (sources.LOG_TDX, "."), allows="tdx"),
    _tee("kernel", (sources.LOG_ISOLATION, "Group B 0x[0-9a-f]*2$"), allows="sev-snp"),
    _tee("kernel", (sources.LOG_ISOLATION, "Group B 0x[0-9a-f]*3$"), allows="tdx"),
    _tee("kernel", (sources.CPU_FLAGS, r"\btdx_guest\b"), allows="tdx"),
    _tee("kernel", (sources.TSM_REPORT, r"\bsev_guest\b"), allows="sev-snp"),
    _tee("kernel", (sources.TSM_REPORT, r"\btdx_guest\b"), allows="tdx"),
    _tee("kernel", (sources.SEV_GUEST, "."), allows="sev-snp"),
    _tee("kernel", (sources.TDX_GUEST, "."), allows="tdx"),
    # The cloud.
    _tee("cloud", (f"{sources.METADATA}: Azure securityType", "^ConfidentialVM$"),
         allows="sev-snp tdx"),
)  # fmt: skip

_GUEST_DRIVER = (sources.TPM_DRIVER, "^(tpm_tis|tpm_crb)")
_LIBTPMS = (sources.TPM_MANUFACTURER, "^IBM$")
_MICROSOFT = (sources.TPM_MANUFACTURER, "^MSFT$")
_ALL_BUT_PARAVISOR = "hypervisor discrete firmware software"

TPM_RULES: tuple[Rule[TpmLocation], ...] = (
    # An emulator's socket leads past everything else on the machine.
    _tpm("transport", (sources.TCTI, SOFTWARE_TCTI), allows="software", decisive=True),
    # QEMU's name where it emulates the processor too: then the chip's interface is as unreal.
    _tpm("transport", (sources.CPUID_HYPERVISOR, "^TCG"), _LIBTPMS, allows="software",
         decisive=True),
    _tpm("transport", (sources.TPM_DRIVER, "^tpm-svsm$"), allows="paravisor"),
    _tpm("transport", (sources.TPM_DRIVER, "ftpm"), allows="firmware"),
    _tpm("transport", (sources.TPM_DRIVER, "^tpm_ibmvtpm$"), allows="hypervisor"),
    _tpm("transport", (sources.TPM_DRIVER, f"^{VIRTUAL_DEVICE}$"), allows="software"),
    *(
        Rule("maker", ((sources.TPM_MANUFACTURER, f"^{code}$"),), maker.places, maker.usual)
        for code, maker in MAKERS.items()
    ),
    # libtpms behind a chip's interface in a guest: QEMU's swtpm, on the other side.
    _tpm("maker", _LIBTPMS, _A_GUEST, _GUEST_DRIVER,
         allows="hypervisor paravisor", usual="hypervisor"),
    _tpm("maker", _MICROSOFT, _ON_HYPER_V, allows="hypervisor paravisor"),
    _tpm("below", (sources.CPUID_ISOLATION, "paravisor$"), _MICROSOFT, allows="paravisor"),
    _tpm("below", (sources.CPUID_ISOLATION, "^(?!.*paravisor)"), allows=_ALL_BUT_PARAVISOR),
    _tpm("below", (sources.LOG_ISOLATION, "Group A 0x[0-9a-f]*[13579bdf],"), _MICROSOFT,
         allows="paravisor"),
    # VMPL0: the kernel holds the highest level, so nothing in the guest is below it.
    _tpm("below", (sources.SEV_VMPL, "^0$"), allows=_ALL_BUT_PARAVISOR),
    _tpm("below", (sources.SEV_VMPL, "^[1-9]"), allows="paravisor"),
    _tpm("below", (sources.LOG_VMPL, r"VMPL0\b"), allows=_ALL_BUT_PARAVISOR),
    _tpm("below", (sources.LOG_VMPL, "VMPL[1-9]"), allows="paravisor"),
    _tpm("below", (sources.CPUID_GUEST, "^0$"), allows="discrete firmware software"),
)  # fmt: skip

VMPL_SOURCES = (
    (sources.SEV_VMPL, r"^(\d+)$"),
    (sources.LOG_VMPL, r"VMPL(\d+)"),
)
