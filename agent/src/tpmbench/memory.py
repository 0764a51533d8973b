"""How much memory the agent and its helper processes took at the most."""

from __future__ import annotations

from pathlib import Path


class PeakMemory:
    """Remembers the largest helper process, of which one runs at a time.

    getrusage(2) cannot tell: what it says of a child includes the time between fork and
    exec, when the child was still a copy of the agent.
    """

    def __init__(self) -> None:
        self._largest_helper = 0

    def observe(self, process: int) -> None:
        """Look at a helper process, by its id, while it still runs."""
        self._largest_helper = max(self._largest_helper, peak_bytes(str(process)))

    def total_bytes(self) -> int:
        """Return the peaks of this process and of the largest helper, added up, in bytes."""
        return peak_bytes("self") + self._largest_helper


def peak_bytes(process: str) -> int:
    """Return a process's largest resident size so far (VmHWM, proc(5)) in bytes, 0 if it is gone.

    Args:
        process: its name under ``/proc``.
    """
    try:
        status = Path("/proc", process, "status").read_text()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(fields.get("VmHWM", "0 kB").split()[0]) * 1024
