"""Runs ansible-playbook as a user would, in the project and with its configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TREE = Path(__file__).resolve().parents[2]


def play(
    *arguments: str | Path,
    environment: Mapping[str, str] = os.environ,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with nobody at the keyboard.

    Args:
        arguments: of the command line.
        environment: besides where the configuration is.
        timeout: seconds.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    return subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), *arguments],
        cwd=TREE,
        env={**environment, "ANSIBLE_CONFIG": str(TREE / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
