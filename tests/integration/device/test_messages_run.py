"""The messages suite against a software TPM."""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING

import pytest

from tests.support import relay
from tests.support.agent import Agent
from tpmtls.commands import CODES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm

pytestmark = pytest.mark.swtpm

FEW = ("--suite", "messages", "--curve", "p256", "--signatures", "6", "--warmup", "1",
       "--metadata", "never")  # fmt: skip
_FIGURES = r" +([\d,.]+) (us|ms) \| +([\d,.]+) \4 \| +([\d,.]+) \4 \|$"
ROW = re.compile(r"^\| (\S.*?) +\| message \[(\d+)\] +\|" + _FIGURES)
SIZES = (17, 93, 1024)
KINDS = ("tpm", "tpm-digest", "software", "software-digest", "hash")
VERIFIED = bytes.fromhex("8001 00000016 00000000 8022 40000001 0004 00000000")


def test_signing_and_verifying_by_size(swtpm: Swtpm, tmp_path: Path) -> None:
    before = swtpm.handles()
    agent = Agent(swtpm.tcti, tmp_path)
    document = agent.measure(*FEW)
    assert swtpm.handles() == before
    assert agent.journal_files() == []
    found = {item["name"]: item for item in document["scenarios"]}
    assert list(found) == [
        "message-size-sign", "message-size-verify", "message-size-single-shot",
    ]  # fmt: skip
    signing = {arm["name"]: arm for arm in found["message-size-sign"]["arms"]}
    assert {f"{kind}-{size}" for kind in KINDS for size in SIZES} == set(signing)
    for name, arm in signing.items():
        assert len(arm["samples_ns"]) == 6
        expected = {"signer": 6, "transport": 6 if name.startswith("tpm") else None, "peer": 6}
        if name.startswith("hash"):
            expected = {"signer": None, "transport": None, "peer": 0}
        assert arm["signatures"] == expected, name
    verifying = {arm["name"]: arm for arm in found["message-size-verify"]["arms"]}
    assert verifying["tpm-93"]["signatures"] == {"signer": None, "transport": 0, "peer": 0}
    assert verifying["tpm-93"]["tpm_commands"] == 6, "the TPM itself verified"
    shots = {arm["name"]: arm for arm in found["message-size-single-shot"]["arms"]}
    assert shots["tpm-17"]["signatures"] == {"signer": 10, "transport": 10, "peer": 10}
    assert shots["tpm-17"]["tpm_commands"] == 40, "create, load, sign, flush"


def test_every_size_takes_its_turns(swtpm: Swtpm, tmp_path: Path) -> None:
    document = Agent(swtpm.tcti, tmp_path).measure(*FEW, "--block", "2")
    turns = document["scenarios"][1]["turns"]
    assert len(turns) == 3 * 12
    assert len(set(turns[:12])) == 12


def test_show_prints_benchmarkdotnets_table(swtpm: Swtpm, tmp_path: Path) -> None:
    agent = Agent(swtpm.tcti, tmp_path)
    done = agent("run", *FEW, "--output", str(agent.output))
    lines = done.stdout.splitlines()
    start = lines.index("TPM ECDsa P256")
    assert re.fullmatch(
        r"\| Method +\| MessageInput +\| +Mean \| +Error \| +StdDev \|", lines[start + 2]
    )
    assert re.fullmatch(r"\|-+ \|-+ \|-+:\|-+:\|-+:\|", lines[start + 3])
    assert len({len(line) for line in lines[start + 2 : start + 10]}) == 1, "ragged"
    rows = [match for match in map(ROW.match, lines) if match]
    assert len(rows) == 13 + 16
    samples = next(
        arm["samples_ns"]
        for arm in agent.document()["scenarios"][0]["arms"]
        if arm["name"] == "tpm-93"
    )
    scale = {"us": 1e3, "ms": 1e6}[rows[1][4]]
    assert (rows[1][1], rows[1][2]) == ("ECDSA_Sign", "93")
    decimals = len(rows[1][3].partition(".")[2])
    shown = float(rows[1][3].replace(",", ""))
    assert shown == pytest.approx(statistics.fmean(samples) / scale, abs=0.51 * 10**-decimals)
    verdicts = [line for line in lines if "us per KiB" in line]
    assert len(verdicts) == 9
    assert all(line.endswith(("size matters", "no effect of size is seen")) for line in verdicts)


def test_a_tpm_that_verifies_everything_is_found_out(swtpm: Swtpm, tmp_path: Path) -> None:
    def gullible(command: bytes, forward: relay.Forward) -> bytes:
        wanted = relay.code_of(command) == CODES["TPM2_VerifySignature"]
        return VERIFIED if wanted else forward(command)

    with relay.relay(swtpm.port, gullible) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent("run", *FEW, "--output", str(agent.output))
    assert done.returncode == 1
    found = {item["name"]: item for item in agent.document()["scenarios"]}
    assert found["message-size-sign"]["status"] == "valid"
    assert found["message-size-verify"]["status"] == "invalid"
    assert "answers were wrong" in found["message-size-verify"]["reason"]
