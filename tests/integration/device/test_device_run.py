"""The device suite against a software TPM: right answers, every code a row, nothing left."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from tpm2_pytss import TPM2_CAP

from tests.support import relay, tpm
from tests.support.agent import Agent, sentence
from tpmbench.device.table import OPERATIONS
from tpmtls.commands import CODES

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm

pytestmark = pytest.mark.swtpm

SCHEMA = Path(__file__).parents[3] / "schema" / "result.schema.json"
FEW = ("--operations", "3", "--warmup", "1", "--metadata", "never")
SLOW = {item.name for item in OPERATIONS if item.slow}
WOLF_OPS = re.compile(
    r"^(.+?) +(\d+) ops took (\d+\.\d{3}) sec, avg (\d+\.\d{3}) ms, (\d+\.\d{3}) ops/sec$"
)
WOLF_KB = re.compile(r"^(.+?) +(\d+) KB took (\d+\.\d{3}) seconds, +(\d+\.\d{3}) KB/s$")


def only(*names: str) -> list[str]:
    return [part for name in names for part in ("--scenario", name)]


def things(tcti: str) -> dict[str, Any]:
    """Read whatever a suite could have left, with the TSS."""
    found: dict[str, Any] = {}
    with tpm.esapi(tcti) as esys:
        for what, first in (
            ("persistent", 0x81000000), ("transient", 0x80000000), ("nv", 0x01000000),
            ("loaded sessions", 0x02000000), ("saved sessions", 0x03000000),
        ):  # fmt: skip
            _, data = esys.get_capability(TPM2_CAP.HANDLES, first, 64)
            found[what] = sorted(int(handle) for handle in data.data.handles)
        _, _, digests = esys.pcr_read("sha256:16,23")
        found["pcrs"] = [bytes(digest) for digest in digests]
    return found


@pytest.fixture(scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.support import swtpm as software_tpm

    directory = tmp_path_factory.mktemp("device")
    machine = software_tpm.Swtpm(directory / "swtpm")
    machine.start()
    try:
        agent = Agent(machine.tcti, directory)
        before = things(machine.tcti)
        quick = [item.name for item in OPERATIONS if item.name not in SLOW]
        done = agent(
            "run", *FEW, *only(*quick, "device-rsa-2048-primary"),
            "--output", str(agent.output), timeout=240,
        )  # fmt: skip
        yield done, agent, before, things(machine.tcti)
    finally:
        machine.stop()


@pytest.fixture
def whole(_whole: Any) -> Any:
    return _whole


def test_every_operation_runs_and_every_answer_is_right(whole: Any) -> None:
    done, agent, _, _ = whole
    assert done.returncode == 0, done.stderr
    scenarios = agent.document()["scenarios"]
    assert {item["operation"]["status"] for item in scenarios} == {"run"}
    for item in scenarios:
        floor = item["arms"][0]
        assert floor["name"] == "floor"
        assert item["operation"]["checked"] == len(floor["samples_ns"]) == 3, item["name"]
        assert all(sample > 0 for sample in floor["samples_ns"])


def test_the_document_follows_the_schema_and_asks_for_no_key(whole: Any) -> None:
    _, agent, _, _ = whole
    schema = json.loads(SCHEMA.read_text())
    document = agent.document()
    jsonschema_rs.Draft202012Validator(schema).validate(document)
    assert document["keys"] == []
    assert {item["curve"] for item in document["scenarios"]} == {None}


def test_hash_sequences_are_three_commands(whole: Any) -> None:
    _, agent, _, _ = whole
    by_name = {item["name"]: item for item in agent.document()["scenarios"]}
    assert by_name["device-sha256"]["arms"][0]["tpm_commands"] == 9
    assert by_name["device-ecc-p256-keygen"]["arms"][0]["tpm_commands"] == 6
    assert by_name["device-rng"]["arms"][0]["tpm_commands"] == 3


def test_parameters_are_encrypted_three_ways(whole: Any) -> None:
    _, agent, _, _ = whole
    by_name = {item["name"]: item for item in agent.document()["scenarios"]}
    arms = [arm["name"] for arm in by_name["device-ecdsa-p256-sign"]["arms"]]
    assert arms == ["floor", "esapi", "esapi-xor", "esapi-aes-128-cfb", "esapi-aes-256-cfb"]


def test_nothing_is_left(whole: Any) -> None:
    _, agent, before, after = whole
    assert before == after
    assert agent.journal_files() == []


def test_show_prints_wolftpms_lines(whole: Any) -> None:
    done, agent, _, _ = whole
    lines = done.stdout.splitlines()
    operations = {m[1]: m for m in map(WOLF_OPS.match, lines) if m}
    sizes = {m[1]: m for m in map(WOLF_KB.match, lines) if m}
    assert {"RSA 2048 Public", "RSA 2048 Priv OAEP", "ECDSA 256 sign", "ECDHE 256 agree"} <= set(
        operations
    )
    assert {"RNG", "AES-128-CBC-enc", "AES-256-CFB-dec", "SHA1", "SHA512"} <= set(sizes)
    by_title = {item["operation"]["title"]: item for item in agent.document()["scenarios"]}
    samples = by_title["ECDSA 256 sign"]["arms"][0]["samples_ns"]
    assert float(operations["ECDSA 256 sign"][4]) == pytest.approx(
        sum(samples) / len(samples) / 1e6, abs=0.0006
    )
    assert sizes["AES-128-CBC-enc"][2] == "3"


def test_wolftpms_rule_goes_on_for_so_long(swtpm: Swtpm, tmp_path: Path) -> None:
    agent = Agent(swtpm.tcti, tmp_path)
    names = ("device-rng", "device-ecdsa-p256-sign", "device-ecc-p256-primary-varied")
    document = agent.measure(*only(*names), "--max-duration-ms", "40", "--metadata", "never")
    assert document["settings"]["max_duration_ns"] == 40_000_000
    for item in document["scenarios"]:
        for arm in item["arms"]:
            assert arm["warmup_ns"] == []
            assert sum(arm["samples_ns"]) >= 40_000_000
            assert sum(arm["samples_ns"][:-1]) < 40_000_000


@pytest.mark.parametrize(
    ("code", "status", "name", "invalid"),
    [
        (0x2CA, "unsupported", "TPM_RC_TYPE (parameter 2)", False),
        (0x143, "unsupported", "TPM_RC_COMMAND_CODE", False),
        (0x185, "blocked", "TPM_RC_HIERARCHY (handle 1)", False),
        (0x142, "transport-limit", "TPM_RC_COMMAND_SIZE", False),
        (0x902, "error", "TPM_RC_OBJECT_MEMORY", True),
        (0x7FE, "error", "unknown response code 0x7fe", True),
    ],
)
def test_every_response_code_leads_to_a_row_and_ends_nothing(
    swtpm: Swtpm, tmp_path: Path, code: int, status: str, name: str, invalid: bool
) -> None:
    def refuse(command: bytes, forward: relay.Forward) -> bytes:
        wanted = CODES["TPM2_ECDH_KeyGen"]
        return relay.refusal(code) if relay.code_of(command) == wanted else forward(command)

    with relay.relay(swtpm.port, refuse) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent(
            "run", *FEW, *only("device-ecdh-p256-agree", "device-pcr-read"),
            "--output", str(agent.output),
        )  # fmt: skip
    assert done.returncode == (1 if invalid else 0), done.stderr
    refused, after = agent.document()["scenarios"]
    assert refused["operation"]["status"] == status
    assert refused["operation"]["response_code"] == f"{code:#x}"
    assert refused["operation"]["response_name"] == name
    assert refused["status"] == ("invalid" if invalid else "not-applicable")
    assert refused["arms"] == []
    assert after["status"] == "valid"
    if status == "unsupported":
        assert "ECDHE 256 agree not supported!" in done.stdout


@pytest.mark.parametrize(
    ("scenario", "command", "back"),
    [
        ("device-ecdsa-p256-sign", "TPM2_Sign", 8),
        ("device-aes-128-cfb-decrypt", "TPM2_EncryptDecrypt2", 200),
        ("device-sha256", "TPM2_SequenceComplete", 60),
        ("device-ecdh-p256-private", "TPM2_ECDH_ZGen", 60),
        ("device-rsa-2048-private", "TPM2_RSA_Decrypt", 40),
        ("device-hmac-sha256", "TPM2_HMAC", 20),
        ("device-quote", "TPM2_Quote", 12),
        ("device-nv-read", "TPM2_NV_Read", 12),
    ],
)
def test_a_wrong_answer_is_an_error(
    swtpm: Swtpm, tmp_path: Path, scenario: str, command: str, back: int
) -> None:
    def forge(sent: bytes, forward: relay.Forward) -> bytes:
        answer = bytearray(forward(sent))
        if relay.code_of(sent) == CODES[command] and answer[6:10] == bytes(4):
            answer[-back] ^= 1
        return bytes(answer)

    with relay.relay(swtpm.port, forge) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent("run", *FEW, *only(scenario), "--output", str(agent.output))
    assert done.returncode == 1, done.stdout
    (found,) = agent.document()["scenarios"]
    assert (found["status"], found["operation"]["status"]) == ("invalid", "error")
    assert "wrong answer" in found["reason"], found["reason"]


def test_a_transport_that_holds_back_is_named(swtpm: Swtpm, tmp_path: Path) -> None:
    names = ("device-rng", "device-pcr-read", "device-ecdsa-p256-sign", "device-sha256")
    measured = {CODES[name] for name in ("TPM2_GetRandom", "TPM2_PCR_Read", "TPM2_Sign",
        "TPM2_HashSequenceStart", "TPM2_SequenceUpdate", "TPM2_SequenceComplete")}  # fmt: skip

    def hold_back(command: bytes, forward: relay.Forward) -> bytes:
        until = time.monotonic() + 0.0397  # a quantum reaches from 38 to 47 ms
        answer = forward(command)
        if relay.code_of(command) in measured:
            time.sleep(max(0.0, until - time.monotonic()))
        return answer

    with relay.relay(swtpm.port, hold_back) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent("run", *FEW, *only(*names), "--output", str(agent.output))
    assert done.returncode == 1
    assert "transport-artefact" in {item["code"] for item in agent.document()["warnings"]}
    for item in agent.document()["scenarios"]:
        assert item["status"] == "invalid"
        assert "transport artefact: every command takes about 4" in item["reason"]
        assert "TCP_NODELAY" in item["reason"]
    assert "ops/sec" not in done.stdout
    assert "KB/s" not in done.stdout


def test_owner_auth_is_asked_for(swtpm: Swtpm, tmp_path: Path) -> None:
    tpm.set_owner_auth(swtpm.tcti, b"secret")
    agent = Agent(swtpm.tcti, tmp_path)
    done = agent("run", *FEW, *only("device-rng"))
    assert done.returncode == 3
    assert "--owner-auth-file" in sentence(done)
    secret = tmp_path / "owner"
    secret.write_bytes(b"secret\n")
    names = only("device-nv-write", "device-ecc-p256-primary", "device-object-load")
    document = agent.measure(*FEW, *names, "--owner-auth-file", str(secret))
    assert {item["status"] for item in document["scenarios"]} == {"valid"}


def test_a_full_store_of_persistent_keys_stops_no_device_suite(
    swtpm: Swtpm, tmp_path: Path
) -> None:
    assert tpm.fill_persistent(swtpm.tcti) > 0
    document = Agent(swtpm.tcti, tmp_path).measure(*FEW, *only("device-ecdsa-p256-sign"))
    assert document["scenarios"][0]["status"] == "valid"


def test_pcrs_in_use_are_left_alone(swtpm: Swtpm, tmp_path: Path) -> None:
    with tpm.esapi(swtpm.tcti) as esys:
        for number in (16, 23):
            esys.pcr_event(esys_pcr(number), b"somebody else's")
    before = things(swtpm.tcti)
    agent = Agent(swtpm.tcti, tmp_path)
    document = agent.measure(*FEW, *only("device-pcr-extend", "device-rng"))
    assert document["scenarios"][0]["operation"]["status"] == "blocked" or (
        document["scenarios"][1]["operation"]["status"] == "blocked"
    )
    assert things(swtpm.tcti) == before


def esys_pcr(number: int) -> Any:
    from tpm2_pytss import ESYS_TR

    return ESYS_TR(number)


LONG = (
    "device-sha256", "device-nv-write", "device-pcr-extend", "device-context-load",
    "device-ecc-p256-keygen",
)  # fmt: skip


def test_nothing_is_left_after_sigkill_and_the_next_start(swtpm: Swtpm, tmp_path: Path) -> None:
    agent = Agent(swtpm.tcti, tmp_path)
    before = things(swtpm.tcti)
    dirty = set()
    wanted = {"transient": 0, "loaded sessions": 0, "nv": 1, "pcrs": 2}  # by which of LONG
    for moment in range(60):
        missing = [index for what, index in wanted.items() if what not in dirty]
        if moment >= 14 and not missing:
            break
        # On a busy machine the first kills may all miss one of them.
        name = LONG[moment % len(LONG) if moment < 14 else missing[moment % len(missing)]]
        process = agent.start("run", *only(name), "--operations", "100000", "--metadata", "never")
        _await_journal(agent)
        time.sleep(0.02 + 0.06 * (moment % 14))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left = things(swtpm.tcti)
        dirty |= {what for what, found in left.items() if found != before[what]}
        # Between two operations there is nothing of ours, and nothing is written down.
        assert agent.journal_files() or left == before
        if moment % 2:
            assert agent("evict").returncode == 0
        else:
            agent.measure(*FEW, *only("device-pcr-read"))
        assert things(swtpm.tcti) == before
        assert agent.journal_files() == []
    assert set(wanted) <= dirty, "the kills met too little"


def _await_journal(agent: Agent) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if agent.journal_files():
            return
        time.sleep(0.005)
    raise AssertionError("the agent wrote nothing down")


def test_what_strangers_have_is_left_alone(swtpm: Swtpm, tmp_path: Path) -> None:
    """A sequence, a session, an NV index and a PCR of somebody else's survive our recovery."""
    agent = Agent(swtpm.tcti, tmp_path)
    process = agent.start(
        "run", *only("device-nv-write"), "--operations", "100000", "--metadata", "never"
    )
    _await_journal(agent)
    time.sleep(0.5)
    process.kill()
    process.communicate()
    with tpm.esapi(swtpm.tcti) as esys:
        esys.hash_sequence_start(b"", 0x000B)
        esys.pcr_event(esys_pcr(23), b"somebody else's")
    assert agent("evict").returncode == 0
    after = things(swtpm.tcti)
    assert len(after["transient"]) == 1
    assert any(after["pcrs"][1])
    assert after["nv"] == []
