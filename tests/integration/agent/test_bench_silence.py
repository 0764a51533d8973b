"""A TPM that stops answering in the middle of a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support import tpm
from tests.support.agent import QUICK, Agent, sentence, wait_for_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
        wait_for_line(process, f"p256 {scenario}")
        time.sleep(0.2)
        with swtpm.frozen():
            frozen_at = time.monotonic()
            _, error = process.communicate(timeout=30)
            took = time.monotonic() - frozen_at
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == LEFT_BEHIND, error
    assert "Traceback" not in error
    # The sample, the loaded key's flushing, its removal and the key's: each waits once at the most.
    assert DEADLINE <= took < 4 * DEADLINE + 6  # and what a busy machine adds
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
        wait_for_line(process, "p256 raw-signing")
    finally:
        process.kill()
        process.communicate()
    kept = agent.journal()
    swtpm.stop()
    done = agent("evict")
    assert done.returncode == 3
    assert "no software TPM answers" in sentence(done)
    assert agent.journal() == kept


def test_evict_goes_on_with_the_tpms_that_answer(
    make_swtpm: Callable[..., Swtpm], tmp_path: Path
) -> None:
    gone, there = sorted((make_swtpm(), make_swtpm()), key=lambda one: one.tcti)
    for software in (gone, there):
        agent = Agent(software.tcti, tmp_path)
        process = agent.start("run", *QUICK, "--signatures", "5000", "--scenario", "raw-signing")
        try:
            wait_for_line(process, "p256 raw-signing")
        finally:
            process.kill()
            process.communicate()
    gone.stop()
    done = agent("evict")
    assert done.returncode == 3
    assert gone.tcti in sentence(done)
    assert {entry["tcti"] for entry in agent.journal()} == {gone.tcti}
    assert there.handles() == (frozenset(), frozenset())
