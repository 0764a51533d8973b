"""Several --tcti in one run: the same operations over each, side by side, and nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from tests.support import mssim, relay, tpm
from tests.support.agent import QUICK, Agent, only, sentence
from tpmtls.commands import CODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.swtpm import Swtpm

pytestmark = pytest.mark.swtpm

SCHEMA = Path(__file__).parents[3] / "schema" / "result.schema.json"
FEW = (*QUICK, "--operations", "3")
THREE = only("raw-signing", "message-size-single-shot", "device-ecdsa-p256-sign")


def pass_on(command: bytes, forward: relay.Forward) -> bytes:
    return forward(command)


def run(agent: Agent, *options: str) -> Any:
    return agent("run", *FEW, *options, "--output", str(agent.output))


def faults(document: dict[str, Any]) -> list[str]:
    validator = jsonschema_rs.validator_for(SCHEMA.read_text())
    return [str(error) for error in validator.iter_errors(document)]


def names(arms: list[dict[str, Any]]) -> list[str]:
    return [arm["name"] for arm in arms]


@pytest.fixture
def agent(swtpm: Swtpm, tmp_path: Path) -> Agent:
    return Agent(swtpm.tcti, tmp_path)


def test_the_same_over_each_way(agent: Agent, swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, 0x81000004)
    before = swtpm.handles()
    with relay.relay(swtpm.port, pass_on) as way:
        done = run(agent, "--tcti", way, *THREE, *only("handshake-new"))
    assert done.returncode == 0, done.stderr
    document = agent.document()
    assert [
        str(e) for e in jsonschema_rs.validator_for(SCHEMA.read_text()).iter_errors(document)
    ] == []
    assert document["tpm"]["tcti"] == swtpm.tcti
    (other,) = document["other_transports"]
    assert (other["tcti"], other["status"], other["reason"]) == (way, "valid", None)
    assert other["same_tpm"] is True
    assert "same Name over both" in other["same_tpm_told_by"]
    assert other["handles_equal"] is True
    assert other["tpm"]["manufacturer"] == "IBM"
    first = {item["name"]: item for item in document["scenarios"]}
    assert set(first) == {
        "raw-signing", "handshake-new", "message-size-single-shot", "device-ecdsa-p256-sign",
    }  # fmt: skip
    for suite, name in (
        ("tls", "raw-signing"), ("messages", "message-size-single-shot"),
        ("device", "device-ecdsa-p256-sign"),
    ):  # fmt: skip
        (found,) = other[suite]
        assert (found["name"], found["status"]) == (name, "valid")
        assert [arm["name"] for arm in found["arms"]] == [
            arm["name"] for arm in first[name]["arms"]
        ]
        for mine, theirs in zip(first[name]["arms"], found["arms"], strict=True):
            assert len(mine["samples_ns"]) == len(theirs["samples_ns"])
            assert mine["tpm_commands"] == theirs["tpm_commands"]
    assert swtpm.handles() == before
    assert agent.journal_files() == []
    assert "Several ways to the TPM, side by side" in done.stdout
    (line,) = [
        item for item in done.stdout.splitlines() if item.startswith("raw-signing p256 floor")
    ]
    assert len(line.split()) == 5


@pytest.mark.skipif(not mssim.available(), reason="libtss2-tcti-mssim is not installed")
def test_a_tcti_of_the_tss_beside_ours(agent: Agent, swtpm: Swtpm) -> None:
    with mssim.simulator(swtpm.port) as simulator:
        done = run(agent, "--tcti", simulator.tcti, *only("raw-signing", "device-rng"))
    assert done.returncode == 0, done.stderr
    (other,) = agent.document()["other_transports"]
    assert (other["status"], other["same_tpm"]) == ("valid", True)
    assert [item["status"] for item in (*other["tls"], *other["device"])] == ["valid", "valid"]


def test_ways_that_cannot_be_opened_are_rows_with_their_reasons(agent: Agent) -> None:
    ways = ("device:/dev/no-such-tpm", "swtpm:nonsense", "nosuchtcti:x")
    done = run(agent, *(part for way in ways for part in ("--tcti", way)), *only("device-rng"))
    assert done.returncode == 1
    assert "/dev/no-such-tpm" in sentence(done)
    document = agent.document()
    assert document["scenarios"][0]["status"] == "valid"
    others = document["other_transports"]
    assert [item["tcti"] for item in others] == list(ways)
    assert {item["status"] for item in others} == {"invalid"}
    assert {item["same_tpm"] for item in others} == {None}
    reasons = [item["reason"] for item in others]
    assert "there is no TPM device /dev/no-such-tpm" in reasons[0]
    assert "'nonsense'" in reasons[1]
    assert "libtss2-tcti-nosuchtcti" in reasons[2]
    assert [
        str(e) for e in jsonschema_rs.validator_for(SCHEMA.read_text()).iter_errors(document)
    ] == []
    assert "there is no TPM device" in done.stdout


def test_another_tpm_is_told_and_left_alone(agent: Agent, make_swtpm: Callable[..., Swtpm]) -> None:
    stranger = make_swtpm(log_level=20)
    tpm.put_key(stranger.tcti, 0x81000004)
    before = stranger.handles()
    done = run(agent, "--tcti", stranger.tcti, *only("device-rng"))
    assert done.returncode == 1
    assert "leads to another TPM" in sentence(done)
    (other,) = agent.document()["other_transports"]
    assert (other["status"], other["same_tpm"]) == ("invalid", False)
    assert "another Name over each" in other["same_tpm_told_by"]
    assert (other["device"], other["messages"], other["tls"]) == ([], [], [])
    assert stranger.handles() == before
    assert agent.journal_files() == []


def test_a_way_that_breaks_in_the_middle_keeps_what_it_gave(agent: Agent, swtpm: Swtpm) -> None:
    """What it leaves is told and then removed over the first way, which leads there too."""

    def break_at_pcr_read(command: bytes, forward: relay.Forward) -> bytes:
        return b"" if relay.code_of(command) == CODES["TPM2_PCR_Read"] else forward(command)

    with relay.relay(swtpm.port, break_at_pcr_read) as way:
        done = run(agent, "--tcti", way, "--deadline", "2", *only("device-rng", "device-pcr-read"))
    assert done.returncode == 4, done.stderr
    assert "run tpm-tls-bench evict" in sentence(done)
    document = agent.document()
    assert faults(document) == []
    assert [item["status"] for item in document["scenarios"]] == ["valid", "valid"]
    (other,) = document["other_transports"]
    assert (other["status"], other["handles_equal"]) == ("invalid", None)
    assert [item["status"] for item in other["device"]] == ["valid", "invalid"]
    assert "did not answer TPM2_PCR_Read" in other["device"][1]["reason"]
    evicted = agent("evict", "--tcti", swtpm.tcti)
    assert evicted.returncode == 0, evicted.stderr
    assert swtpm.handles().transient == frozenset()
    assert agent.journal_files() == []


def test_handles_that_come_meanwhile_are_told(agent: Agent, swtpm: Swtpm) -> None:
    seen = []

    def leave_something(command: bytes, forward: relay.Forward) -> bytes:
        if relay.code_of(command) == CODES["TPM2_PCR_Read"] and not seen:
            seen.append(command)
            start = bytes.fromhex("8001 0000000e 00000186 0000 000b".replace(" ", ""))
            assert forward(start)[6:10] == bytes(4)
        return forward(command)

    with relay.relay(swtpm.port, leave_something) as way:
        done = run(agent, "--tcti", way, *only("device-pcr-read"))
    assert done.returncode == 1
    (other,) = agent.document()["other_transports"]
    assert (other["status"], other["handles_equal"]) == ("invalid", False)
    assert "0x8000000" in other["reason"]
