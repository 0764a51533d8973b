"""Evidence that the processor gives: CPUID leaves and the SEV_STATUS register."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from tpmbench.platform import sources
from tpmbench.platform.reader import Reader

if TYPE_CHECKING:
    from tpmbench.platform.host import Host

_HYPER_V = "Microsoft Hv"

# AMD64 Architecture Programmer's Manual, volume 3, E.4.17: CPUID Fn8000_001F EAX.
_ENCRYPTION_BITS = {0: "SME", 1: "SEV", 3: "SEV-ES", 4: "SEV-SNP", 5: "VMPL"}
# The same, volume 2, 15.34.10: SEV_STATUS. A guest's own state, not what the processor could do.
_SEV_STATUS = 0xC0010131
_SEV_STATUS_BITS = {0: "SEV", 1: "SEV-ES", 2: "SEV-SNP", 3: "vTOM"}
# Linux, include/hyperv/hvgdk_mini.h and hvhdk.h: HYPERV_CPUID_FEATURES EBX bit 22 HV_ISOLATION;
# HYPERV_CPUID_ISOLATION_CONFIG EAX bit 0 HV_PARAVISOR_PRESENT, EBX bits 0-3 HV_ISOLATION_TYPE.
_HV_FEATURES, _HV_ISOLATION_BIT = 0x40000003, 1 << 22
_HV_ISOLATION_CONFIG, _HV_PARAVISOR_BIT, _HV_TYPE_MASK = 0x4000000C, 1 << 0, 0xF
_HV_TYPES = {0: "none", 1: "VBS", 2: "SNP", 3: "TDX"}


def _bits(value: int, names: dict[int, str]) -> str:
    return " ".join(name for bit, name in names.items() if value >> bit & 1) or "none"


def _signature(*registers: int) -> str:
    return struct.pack("<3I", *registers).decode("latin-1").rstrip("\0 ")


def _has_leaf(host: Host, leaf: int) -> bool | None:
    """Tells whether the leaf is there: Intel answers beyond the highest with another's contents."""
    highest = host.cpuid(leaf & 0xF0000000)
    return None if highest is None else highest.eax >= leaf


def _guest(host: Host) -> str | None:
    registers = host.cpuid(1)
    return None if registers is None else str(registers.ecx >> 31)


def _tdx(host: Host) -> str | None:
    has = _has_leaf(host, 0x21)
    if not has:
        return None if has is None else "none"
    registers = host.cpuid(0x21)
    # Linux, arch/x86/include/asm/shared/tdx.h: TDX_IDENT, twelve bytes in EBX, EDX, ECX.
    name = registers and _signature(registers.ebx, registers.edx, registers.ecx)
    return "IntelTDX" if name == "IntelTDX" else "none"


def _hypervisor(host: Host) -> str | None:
    guest = _guest(host)
    if guest != "1":
        return None if guest is None else "none"
    registers = host.cpuid(0x40000000)
    return None if registers is None else _signature(*registers[1:])


def _isolation(host: Host) -> str | None:
    if _hypervisor(host) != _HYPER_V:
        return None
    features = host.cpuid(_HV_FEATURES)
    if features is None or not features.ebx & _HV_ISOLATION_BIT:
        return None if features is None else "none"
    config = host.cpuid(_HV_ISOLATION_CONFIG) if _has_leaf(host, _HV_ISOLATION_CONFIG) else None
    if config is None:
        return None
    kind = config.ebx & _HV_TYPE_MASK
    name = _HV_TYPES.get(kind, f"type {kind}")
    return f"{name}, paravisor" if config.eax & _HV_PARAVISOR_BIT else name


def _encryption(host: Host) -> str | None:
    has = _has_leaf(host, 0x8000001F)
    if has is None:
        return None
    registers = host.cpuid(0x8000001F) if has else None
    return "none" if registers is None else _bits(registers.eax, _ENCRYPTION_BITS)


def _sev_status(host: Host) -> str | None:
    try:
        with host.path("/dev/cpu/0/msr").open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), 8, _SEV_STATUS)
    except OSError:
        return None
    return _bits(struct.unpack("<Q", data)[0], _SEV_STATUS_BITS) if len(data) == 8 else None


_UNREADABLE = "CPUID cannot be read here"

READERS = (
    Reader(
        sources.CPUID_GUEST,
        _guest,
        (("1", "a hypervisor is below the kernel"), ("0", "no hypervisor: not a guest")),
        _UNREADABLE,
    ),
    Reader(
        sources.CPUID_HYPERVISOR,
        _hypervisor,
        (("none", "no hypervisor names itself"), ("", "the hypervisor's own name")),
        _UNREADABLE,
    ),
    Reader(
        sources.CPUID_TDX,
        _tdx,
        (
            ("IntelTDX", "the kernel runs in a TDX trust domain"),
            ("", "no TDX signature; a paravisor may hide it"),
        ),
        _UNREADABLE,
    ),
    Reader(
        sources.CPUID_ISOLATION,
        _isolation,
        (
            ("^(SNP|TDX), paravisor", "a Hyper-V confidential guest with a paravisor below it"),
            ("^(SNP|TDX)", "a Hyper-V confidential guest without a paravisor"),
            ("^VBS", "isolated by the hypervisor; memory is not encrypted against it"),
            ("^none", "a Hyper-V guest that is not isolated"),
        ),
        "the hypervisor is not Hyper-V, or CPUID cannot be read",
    ),
    Reader(
        sources.CPUID_ENCRYPTION,
        _encryption,
        (
            ("SEV", "what the processor offers, to host or guest; not what is in use"),
            ("", "no SEV is visible; Azure hides this leaf from its guests"),
        ),
        _UNREADABLE,
    ),
    Reader(
        sources.MSR_SEV_STATUS,
        _sev_status,
        (
            ("SEV-SNP", "the guest runs in SEV-SNP"),
            ("SEV", "the guest runs in SEV"),
            ("", "SEV is off; a paravisor may hide it"),
        ),
        "the register or its device is absent or not ours to read; that proves nothing",
    ),
)
