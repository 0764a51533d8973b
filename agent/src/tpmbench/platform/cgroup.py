"""The processor quota of the control group that this process runs in, cgroup v1 or v2."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpmbench.platform.host import Host

# proc_pid_mountinfo(5): the mount's root, its mount point, and after " - " type, source, options.
_MOUNT = re.compile(
    r"^\S+ \S+ \S+ (\S+) (\S+) .*? - (cgroup2?) \S+ (\S+)$",
    re.MULTILINE,
)


class CpuGroup:
    """The control groups that bound this process's processor time: its own and those above it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._folders = list(_folders(host))

    def quota_cores(self) -> float | None:
        """Returns the tightest quota, in cores; None where there is none or it is unreadable."""
        quotas = [quota for folder in self._folders if (quota := self._quota(folder)) is not None]
        return min(quotas, default=None)

    def periods(self) -> tuple[int, int] | None:
        """Returns how many quota periods went by, and in how many the quota was used up.

        Both are counted since the group was made, in the group that was throttled most. None
        where no group counts them.
        """
        counts = []
        for folder in self._folders:
            stat = dict(
                line.split()[:2]
                for line in (self._host.text(f"{folder}/cpu.stat") or "").splitlines()
                if len(line.split()) == 2
            )
            if {"nr_periods", "nr_throttled"} <= stat.keys():
                counts.append((int(stat["nr_periods"]), int(stat["nr_throttled"])))
        return max(counts, key=lambda count: count[1], default=None)

    def _quota(self, folder: str) -> float | None:
        # v2: "max 100000" or "50000 100000"; v1: two files, -1 for none. Both in microseconds.
        together = self._host.text(f"{folder}/cpu.max")
        parts = (
            together.split()
            if together
            else [
                self._host.text(f"{folder}/cpu.cfs_quota_us") or "",
                self._host.text(f"{folder}/cpu.cfs_period_us") or "",
            ]
        )
        if len(parts) != 2 or not all(part.isdecimal() for part in parts) or int(parts[1]) == 0:
            return None
        return int(parts[0]) / int(parts[1])


def _folders(host: Host) -> Iterator[str]:
    """Yields the folders of this process's group for the processor controller, and those above."""
    groups = {}
    for line in (host.text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    mounts = _MOUNT.findall(host.text("/proc/self/mountinfo") or "")
    for root, point, kind, options in mounts:
        controller = "" if kind == "cgroup2" else "cpu"
        if controller not in groups or (controller and "cpu" not in options.split(",")):
            continue
        group = PurePosixPath(groups[controller])
        # Outside of the mount's root: a container that sees its own group as the root.
        below = group.relative_to(root) if group.is_relative_to(root) else PurePosixPath()
        if ".." in below.parts:
            below = PurePosixPath()
        for part in (below, *below.parents) if below.parts else (below,):
            yield str(PurePosixPath(point) / part)
