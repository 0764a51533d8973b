"""The machine that the timings were taken on: the ``system`` object of the result document."""

from __future__ import annotations

import gzip
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpmbench.platform.cgroup import CpuGroup
from tpmbench.platform.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

_CPU0 = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
_CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


@dataclass(frozen=True)
class System:
    """The fields of the result document's ``system``, which describes and names them."""

    kernel: str
    machine: str
    operating_system: str | None
    cpu_model: str | None
    cpus_usable: int
    boot_id: str | None
    cpu_governor: str | None
    cpu_quota_cores: float | None
    load_1m_before: float | None
    load_1m_after: float | None
    steal_ratio: float | None
    peak_memory_bytes: int

    def as_document(self) -> dict[str, Any]:
        """Returns the ``system`` object of the result document."""
        return asdict(self)


@dataclass(frozen=True)
class Facts:
    """What else makes timings doubtful, and has no place of its own in the result document.

    Attributes:
        quota_periods: Periods of the processor quota that went by during the run; None where
            there is no quota or it cannot be read.
        throttled_periods: Those of them in which the control group used its quota up.
        kernel_tpm_hmac: Whether the kernel was built to protect its own TPM commands with HMAC
            sessions (CONFIG_TCG_TPM2_HMAC, since 6.10); None where its configuration is unreadable.
        clock_resolution_ns: Resolution of the clock that samples are taken with, in nanoseconds.
        clocksource: The kernel's clock source; None where it cannot be read.
    """

    quota_periods: int | None
    throttled_periods: int | None
    kernel_tpm_hmac: bool | None
    clock_resolution_ns: int
    clocksource: str | None


def clock_resolution_ns() -> int:
    """Returns the resolution of ``time.perf_counter``, as the system states it, at least 1 ns."""
    return max(1, round(time.get_clock_info("perf_counter").resolution * 1e9))


class SystemProbe:
    """Reads the system before a run, when it is made, and after it.

    Args:
        root: Directory that stands for ``/``.
        uname: Gives the kernel's names.
        affinity: Gives the processors that this process may run on.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        uname: Callable[[], os.uname_result] = os.uname,
        affinity: Callable[[int], set[int]] = os.sched_getaffinity,
    ) -> None:
        self._host = Host(root=root)
        self._uname = uname()
        self._cpus = len(affinity(0))
        self._group = CpuGroup(self._host)
        self._load = self._read_load()
        self._times = self._read_times()
        self._periods = self._group.periods()

    def finish(self, peak_memory_bytes: int) -> tuple[System, Facts]:
        """Reads the system again and compares.

        Args:
            peak_memory_bytes: Largest resident size of the agent and its TLS server, in bytes.

        Returns:
            What the result document records, and what only warnings are made from.
        """
        host = self._host
        quota, throttled = _difference(self._periods, self._group.periods())
        system = System(
            kernel=self._uname.release,
            machine=self._uname.machine,
            operating_system=_field(host.text("/etc/os-release"), r'^PRETTY_NAME="?([^"\n]*)'),
            cpu_model=_field(host.text("/proc/cpuinfo"), r"^model name\s*:\s*(.*)$"),
            cpus_usable=self._cpus,
            boot_id=host.text("/proc/sys/kernel/random/boot_id") or None,
            cpu_governor=host.text(_CPU0) or None,
            cpu_quota_cores=self._group.quota_cores(),
            load_1m_before=self._load,
            load_1m_after=self._read_load(),
            steal_ratio=_steal(self._times, self._read_times()),
            peak_memory_bytes=peak_memory_bytes,
        )
        facts = Facts(
            quota_periods=quota,
            throttled_periods=throttled,
            kernel_tpm_hmac=_kernel_tpm_hmac(host, self._uname.release),
            clock_resolution_ns=clock_resolution_ns(),
            clocksource=host.text(_CLOCKSOURCE) or None,
        )
        return system, facts

    def _read_load(self) -> float | None:
        first = _field(self._host.text("/proc/loadavg"), r"^(\d+(?:\.\d+)?)\s")
        return float(first) if first else None

    def _read_times(self) -> tuple[int, int] | None:
        """Returns all processor time and the stolen part of it, in ticks since boot."""
        line = _field(self._host.text("/proc/stat"), r"^cpu\s+([\d ]+)$")
        # proc(5): user nice system idle iowait irq softirq steal; guest time is part of user.
        times = [int(number) for number in line.split()[:8]] if line else []
        return (sum(times), times[7]) if len(times) == 8 else None


def _field(text: str | None, pattern: str) -> str | None:
    found = re.search(pattern, text or "", re.MULTILINE)
    return found[1].strip() or None if found else None


def _difference(
    before: tuple[int, int] | None, after: tuple[int, int] | None
) -> tuple[int | None, int | None]:
    if before is None or after is None:
        return None, None
    return after[0] - before[0], after[1] - before[1]


def _steal(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    if before is None or after is None or after[0] <= before[0]:
        return None
    # The counter may step back by a tick or two when a guest is migrated.
    return min(1.0, max(0, after[1] - before[1]) / (after[0] - before[0]))


def _kernel_tpm_hmac(host: Host, release: str) -> bool | None:
    text = host.text(f"/boot/config-{release}") or host.text(f"/lib/modules/{release}/config")
    if text is None:
        try:
            with gzip.open(host.path("/proc/config.gz"), "rt", errors="replace") as file:
                text = file.read()
        except (OSError, EOFError):
            return None
    return re.search(r"^CONFIG_TCG_TPM2_HMAC=y$", text, re.MULTILINE) is not None
