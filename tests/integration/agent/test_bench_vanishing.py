"""A transport of the TSS's that vanishes in the middle: one sentence, and nothing false said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support import mssim, relay
from tests.support.agent import QUICK, Agent, only, sentence
from tpmtls.commands import CODES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm

pytestmark = [
    pytest.mark.swtpm,
    pytest.mark.skipif(not mssim.available(), reason="libtss2-tcti-mssim is not installed"),
]

AT = {
    "raw-signing": ("TPM2_Sign", 3),
    "handshake-new": ("TPM2_Sign", 3),
    "message-size-single-shot": ("TPM2_Load", 2),
    "device-sha256": ("TPM2_SequenceUpdate", 2),
    "device-nv-write": ("TPM2_NV_Write", 1),
}
"""By scenario, the command at which it vanishes, and the how manieth of these."""


@pytest.mark.parametrize("scenario", AT)
def test_it_ends_in_a_sentence_and_all_is_removed_over_another_way(
    swtpm: Swtpm, tmp_path: Path, scenario: str
) -> None:
    name, number = AT[scenario]
    seen: Counter[int] = Counter()

    def vanish(command: bytes) -> None:
        seen[relay.code_of(command)] += 1
        if seen[CODES[name]] >= number:
            raise mssim.GoneError

    with mssim.simulator(swtpm.port, vanish) as simulator:
        agent = Agent(simulator.tcti, tmp_path)
        done = agent("run", *QUICK, *only(scenario), "--output", str(agent.output))
    assert done.returncode == 4, done.stderr
    assert "could not be removed from the TPM" in sentence(done)
    assert [line for line in done.stderr.splitlines() if ":tcti:" in line] == []
    (found,) = agent.document()["scenarios"]
    assert found["status"] == "invalid"
    assert "broke during" in found["reason"]
    assert agent.journal_files() != []
    # The way it was made over is no more; the TPM is.
    evicted = agent("evict")
    assert evicted.returncode == 3
    assert "the TSS cannot open" in sentence(evicted)
    evicted = agent("evict", "--tcti", swtpm.tcti)
    assert evicted.returncode == 0, evicted.stderr
    after = swtpm.handles()
    assert (after.persistent, after.transient) == (frozenset(), frozenset())
    assert agent.journal_files() == []
