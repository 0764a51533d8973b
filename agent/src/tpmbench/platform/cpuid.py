"""The CPUID instruction from Python, without a compiler.

The kernel's ``cpuid`` device is read where it may be. Elsewhere, on x86-64, 31 bytes of machine
code in an anonymous page execute the instruction; CPUID is not privileged.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = Path("/dev/cpu/0/cpuid")

# void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]); System V AMD64 convention:
# the arguments arrive in edi, esi and rdx, and rbx belongs to the caller.
_CODE = bytes.fromhex(
    "f30f1efa"  # endbr64                  a valid target where indirect branches are tracked
    "53"        # push rbx
    "4989d0"    # mov  r8, rdx             cpuid overwrites rdx
    "89f8"      # mov  eax, edi
    "89f1"      # mov  ecx, esi
    "0fa2"      # cpuid
    "418900"    # mov  [r8], eax
    "41895804"  # mov  [r8+4], ebx
    "41894808"  # mov  [r8+8], ecx
    "4189500c"  # mov  [r8+12], edx
    "5b"        # pop  rbx
    "c3"        # ret
)  # fmt: skip

# asm/prctl.h and the x86-64 system call table.
_SYS_ARCH_PRCTL = 158
_ARCH_GET_CPUID = 0x1011


class Registers(NamedTuple):
    """What CPUID leaves in the four registers, each an unsigned 32-bit number."""

    eax: int
    ebx: int
    ecx: int
    edx: int


def read(leaf: int, subleaf: int = 0, *, device: Path = DEVICE) -> Registers | None:
    """Executes CPUID on a processor of this machine.

    No check is made that the processor has the leaf: beyond its highest basic leaf, Intel's
    processors answer with the contents of another.

    Args:
        leaf: Input EAX.
        subleaf: Input ECX.
        device: The kernel's cpuid device.

    Returns:
        The registers, or None on another architecture and where neither way is open.
    """
    if os.uname().machine not in ("x86_64", "i686", "i586"):
        return None
    return _from_device(leaf, subleaf, device) or _from_instruction(leaf, subleaf)


def _from_device(leaf: int, subleaf: int, device: Path) -> Registers | None:
    try:
        with device.open("rb", buffering=0) as file:
            # cpuid(4): the file position is the leaf, with the subleaf in its upper half.
            data = os.pread(file.fileno(), 16, subleaf << 32 | leaf)
    except OSError:
        return None
    return Registers(*struct.unpack("<4I", data)) if len(data) == 16 else None


def _from_instruction(leaf: int, subleaf: int) -> Registers | None:
    call = _instruction()
    if call is None:
        return None
    registers = (ctypes.c_uint32 * 4)()
    call(leaf, subleaf, registers)
    return Registers(*registers)


@functools.cache
def _instruction() -> Callable[..., None] | None:
    """Returns the machine code as a function; None where it may not or must not be executed."""
    if os.uname().machine != "x86_64" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        # 0: CPUID faults in this process (a tracer asked for it), and executing it would kill us.
        if libc.syscall(_SYS_ARCH_PRCTL, _ARCH_GET_CPUID, 0) == 0:
            return None
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.write(_CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        # Written first, executable after: never both at once.
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            return None
        prototype = ctypes.CFUNCTYPE(
            None, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)
        )
        function = prototype(address)
        function.page = page  # type: ignore[attr-defined]  # the code must outlive its callers
        return function
    return None
