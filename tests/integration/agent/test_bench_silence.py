"""A TPM that stops answering in the middle of a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support import tpm
from tests.support.agent import QUICK, Agent, sentence

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm

LEFT_BEHIND = 4
DEADLINE = 1.0


@pytest.mark.parametrize("scenario", ["raw-signing", "handshake-new"])
def test_it_is_reported_within_the_deadline_and_cleared_up_later(
    agent: Agent, swtpm: Swtpm, scenario: str
) -> None:
    tpm.put_key(swtpm.tcti, 0x81000004)
    before = swtpm.handles()
    process = agent.start(
        "run", *QUICK, "--signatures", "5000", "--connections", "2000", "--scenario", scenario,
        "--deadline", str(DEADLINE), "--output", str(agent.output),
    )  # fmt: skip
    try:
        _until_named(agent)
        time.sleep(0.4)
        with swtpm.frozen():
            frozen_at = time.monotonic()
            _, error = process.communicate(timeout=30)
            took = time.monotonic() - frozen_at
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == LEFT_BEHIND, error
    assert "Traceback" not in error
    # The sample, the objects' removal and the key's: each waits once at the most.
    assert DEADLINE <= took < 5 * DEADLINE
    said = error.splitlines()[-1]
    assert "did not answer" in said
    assert f"within {DEADLINE:g} s" in said
    assert "run tpm-tls-bench evict with the same --state-dir" in said
    assert agent.journal(), "what is left behind must stay written down"

    (measured,) = agent.document()["scenarios"]
    assert measured["status"] == "invalid"
    assert "did not answer" in measured["reason"]

    freed = agent("evict")
    assert freed.returncode == 0, freed.stderr
    assert agent.journal_files() == []
    assert swtpm.handles() == before


def test_evict_says_so_too_and_keeps_the_journal(agent: Agent, swtpm: Swtpm) -> None:
    process = agent.start("run", *QUICK, "--signatures", "5000", "--scenario", "raw-signing")
    try:
        _until_named(agent)
    finally:
        process.kill()
        process.communicate()
    kept = agent.journal()
    swtpm.stop()
    done = agent("evict")
    assert done.returncode in (3, LEFT_BEHIND)
    assert "no software TPM answers" in sentence(done)
    assert agent.journal() == kept


def _until_named(agent: Agent) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            if any(entry["name"] for entry in agent.journal()):
                return
        except (OSError, ValueError):  # between two states of the journal
            pass
        time.sleep(0.005)
    raise AssertionError("the run made no key")
