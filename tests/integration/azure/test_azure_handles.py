"""The agent on a TPM like that of an Azure VM, in which Azure has keys already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import tpm
from tests.support.agent import QUICK, Agent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm

AZURES = (0x81000001, 0x81000003, 0x81010001)


def test_azures_keys_are_never_touched(swtpm: Swtpm, tmp_path: Path) -> None:
    there = frozenset((handle, tpm.put_key(swtpm.tcti, handle)) for handle in AZURES)
    agent = Agent(swtpm.tcti, tmp_path)
    document = agent.measure(*QUICK, "--curve", "p384", "--scenario", "raw-signing")
    assert len(document["keys"]) == 2
    assert {int(key["handle"], 16) for key in document["keys"]} == {0x817FF000}
    assert swtpm.handles() == (there, frozenset())
    for handle in AZURES:
        refused = agent("run", *QUICK, "--handle", f"{handle:#x}", "--scenario", "raw-signing")
        assert refused.returncode == 3, refused.stderr
        assert f"{handle:#x}" in refused.stderr
    assert agent("evict").returncode == 0
    assert swtpm.handles() == (there, frozenset())
