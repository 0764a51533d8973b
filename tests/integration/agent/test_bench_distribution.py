"""The agent on the distribution's own Python and packages, as ``system`` installs have it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest

from tests.support.agent import Agent, only

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm

PYTHON = "/usr/bin/python3"
SCHEMA = Path(__file__).resolve().parents[3] / "schema" / "result.schema.json"
_NEEDS = "import sys, tpm2_pytss, cryptography; sys.exit(sys.version_info < (3, 11))"


def _usable() -> bool:
    try:
        done = subprocess.run([PYTHON, "-c", _NEEDS], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


@pytest.mark.skipif(
    not _usable(),
    reason="/usr/bin/python3 is older than 3.11, or lacks python3-tpm2-pytss, python3-cryptography",
)
def test_it_measures_on_the_distributions_packages(swtpm: Swtpm, tmp_path: Path) -> None:
    agent = Agent(swtpm.tcti, tmp_path, python=PYTHON)
    document = agent.measure(
        "--signatures", "5", "--connections", "5", "--warmup", "1", "--metadata", "never",
        *only("raw-signing", "handshake-new", "handshake-resumed", "connection-reused",
              "handshake-server-key"),
    )  # fmt: skip
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))
    assert [str(error) for error in validator.iter_errors(document)] == []
    counts = {
        (scenario["name"], scenario["curve"]): arm["signatures"]
        for scenario in document["scenarios"]
        for arm in scenario["arms"]
        if arm["name"] == "tpm-persistent"
    }
    for curve in ("p256", "p384"):
        for scenario, count in (
            ("raw-signing", 5),
            ("handshake-new", 5),
            ("handshake-resumed", 1),
            ("connection-reused", 1),
            ("handshake-server-key", 5),
        ):
            assert counts[scenario, curve] == {
                "signer": count,
                "transport": count,
                "peer": count,
            }
    assert swtpm.handles() == (frozenset(), frozenset())
    doctor = agent("doctor", "--json", "--metadata", "never")
    assert doctor.returncode == 1, "there is no key to find"
    assert json.loads(doctor.stdout)["holds"] is False
