"""The modules, run as Ansible runs them, against the double."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.support.compute_double import ComputeDouble
from tests.support.gce_options import KINDS
from tests.support.module_utils import load_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Outcome(NamedTuple):
    """How a module ended."""

    status: int
    answer: dict[str, Any]


class Gce:
    """The modules' user: a project, credentials, and one VM's options."""

    def __init__(self, double: ComputeDouble, capsys: pytest.CaptureFixture[str]) -> None:
        self.double = double
        self._capsys = capsys

    def run(self, module: str, *, check: bool = False, **options: Any) -> Outcome:
        """Run one of the modules."""
        given = self.double.options() | {"timeout": 20, "_ansible_check_mode": check} | options
        given = {name: value for name, value in given.items() if value is not None}
        self._capsys.readouterr()
        with patch_module_args(given), pytest.raises(SystemExit) as ended:
            load_module(module).main()
        return Outcome(int(ended.value.code or 0), json.loads(self._capsys.readouterr().out))

    def vm(self, kind: str = "snp", *, check: bool = False, **changes: Any) -> Outcome:
        """Ask for a VM, with what is not mentioned as the module has it."""
        given = {
            "name": f"bench-{kind}",
            "zone": "europe-west4-b",
            "max_run_duration": 7200,
            "labels": {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-1"},
            "metadata": {"ssh-keys": "bench:ssh-ed25519 AAAA"},
        }
        options = given | KINDS[kind] | changes
        return self.run("gce_confidential_instance", check=check, **options)


@pytest.fixture
def double(tmp_path: Path) -> Iterator[ComputeDouble]:
    one = ComputeDouble(tmp_path)
    yield one
    one.close()


@pytest.fixture
def gce(
    double: ComputeDouble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Gce:
    from ansible.module_utils import cloud_wait

    monkeypatch.setattr(cloud_wait, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(cloud_wait, "LONGEST_PAUSE", 0.1)
    return Gce(double, capsys)
