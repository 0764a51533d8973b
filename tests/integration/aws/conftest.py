"""The modules, run as Ansible runs them, against the double."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from ansible.module_utils.testing import patch_module_args
from botocore.loaders import Loader

from tests.support.ec2_double import Ec2Double
from tests.support.ec2_options import GIVEN, KINDS
from tests.support.module_utils import load_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Outcome(NamedTuple):
    """How a module ended."""

    status: int
    answer: dict[str, Any]


class Aws:
    """The modules' user: an account, credentials, and one VM's options."""

    def __init__(self, double: Ec2Double, capsys: pytest.CaptureFixture[str]) -> None:
        self.double = double
        self._capsys = capsys

    def run(self, module: str, *, check: bool = False, **options: Any) -> Outcome:
        """Run one of the modules."""
        given = self.double.options() | {"timeout": 60, "_ansible_check_mode": check} | options
        given = {name: value for name, value in given.items() if value is not None}
        self._capsys.readouterr()
        with patch_module_args(given), pytest.raises(SystemExit) as ended:
            load_module(module).main()
        return Outcome(int(ended.value.code or 0), json.loads(self._capsys.readouterr().out))

    def vm(self, kind: str = "snp", *, check: bool = False, **changes: Any) -> Outcome:
        """Ask for a VM, with what is not mentioned as the module has it."""
        options = GIVEN | {"name": f"bench-{kind}"} | KINDS[kind] | changes
        return self.run("ec2_confidential_instance", check=check, **options)

    def goes_after(self, number: str, looks: int) -> None:
        """Let a VM be on its way out, and gone after so many further requests."""
        store = self.double.store
        store.latency = 3600.0
        store.terminate(number)
        left, settle = iter(range(looks)), store.settle

        def count() -> None:
            settle()
            if next(left, None) is None:
                store.gone(number)

        store.settle = count  # type: ignore[method-assign]

    def live(self) -> list[str]:
        """Ids of the VMs that are not terminated."""
        return [item["InstanceId"] for item in self.double.store.live()]


@pytest.fixture(scope="session")
def models() -> Loader:
    """botocore's models, read once; a module that runs by itself reads them each time."""
    return Loader()


@pytest.fixture
def double(tmp_path: Path) -> Iterator[Ec2Double]:
    one = Ec2Double(tmp_path)
    yield one
    one.close()


@pytest.fixture
def aws(
    double: Ec2Double,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    models: Loader,
) -> Aws:
    from ansible.module_utils import cloud_wait

    monkeypatch.setattr("botocore.session.create_loader", lambda *_: models)
    monkeypatch.setattr(cloud_wait, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(cloud_wait, "LONGEST_PAUSE", 0.1)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in double.environment().items():
        monkeypatch.setenv(name, value)
    return Aws(double, capsys)
