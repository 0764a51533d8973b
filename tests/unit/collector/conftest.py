from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collector.cli import main
from tests.fixtures import documents as made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def collector() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``python -m collector`` as a user does, from the root of the tree."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "collector", *map(str, arguments)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture
def inside(
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs the same command line in this process, which takes a hundredth of the time."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        given = [str(argument) for argument in arguments]
        try:
            status: object = main(given)
        except SystemExit as ended:
            status = ended.code
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(given, int(str(status)), out, err)

    yield run
    gc.enable()


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with the results of two hosts, one of which has a software TPM."""
    made.write(tmp_path / "results", made.document("vm-1"))
    made.write(tmp_path / "results", made.local("local-1"))
    return tmp_path / "results"
