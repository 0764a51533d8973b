"""Every CPython from 3.11 on that is found on this machine.

One that is not found by itself, such as that of a virtual environment, can be named in
TPMTLS_PYTHONS (several with a colon between them). It needs tpm2-pytss and cryptography.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEEDS = "import sys, cryptography, tpm2_pytss; sys.exit(sys.version_info < (3, 11))"
"""Fails where the library cannot run."""


def candidates() -> list[str]:
    """Return their paths, this one first."""
    named = [Path(item) for item in os.environ.get("TPMTLS_PYTHONS", "").split(":") if item]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*versions.glob("3.1[1-9].*/bin/python3"), Path("/usr/bin/python3")]
    return [sys.executable, *map(str, named), *sorted(map(str, found))]


def lacks(python: str, needs: str = NEEDS) -> str | None:
    """Say why a Python cannot run a program; None where it can."""
    looked = subprocess.run([python, "-c", needs], capture_output=True, text=True, check=False)
    return (looked.stderr.splitlines() or ["it is too old"])[-1] if looked.returncode else None


def skip_unless(python: str, needs: str = NEEDS) -> None:
    """Skip the test, with the reason, where a Python cannot run a program."""
    if reason := lacks(python, needs):
        pytest.skip(f"{python}: {reason}")
