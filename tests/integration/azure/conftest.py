"""The modules, run as Ansible runs them, against the double."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.support.azure_double import AzureDouble
from tests.support.azure_options import given
from tests.support.module_utils import load_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Outcome(NamedTuple):
    """How a module ended."""

    status: int
    answer: dict[str, Any]
    text: str


class Azure:
    """The modules' user: a subscription, credentials, and one VM's options."""

    def __init__(self, double: AzureDouble, capsys: pytest.CaptureFixture[str]) -> None:
        self.double = double
        self._capsys = capsys

    def run(self, module: str, *, check: bool = False, **options: Any) -> Outcome:
        """Run one of the modules."""
        every = self.double.options() | {"timeout": 60, "_ansible_check_mode": check} | options
        every = {name: value for name, value in every.items() if value is not None}
        self._capsys.readouterr()
        with patch_module_args(every), pytest.raises(SystemExit) as ended:
            load_module(module).main()
        out, err = self._capsys.readouterr()
        return Outcome(int(ended.value.code or 0), json.loads(out), out + err)

    def network(self, *, check: bool = False, **changes: Any) -> Outcome:
        """Ask for the fleet's network."""
        given = {
            "fleet": "trial",
            "location": "westeurope",
            "ssh_source_ranges": ["192.0.2.0/24"],
        }
        return self.run("azure_fleet_network", check=check, **(given | changes))

    def vm(self, kind: str = "snp", *, check: bool = False, **changes: Any) -> Outcome:
        """Ask for a VM, with what is not mentioned as the module has it."""
        there = self.double.store.identity
        name = "tpm-fleet-bench-trial-westeurope"
        network = {
            "subnet_id": f"{there('Microsoft.Network/virtualNetworks', name)}/subnets/hosts",
            "network_security_group_id": there("Microsoft.Network/networkSecurityGroups", name),
        }
        return self.run("azure_confidential_vm", check=check, **(given(kind) | network | changes))


@pytest.fixture
def double(tmp_path: Path) -> Iterator[AzureDouble]:
    one = AzureDouble(tmp_path)
    yield one
    one.close()


@pytest.fixture
def bare(
    double: AzureDouble, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Azure:
    """An empty resource group."""
    from ansible.module_utils import cloud_wait

    monkeypatch.setattr(cloud_wait, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(cloud_wait, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(cloud_wait, "LONGEST_LOOK", 0.2)
    return Azure(double, capsys)


@pytest.fixture
def azure(bare: Azure) -> Azure:
    """A resource group with the fleet's network in it."""
    made = bare.network()
    assert made.status == 0, made.answer
    bare.double.requests.clear()
    bare.double.bodies.clear()
    return bare
