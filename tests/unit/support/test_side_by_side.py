"""Tests that share something are given to one process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.side_by_side import group

TREE = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("nodeid", "where"),
    [
        ("tests/vm/test_doctor.py::test_one[a::b]", "machines"),
        ("tests/molecule/test_default.py::test_one", "machines"),
        ("tests/playbook/test_local_fleet.py::test_one", "fleets"),
        ("tests/unit/agent/test_vm.py::test_one", "tests/unit/agent/test_vm.py"),
    ],
)
def test_groups(nodeid: str, where: str) -> None:
    assert group(nodeid) == where


def test_pytest_keeps_a_group_in_one_process(tmp_path: Path) -> None:
    directory = tmp_path / "tests" / "vm"
    directory.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_xdist_make_scheduler\n"
    )
    for name in "abc":
        (directory / f"test_{name}.py").write_text(
            "import pytest\n\n\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n): pass\n"
        )
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup", "tests/vm",
         "--rootdir", tmp_path, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    processes = re.findall(r"^\[(gw\d)\].*PASSED", said.stdout, re.MULTILINE)
    assert len(processes) == 9
    assert len(set(processes)) == 1
