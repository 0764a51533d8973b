"""Evidence that the kernel and systemd give: log, device nodes, sysfs, processor flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpmbench.platform import sources
from tpmbench.platform.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpmbench.platform.host import Host

_FLAGS = ("hypervisor", "sme", "sev", "sev_es", "sev_snp", "tdx_guest", "tdx_host_platform")
# Linux, Documentation/ABI/testing/sysfs-hypervisor: the directory moved in 2025; both are in use.
_VMPL_FILES = ("/sys/hypervisor/sev/vmpl", "/sys/devices/system/cpu/sev/vmpl")

# Matched at the start of a line: a command line or a program's words may quote the rest.
# arch/x86/mm/mem_encrypt.c; kernels before 5.19 put AMD first.
_ENCRYPTION_LINE = r"(AMD )?Memory Encryption Features active:"
# arch/x86/coco/sev/core.c, report_snp_info().
_VMPL_LINE = r"(\S+: )?SNP running at VMPL\d+"
# arch/x86/coco/tdx/tdx.c, tdx_early_init().
_TDX_LINE = r"tdx: Guest detected"
# arch/x86/kernel/cpu/mshyperv.c, ms_hyperv_init_platform().
_ISOLATION_LINE = r"Hyper-V: Isolation Config: Group A 0x[0-9a-f]+, Group B 0x[0-9a-f]+"

_NO_LINE = "no such line; that proves nothing"
_NO_NODE = "absent; that proves nothing: the driver may be missing or the platform may hide it"


def _command(*argv: str) -> Callable[[Host], str | None]:
    def read(host: Host) -> str | None:
        output = host.run(argv)
        return output.strip() or None if output else None

    return read


def _node(path: str) -> Callable[[Host], str | None]:
    return lambda host: "present" if host.exists(path) else None


def _log_line(pattern: str) -> Callable[[Host], str | None]:
    expression = re.compile(pattern)

    def read(host: Host) -> str | None:
        return next((line for line in host.kernel_log or () if expression.match(line)), None)

    return read


def _log(host: Host) -> str | None:
    if host.kernel_log is None:
        return None
    return "whole" if host.kernel_log_is_whole else "without its beginning"


def _flags(host: Host) -> str | None:
    found = re.search(r"^flags\s*:(.*)$", host.text("/proc/cpuinfo") or "", re.MULTILINE)
    if found is None:
        return None
    present = found[1].split()
    return " ".join(flag for flag in _FLAGS if flag in present) or "none"


def _tsm_report(host: Host) -> str | None:
    entries = host.names(sources.TSM_REPORT)
    if entries is None:
        return None
    # A provider shows only inside an entry. Making one would change the host, so none is made.
    named = {host.text(f"{sources.TSM_REPORT}/{entry}/provider") for entry in entries}
    return " ".join(sorted(filter(None, named))) or "present, no entry"


def _vmpl(host: Host) -> str | None:
    return next((text for path in _VMPL_FILES if (text := host.text(path))), None)


READERS = (
    Reader(
        sources.DETECT_CVM,
        _command("systemd-detect-virt", "--cvm"),
        (
            ("^sev-snp$", "the guest runs in SEV-SNP"),
            ("^sev(-es)?$", "the guest runs in SEV"),
            ("^tdx$", "the guest runs in TDX"),
            # systemd, src/basic/confidential-virt.c: an unreadable register counts as zero.
            ("^none$", "no confidential guest seen; also said where SEV_STATUS is unreadable"),
        ),
        "not installed, or older than systemd 254, which has no --cvm",
    ),
    Reader(
        sources.DETECT_VM,
        _command("systemd-detect-virt", "--vm"),
        (("^none$", "no hypervisor seen"), ("", "the hypervisor that systemd recognises")),
        "not installed, or it could not tell",
    ),
    Reader(
        sources.CPU_FLAGS,
        _flags,
        (
            ("tdx_guest", "the kernel knows that it is a TDX guest"),
            ("sev", "what the processor offers, to host or guest; not what is in use"),
            ("", "no flag of a TEE; flags may be hidden"),
        ),
        "no flags line here",
    ),
    Reader(
        sources.TSM_REPORT,
        _tsm_report,
        (
            ("sev_guest", "attestation reports come from SEV-SNP"),
            ("tdx_guest", "attestation reports come from TDX"),
            ("", "the kernel can make attestation reports; by whom shows only in an entry"),
        ),
        _NO_NODE,
    ),
    Reader(sources.SEV_GUEST, _node(sources.SEV_GUEST), (("", "an SEV-SNP guest"),), _NO_NODE),
    Reader(sources.TDX_GUEST, _node(sources.TDX_GUEST), (("", "a TDX guest"),), _NO_NODE),
    Reader(
        sources.SEV_VMPL,
        _vmpl,
        (
            ("^0$", "an SEV-SNP guest whose kernel holds the most privileged level"),
            (r"^\d+$", "an SEV-SNP guest above a paravisor or SVSM"),
        ),
        _NO_NODE,
    ),
    Reader(
        sources.KERNEL_LOG,
        _log,
        (
            ("whole", "the lines below are there if this boot's kernel wrote them"),
            ("", "the lines below may have been there and are lost"),
        ),
        "not ours to read: the lines below may be there",
    ),
    Reader(
        sources.LOG_ENCRYPTION,
        _log_line(_ENCRYPTION_LINE),
        (
            ("SEV-SNP", "the kernel runs in SEV-SNP"),
            ("TDX", "the kernel runs in TDX"),
            ("SEV", "the kernel runs in SEV, or in SEV-SNP below a paravisor that hides it"),
            ("", "memory encryption of a host, which is no TEE"),
        ),
        _NO_LINE,
    ),
    Reader(
        sources.LOG_VMPL,
        _log_line(_VMPL_LINE),
        (
            (r"VMPL0\b", "an SEV-SNP guest whose kernel holds the most privileged level"),
            ("", "an SEV-SNP guest above a paravisor or SVSM"),
        ),
        _NO_LINE,
    ),
    Reader(sources.LOG_TDX, _log_line(_TDX_LINE), (("", "the kernel runs in TDX"),), _NO_LINE),
    Reader(
        sources.LOG_ISOLATION,
        _log_line(_ISOLATION_LINE),
        (
            ("Group B 0x[0-9a-f]*[23]$", "a Hyper-V confidential guest"),
            ("", "a Hyper-V guest with isolation of another kind"),
        ),
        _NO_LINE,
    ),
)
