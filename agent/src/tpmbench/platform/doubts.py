"""Warnings: what makes the timings doubtful, each with the number, the threshold, the remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpmbench.platform.model import Platform
    from tpmbench.platform.system import Facts, System

LOAD_PER_CPU = 0.5
STEAL_RATIO = 0.01
QUOTA_CORES = 1.0
CPUS = 2  # the TLS client and its server
CLOCK_RESOLUTION_NS = 1_000  # a software signature takes some 20,000
SLOW_GOVERNORS = ("powersave", "ondemand", "conservative")
# Reading these leaves the processor: about a microsecond each time, more in a guest.
SLOW_CLOCKSOURCES = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")


@dataclass(frozen=True)
class Warning:  # noqa: A001  # the result document's own word
    """One warning of the result document.

    Attributes:
        code: Stable name of the kind of warning.
        message: What was seen, with the number and the threshold.
        remedy: What to do about it.
    """

    code: str
    message: str
    remedy: str

    def as_document(self) -> dict[str, str]:
        """Returns the warning as the result document has it."""
        return asdict(self)


def host_warnings(system: System, platform: Platform, facts: Facts) -> list[Warning]:
    """Returns what a reader must know before trusting the timings of this host.

    Args:
        system: The system before and after the run.
        platform: What the machine is.
        facts: What else was read.

    Returns:
        Warnings, none on a quiet machine whose evidence agrees.
    """
    return [*_load(system), *_processors(system, facts), *_clock(facts), *_tpm(platform, facts)]


def _load(system: System) -> Iterator[Warning]:
    limit = LOAD_PER_CPU * system.cpus_usable
    if system.load_1m_before is not None and system.load_1m_before > limit:
        yield Warning(
            "load",
            f"The one-minute load average was {system.load_1m_before:.2f} before the run, above "
            f"{limit:.2f} (half of the {system.cpus_usable} usable processors).",
            "Stop other work on the host, wait a minute and measure again.",
        )
    if system.steal_ratio is not None and system.steal_ratio > STEAL_RATIO:
        yield Warning(
            "steal",
            f"The hypervisor gave {system.steal_ratio:.1%} of the processor time to others during "
            f"the run, above {STEAL_RATIO:.0%}.",
            "Measure at another time, or on a machine type with processors of its own.",
        )


def _processors(system: System, facts: Facts) -> Iterator[Warning]:
    if system.cpus_usable < CPUS:
        yield Warning(
            "few-cpus",
            f"{system.cpus_usable} processor is usable, fewer than {CPUS}: the TLS client and its "
            "server share it, and each handshake contains both.",
            f"Use a machine, a control group or a CPU affinity with at least {CPUS} processors.",
        )
    if system.cpu_governor in SLOW_GOVERNORS:
        yield Warning(
            "governor",
            f"The frequency governor is {system.cpu_governor}, which lowers the clock between "
            "samples.",
            "For the time of the run: cpupower frequency-set -g performance",
        )
    if system.cpu_quota_cores is not None and system.cpu_quota_cores < QUOTA_CORES:
        yield Warning(
            "cpu-quota",
            f"The control group may use {system.cpu_quota_cores:.2f} cores, fewer than "
            f"{QUOTA_CORES:.0f}: samples contain enforced waits.",
            "Raise the group's quota (cpu.max, CPUQuota=) or measure outside of it.",
        )
    if facts.throttled_periods:
        yield Warning(
            "throttled",
            f"The control group was throttled in {facts.throttled_periods} of "
            f"{facts.quota_periods} quota periods during the run, above 0.",
            "Raise the group's quota (cpu.max, CPUQuota=) or measure outside of it.",
        )


def _clock(facts: Facts) -> Iterator[Warning]:
    if facts.clock_resolution_ns > CLOCK_RESOLUTION_NS:
        yield Warning(
            "coarse-clock",
            f"The clock's resolution is {facts.clock_resolution_ns} ns, above "
            f"{CLOCK_RESOLUTION_NS} ns: short samples are rounded to it.",
            "Boot with high-resolution timers (kernel option highres=on).",
        )
    if facts.clocksource in SLOW_CLOCKSOURCES:
        yield Warning(
            "slow-clocksource",
            f"The kernel's clock source is {facts.clocksource}: each reading takes about a "
            "microsecond, two of them in each sample.",
            "Find out with dmesg why the kernel gave up tsc, or choose another machine.",
        )


def _tpm(platform: Platform, facts: Facts) -> Iterator[Warning]:
    if platform.tpm_location == "software":
        yield Warning(
            "software-tpm",
            "The TPM is an emulator: its times say nothing about hardware.",
            "For figures of a real TPM, choose a host with one and --tcti device:/dev/tpmrm0.",
        )
    elif facts.kernel_tpm_hmac:
        yield Warning(
            "kernel-tpm-hmac",
            "The kernel protects its own TPM commands with HMAC sessions (CONFIG_TCG_TPM2_HMAC=y): "
            "its random numbers and PCR extensions keep the TPM busy for longer, and a command of "
            "ours may wait behind one.",
            "Compare only with hosts whose kernel has the same setting, or measure with a kernel "
            "built without it.",
        )
    if platform.tpm_location == "unknown":
        yield Warning(
            "tpm-location-unknown",
            "The evidence does not tell where the TPM lives.",
            "Run tpm-tls-bench doctor as root and read what each source says.",
        )
    if platform.tee == "unknown":
        yield Warning(
            "tee-unknown",
            "The evidence does not tell whether the host runs in a TEE.",
            "Run tpm-tls-bench doctor as root and read what each source says.",
        )
    for disagreement in platform.disagreements:
        yield Warning(
            "evidence-disagrees",
            disagreement,
            "Trust neither conclusion before an attestation report has settled it.",
        )
