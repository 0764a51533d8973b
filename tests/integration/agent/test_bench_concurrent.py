"""Many clients at once over one TPM: what is shared out, counted and waited for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest

from tests.support.agent import only

if TYPE_CHECKING:
    from tests.support.agent import Agent
    from tests.support.swtpm import Swtpm

pytestmark = pytest.mark.swtpm

SCHEMA = Path(__file__).resolve().parents[3] / "schema" / "result.schema.json"
CLIENTS = (1, 2, 4, 8, 16)
TURN = 32  # connections; whole turns only, so that is what one asked for becomes


def test_crowds_are_counted_three_ways_and_leave_nothing(agent: Agent, swtpm: Swtpm) -> None:
    before = swtpm.handles()
    done = agent(
        "run", "--curve", "p256", "--connections", "1", "--warmup", "1", "--metadata", "never",
        "--output", str(agent.output), *only("handshake-concurrent"), timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = agent.document()
    jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).validate(document)
    (scenario,) = document["scenarios"]
    assert scenario["status"] == "valid"
    arms = {arm["name"]: arm for arm in scenario["arms"]}
    assert set(arms) == {f"{key}-{n}" for key in ("tpm-persistent", "software") for n in CLIENTS}
    for name, arm in arms.items():
        in_tpm = name.startswith("tpm-")
        assert arm["clients"] == int(name.rpartition("-")[2])
        assert len(arm["samples_ns"]) == TURN
        assert arm["signatures"] == {
            "signer": TURN,
            "transport": TURN if in_tpm else None,
            "peer": TURN,
        }
        assert arm["resumed"] == 0
        assert (arm["waited_ns"] is not None) == in_tpm
        # Together the clients were at it for no longer than all of them added up, and no
        # connection took longer than the whole.
        assert max(arm["samples_ns"]) <= arm["elapsed_ns"]
        assert arm["elapsed_ns"] * arm["clients"] >= sum(arm["samples_ns"])
    # One client never queues behind itself; sixteen cannot but queue for one TPM.
    assert arms["tpm-persistent-1"]["waited_ns"] == 0
    assert arms["tpm-persistent-16"]["waited_ns"] > 0
    assert swtpm.handles() == before
