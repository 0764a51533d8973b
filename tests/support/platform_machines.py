"""Machines as the agent finds them: files, command outputs, CPUID leaves, TPM strings.

Where a string's exact form decides, it is the form that public sources show; each says which.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tpmbench.platform import TpmStrings, collect
from tpmbench.platform.cpuid import Registers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tpmbench.platform import Evidence

BOOT = "[    0.000000] Linux version 6.8.0 (build@host) #1 SMP\n"
DMI = "/sys/class/dmi/id/"
CVM = ("systemd-detect-virt", "--cvm")
VM = ("systemd-detect-virt", "--vm")
DMESG = ("dmesg",)
JOURNAL = ("journalctl", "-k", "-b", "--no-pager", "-q", "-o", "cat")


def words(text: str) -> tuple[int, int, int]:
    return struct.unpack("<3I", text.encode().ljust(12, b"\0"))


def leaves(
    vendor: str,
    *,
    hypervisor: str | None,
    encryption: int = 0,
    tdx: bool = False,
    isolation: tuple[int, int] | None = None,
    highest: int = 0x21,
) -> dict[int, Registers]:
    """Leaf 0 and 0x21 spell names in EBX, EDX, ECX; the hypervisor's leaf in EBX, ECX, EDX."""
    first, second, third = words(vendor)
    table = {
        0x0: Registers(highest, first, third, second),
        0x1: Registers(0xA00F11, 0, (hypervisor is not None) << 31, 0),
        0x21: Registers(0, 0, 0, 0),
        0x80000000: Registers(0x80000023, first, third, second),
        0x8000001F: Registers(encryption, 0x173, 0, 0),
    }
    if tdx:
        first, second, third = words("IntelTDX    ")
        table[0x21] = Registers(0, first, third, second)
    if hypervisor is not None:
        first, second, third = words(hypervisor)
        table[0x40000000] = Registers(0x4000000C, first, second, third)
    if hypervisor == "Microsoft Hv":
        table[0x40000003] = Registers(0, (isolation is not None) << 22, 0, 0)
    if isolation is not None:
        table[0x4000000C] = Registers(*isolation, 0, 0)
    return table


