"""A transport that holds every command back is told in the suites tls and messages too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support import relay
from tests.support.agent import QUICK, Agent, only

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm

pytestmark = pytest.mark.swtpm

HELD_SECONDS = 0.0397  # a quantum reaches from 38 to 47 ms


def hold_back(command: bytes, forward: relay.Forward) -> bytes:
    """Answer as late as where a delayed acknowledgement was waited for."""
    until = time.monotonic() + HELD_SECONDS
    answer = forward(command)
    time.sleep(max(0.0, until - time.monotonic()))
    return answer


def test_it_is_a_warning_with_the_remedy_and_no_tpms_speed(swtpm: Swtpm, tmp_path: Path) -> None:
    with relay.relay(swtpm.port, hold_back) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent(
            "run", *QUICK, *only("raw-signing", "handshake-new", "message-size-verify"),
            "--output", str(agent.output), timeout=240,
        )  # fmt: skip
    document = agent.document()
    (warning,) = [item for item in document["warnings"] if item["code"] == "transport-artefact"]
    assert tcti in warning["message"]
    assert "TCP_NODELAY" in warning["remedy"]
    assert done.returncode == 1
    assert {item["status"] for item in document["scenarios"]} == {"invalid"}
    for item in document["scenarios"]:
        assert item["reason"].startswith("transport artefact: every command takes about 4")
        assert "use the raw swtpm protocol" in item["reason"]
    assert warning["message"] in done.stdout


def test_a_sound_transport_has_no_such_warning(swtpm: Swtpm, tmp_path: Path) -> None:
    document = Agent(swtpm.tcti, tmp_path).measure(*QUICK, *only("raw-signing"))
    assert "transport-artefact" not in {item["code"] for item in document["warnings"]}
