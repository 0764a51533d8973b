"""What the machine is and what makes its timings doubtful, read from the machine itself.

Evidence is collected from every source, kept with its value, and only then are conclusions drawn::

    evidence = collect(tpm_strings)
    platform = conclude(evidence)
    probe = SystemProbe()
    ...  # the run
    system, facts = probe.finish(peak_memory_bytes)
    warnings = host_warnings(system, platform, facts)

Nothing on the host is changed.
"""

from tpmbench.platform.conclude import conclude
from tpmbench.platform.doubts import Warning, host_warnings  # noqa: A004
from tpmbench.platform.evidence import collect
from tpmbench.platform.model import Evidence, Platform, TpmStrings, as_document
from tpmbench.platform.system import Facts, System, SystemProbe, clock_resolution_ns

__all__ = [
    "Evidence",
    "Facts",
    "Platform",
    "System",
    "SystemProbe",
    "TpmStrings",
    "Warning",
    "as_document",
    "clock_resolution_ns",
    "collect",
    "conclude",
    "host_warnings",
]
