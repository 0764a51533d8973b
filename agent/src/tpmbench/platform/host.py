"""The ways in which evidence is read: files below a root, commands, CPUID, the kernel log."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tpmbench.platform import cpuid as _cpuid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpmbench.platform.cpuid import Registers

COMMAND_TIMEOUT_S = 5.0

# dmesg(1) and the kernel's own priority prefix.
_STAMP = re.compile(r"^(<\d+>)?\[[^\]]*\]\s*")


class Run(Protocol):
    """Runs a command and returns its standard output; None where it could not say anything."""

    def __call__(self, argv: Sequence[str], /) -> str | None:
        """Runs ``argv``."""


def run_command(argv: Sequence[str], /, timeout_s: float = COMMAND_TIMEOUT_S) -> str | None:
    """Runs a command without a shell and with a deadline.

    The exit status is not looked at by itself: ``systemd-detect-virt`` prints ``none`` and fails.

    Args:
        argv: The command and its arguments.
        timeout_s: Longest wait, in seconds.

    Returns:
        Its standard output; None where it is missing, too slow, or failed without a word.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = done.stdout.decode(errors="replace")
    return output if output.strip() or done.returncode == 0 else None


@dataclass(frozen=True)
class Host:
    """A machine to read evidence on.

    Attributes:
        root: Directory that stands for ``/``.
        run: How commands are run.
        cpuid: How CPUID is executed.
    """

    root: Path = Path("/")
    run: Run = run_command
    cpuid: Callable[[int], Registers | None] = _cpuid.read

    def path(self, name: str) -> Path:
        """Returns where the absolute path ``name`` is on this host."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Returns a small text file without surrounding blanks and NULs; None if unreadable."""
        try:
            return self.path(name).read_text(errors="replace").strip("\0 \t\r\n")
        except OSError:
            return None

    def exists(self, name: str) -> bool:
        """Tells whether a path is there."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def names(self, name: str) -> list[str] | None:
        """Returns the sorted entries of a directory; None if it is absent or unreadable."""
        try:
            return sorted(entry.name for entry in self.path(name).iterdir())
        except OSError:
            return None

    @cached_property
    def kernel_log(self) -> list[str] | None:
        """The kernel's messages of this boot, without time stamps; None if unreadable.

        The ring buffer that dmesg shows may have lost its beginning, where the lines that matter
        are; the journal keeps them.
        """
        found: list[str] | None = None
        for argv in (("dmesg",), ("journalctl", "-k", "-b", "--no-pager", "-q", "-o", "cat")):
            output = self.run(argv)
            lines = [_STAMP.sub("", line).strip() for line in (output or "").splitlines()]
            if any(line.startswith("Linux version ") for line in lines):
                return lines
            found = found or lines or None
        return found

    @cached_property
    def kernel_log_is_whole(self) -> bool:
        """Whether the kernel log reaches back to the start of this boot."""
        return any(line.startswith("Linux version ") for line in self.kernel_log or ())
