"""CPUID from the device and from the instruction itself."""

from __future__ import annotations

import mmap
import os
import re
import struct
from pathlib import Path

import pytest

from tpmbench.platform import cpuid

X86_64 = os.uname().machine == "x86_64"
NO_DEVICE = Path("/nonexistent/cpuid")


@pytest.fixture(autouse=True)
def _fresh_code():
    cpuid._instruction.cache_clear()
    yield
    cpuid._instruction.cache_clear()


@pytest.mark.skipif(not X86_64, reason="needs an x86-64 processor")
def test_instruction_names_the_processor():
    registers = cpuid.read(0, device=NO_DEVICE)
    assert registers is not None
    name = struct.pack("<3I", registers.ebx, registers.edx, registers.ecx).decode()
    vendor = re.search(r"^vendor_id\s*: (\S+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert vendor is not None
    assert name == vendor[1]


@pytest.mark.skipif(not X86_64, reason="needs an x86-64 processor")
def test_instruction_many_times():
    """The callee-saved register is restored: a clobbered rbx would end the interpreter."""
    first = cpuid.read(0x80000000, device=NO_DEVICE)
    assert all(cpuid.read(0x80000000, device=NO_DEVICE) == first for _ in range(1000))


def _writable_and_executable():
    return re.findall(r"^\S+ rwx", Path("/proc/self/maps").read_text(), re.MULTILINE)


@pytest.mark.skipif(not X86_64, reason="needs an x86-64 processor")
def test_page_is_not_writable_and_executable_at_once():
    before = _writable_and_executable()  # libffi may have made some for callbacks
    assert cpuid.read(0, device=NO_DEVICE) is not None
    assert _writable_and_executable() == before


@pytest.mark.skipif(not X86_64, reason="needs an x86 processor")
def test_device_is_read_at_leaf_and_subleaf(tmp_path):
    device = tmp_path / "cpuid"
    with device.open("wb") as file:
        os.pwrite(file.fileno(), struct.pack("<4I", 1, 2, 3, 4), 0x21)
        os.pwrite(file.fileno(), struct.pack("<4I", 5, 6, 7, 8), 1 << 32 | 0x21)
    assert cpuid.read(0x21, device=device) == cpuid.Registers(1, 2, 3, 4)
    assert cpuid.read(0x21, 1, device=device) == (5, 6, 7, 8)


@pytest.mark.skipif(not X86_64, reason="needs an x86-64 processor")
def test_refused_memory_is_no_error(monkeypatch):
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert cpuid.read(0, device=NO_DEVICE) is None


@pytest.mark.skipif(not X86_64, reason="needs an x86-64 processor")
def test_refused_execution_is_no_error(monkeypatch):
    """As under SELinux without execmem: mprotect fails and nothing is executed."""
    monkeypatch.setattr(mmap, "PROT_EXEC", 1 << 30)  # the kernel answers EINVAL
    assert cpuid.read(0, device=NO_DEVICE) is None


def test_other_architecture(monkeypatch):
    names = os.uname_result(("Linux", "host", "6.8.0", "#1", "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: names)
    assert cpuid.read(0) is None