@dataclass(frozen=True)
class Machine:
    tpm: TpmStrings | None
    leaves: dict[int, Registers] | None
    commands: dict[tuple[str, ...], str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    msr: int | None = None

    def but(self, **changes: object) -> Machine:
        """The same machine with some things changed; in dictionaries, None takes away."""
        merged = {}
        for name, value in changes.items():
            if name in ("commands", "files", "links"):
                both = {**getattr(self, name), **value}
                merged[name] = {key: item for key, item in both.items() if item is not None}
            else:
                merged[name] = value
        return replace(self, **merged)

    def build(self, root: Path) -> Path:
        for name, text in self.files.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, target in self.links.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        if self.msr is not None:
            path = root / "dev/cpu/0/msr"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:  # sparse: the register's number is the position
                os.pwrite(file.fileno(), struct.pack("<Q", self.msr), 0xC0010131)
        return root

    def run(self, argv: Sequence[str], /) -> str | None:
        return self.commands.get(tuple(argv))

    def cpuid(self) -> Callable[[int], Registers | None]:
        table = self.leaves
        # A real processor answers every leaf; what is not listed reads as zeros.
        return lambda leaf: None if table is None else table.get(leaf, Registers(0, 0, 0, 0))

    def evidence(self, root: Path) -> list[Evidence]:
        return collect(
            self.tpm, root=self.build(root), run=self.run, cpuid=self.cpuid(), metadata="never"
        )


def driver(name: str) -> dict[str, str]:
    return {"/sys/class/tpm/tpm0/device/driver": f"../../../../bus/platform/drivers/{name}"}


def kernel_tpm(manufacturer: str, vendor: str) -> TpmStrings:
    return TpmStrings(manufacturer, vendor, "1.2.3.4", "device:/dev/tpmrm0")


AMD_SNP_BITS = 0b111011  # SME SEV SEV-ES SEV-SNP VMPL

# dmesg of an SNP guest on GCE: as in GoogleCloudPlatform/cloud-image-tests, cvm.
GCE_SNP = Machine(
    tpm=kernel_tpm("GOOG", "vTPM"),
    leaves=leaves("AuthenticAMD", hypervisor="KVMKVMKVM", encryption=AMD_SNP_BITS),
    commands={
        CVM: "sev-snp\n",
        VM: "google\n",
        DMESG: BOOT
        + "[    2.260588] Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP\n"
        + "[    2.277879] SEV: Status: SEV SEV-ES SEV-SNP \n"
        + "[    2.631542] SEV: SNP running at VMPL0.\n",
    },
    files={
        "/dev/sev-guest": "",
        "/proc/cpuinfo": "model name\t: AMD EPYC\nflags\t\t: fpu hypervisor sev sev_es sev_snp\n",
        DMI + "sys_vendor": "Google\n",
        DMI + "product_name": "Google Compute Engine\n",
        DMI + "bios_vendor": "Google\n",
    },
    links=driver("tpm_tis"),
    msr=0b111,
)

GCE_TDX = Machine(
    tpm=kernel_tpm("GOOG", "vTPM"),
    leaves=leaves("GenuineIntel", hypervisor="KVMKVMKVM", tdx=True),
    commands={
        CVM: "tdx\n",
        VM: "google\n",
        DMESG: BOOT
        + "[    0.000000] tdx: Guest detected\n"
        + "[    1.000000] Memory Encryption Features active: Intel TDX\n",
    },
    files={
        "/dev/tdx_guest": "",
        "/proc/cpuinfo": "flags\t\t: fpu hypervisor tdx_guest\n",
        "/sys/kernel/config/tsm/report/ours/provider": "tdx_guest\n",
        DMI + "sys_vendor": "Google\n",
        DMI + "product_name": "Google Compute Engine\n",
    },
    links=driver("tpm_tis"),
)

# Azure: no /dev/sev-guest, no leaf 0x8000001F (systemd issues 28242, 33872); the kernel, below the
# paravisor, names only SEV (arch/x86/coco/core.c, amd_cc_platform_vtom).
AZURE_SNP = Machine(
    tpm=kernel_tpm("MSFT", "xCG fTPM"),
    leaves=leaves("AuthenticAMD", hypervisor="Microsoft Hv", isolation=(0x1, 0xBA2)),
    commands={
        CVM: "sev-snp\n",
        VM: "microsoft\n",
        DMESG: BOOT
        + "[    0.000000] Hyper-V: Isolation Config: Group A 0x1, Group B 0xba2\n"
        + "[    0.500000] Memory Encryption Features active: AMD SEV\n",
    },
    files={
        DMI + "sys_vendor": "Microsoft Corporation\n",
        DMI + "product_name": "Virtual Machine\n",
        DMI + "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n",
    },
    links=driver("tpm_crb"),
)

AZURE_TRUSTED_LAUNCH = Machine(
    tpm=kernel_tpm("MSFT", "xCG fTPM"),
    leaves=leaves("AuthenticAMD", hypervisor="Microsoft Hv"),
    commands={CVM: "none\n", VM: "microsoft\n", DMESG: BOOT},
    files={DMI + "sys_vendor": "Microsoft Corporation\n"},
    links=driver("tpm_crb"),
)

# NitroTPM's strings: smallstep/crypto, pull request 292.
AWS_SNP = Machine(
    tpm=kernel_tpm("AMZN", "NitroTPMv1.0"),
    leaves=leaves("AuthenticAMD", hypervisor="KVMKVMKVM", encryption=AMD_SNP_BITS),
    commands={
        CVM: "none\n",  # SEV_STATUS is not readable: no msr device
        VM: "amazon\n",
        DMESG: BOOT
        + "[    0.287655] Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP\n"
        + "[    0.428933] SEV: SNP running at VMPL0.\n",
    },
    files={
        "/dev/sev-guest": "",
        DMI + "sys_vendor": "Amazon EC2\n",
        DMI + "product_name": "m6a.large\n",
    },
    links=driver("tpm_crb"),
)

# A service module's kernel is at VMPL2 (coconut-svsm 663) and its vTPM has a driver of its own
# (drivers/char/tpm/tpm_svsm.c). What the vTPM calls itself is not known and must not decide.
COCONUT = Machine(
    tpm=kernel_tpm("XYZ", "SVSM"),
    leaves=leaves("AuthenticAMD", hypervisor="KVMKVMKVM", encryption=AMD_SNP_BITS),
    commands={
        CVM: "sev-snp\n",
        VM: "kvm\n",
        DMESG: BOOT
        + "[    2.260588] Memory Encryption Features active: AMD SEV SEV-ES SEV-SNP\n"
        + "[    2.631542] SEV: SNP running at VMPL2.\n",
    },
    files={"/dev/sev-guest": "", "/sys/devices/system/cpu/sev/vmpl": "2\n"},
    links=driver("tpm-svsm"),
    msr=0b111,
)

# An AMD server whose processor offers SEV to guests, which is not to be in a TEE.
BARE_METAL = Machine(
    tpm=kernel_tpm("IFX", "SLB9670"),
    leaves=leaves("AuthenticAMD", hypervisor=None, encryption=AMD_SNP_BITS),
    commands={
        CVM: "none\n",
        VM: "none\n",
        DMESG: BOOT + "[    0.100000] Memory Encryption Features active: AMD SME\n",
    },
    files={
        "/proc/cpuinfo": "flags\t\t: fpu sme sev sev_es sev_snp\n",
        DMI + "sys_vendor": "Supermicro\n",
    },
    links=driver("tpm_tis"),
)

LAPTOP = Machine(
    tpm=kernel_tpm("AMD\0", "AMD"),
    leaves=leaves("AuthenticAMD", hypervisor=None),
    commands={CVM: "none\n", VM: "none\n", DMESG: BOOT},
    files={DMI + "sys_vendor": "LENOVO\n"},
    links=driver("tpm_crb"),
)

# Debian 12 in a container in a KVM guest: systemd 252 without --cvm, no DMI, swtpm on a port.
CONTAINER = Machine(
    tpm=TpmStrings("IBM", "SW   TPM", "8217.4131.22.13878", "swtpm:host=127.0.0.1,port=2321"),
    leaves=leaves("AuthenticAMD", hypervisor="KVMKVMKVM", highest=0x10),
    commands={VM: "kvm\n", DMESG: BOOT},
    files={"/proc/cpuinfo": "flags\t\t: fpu hypervisor\n"},
)

# A plain guest with QEMU's swtpm behind a chip's interface.
QEMU = Machine(
    tpm=kernel_tpm("IBM", "SW   TPM"),
    leaves=leaves("GenuineIntel", hypervisor="KVMKVMKVM"),
    commands={CVM: "none\n", VM: "kvm\n", DMESG: BOOT},
    links=driver("tpm_crb"),
)

# A GCE guest with SEV alone.
GCE_SEV = GCE_SNP.but(
    leaves=leaves("AuthenticAMD", hypervisor="KVMKVMKVM", encryption=0b10),
    commands={
        CVM: "sev\n",
        DMESG: BOOT + "[    0.1] AMD Memory Encryption Features active: SEV\n",
    },
    files={"/dev/sev-guest": None},
    msr=0b1,
)
