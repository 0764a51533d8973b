"""A whole run against swtpm: its document, its counts, and what it leaves in the TPM."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from tests.support import swtpm as software_tpm
from tests.support import tpm
from tests.support.agent import QUICK, Agent, only

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.swtpm import Handles, Swtpm

SCHEMA = Path(__file__).resolve().parents[3] / "schema" / "result.schema.json"
SCENARIOS = (
    "raw-signing",
    "loaded-transport",
    "handshake-new",
    "handshake-resumed",
    "connection-reused",
    "handshake-server-key",
)
TPM_ARMS = {"tpm-persistent", "tpm-transient", "floor"}


class Whole:
    """A run of both curves at 50 connections, beside another program's objects."""

    def __init__(self, software: Swtpm, directory: Path) -> None:
        self.tpm = software
        tpm.put_key(self.tpm.tcti, 0x81000004)
        with tpm.esapi(self.tpm.tcti) as esys:
            tpm.make_key(esys, seed=b"a stranger's")
        self.before: Handles = self.tpm.handles()
        self.agent = Agent(self.tpm.tcti, directory)
        self.done = self.agent(
            "run", "--signatures", "12", "--connections", "50", "--warmup", "2", "--seed", "7",
            "--run-id", "r1", "--host", "h1", "--metadata", "never",
            "--output", str(self.agent.output), *only(*SCENARIOS),
        )  # fmt: skip
        self.after = self.tpm.handles()
        self.document: dict[str, Any] = self.agent.document()

    def scenario(self, name: str, curve: str) -> dict[str, Any]:
        """Return one scenario of the document."""
        (found,) = [
            item
            for item in self.document["scenarios"]
            if (item["name"], item["curve"]) == (name, curve)
        ]
        scenario: dict[str, Any] = found
        return scenario

    def arm(self, scenario: str, curve: str, arm: str) -> dict[str, Any]:
        """Return one arm of a scenario."""
        return {item["name"]: item for item in self.scenario(scenario, curve)["arms"]}[arm]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    directory = tmp_path_factory.mktemp("whole")
    with software_tpm.running(directory / "tpm") as software:
        yield Whole(software, directory)


pytestmark = pytest.mark.swtpm


def test_it_measures_and_the_document_follows_the_schema(whole: Whole) -> None:
    assert whole.done.returncode == 0, whole.done.stderr
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text()))
    assert [str(error) for error in validator.iter_errors(whole.document)] == []


def test_the_tpm_is_as_it_was(whole: Whole) -> None:
    assert len(whole.before.persistent) == len(whole.before.transient) == 1
    assert whole.after == whole.before
    assert whole.agent.journal_files() == []


def test_the_document_repeats_what_was_asked_for(whole: Whole) -> None:
    document = whole.document
    assert (document["run_id"], document["host"]) == ("r1", "h1")
    settings = {
        key: document["settings"][key]
        for key in ("signatures", "connections", "warmup", "seed", "curves", "handle")
    }
    assert settings == {
        "signatures": 12,
        "connections": 50,
        "warmup": 2,
        "seed": 7,
        "curves": ["p256", "p384", "mldsa65"],
        "handle": "auto",
    }
    assert document["tpm"]["tcti"] == whole.tpm.tcti
    assert document["tpm"]["resource_manager"] == "none"
    assert document["started_at"] <= document["finished_at"]


def test_a_software_tpm_outside_any_tee_is_recognised(whole: Whole) -> None:
    assert whole.document["platform"]["tpm_location"] == "software"
    assert "This is a software TPM" in whole.done.stdout


def test_keys_are_made_in_the_tpm_at_the_first_free_handle(whole: Whole) -> None:
    keys = whole.document["keys"]
    assert [key["curve"] for key in keys] == ["p256", "p384"]
    assert {key["handle"] for key in keys} == {"0x817ff000"}
    assert all(key["non_exportable"] and key["generated_in_tpm"] for key in keys)
    names = {key["name"] for key in keys}
    assert len(names) == 2
    assert all(len(bytes.fromhex(name)) == 2 + 32 for name in names)  # SHA-256 Names


@pytest.mark.parametrize("curve", ["p256", "p384"])
@pytest.mark.parametrize(
    ("scenario", "signatures", "resumed"),
    [
        ("handshake-new", 50, 0),
        ("handshake-resumed", 1, 49),
        ("connection-reused", 1, 0),
        ("handshake-server-key", 50, 0),
    ],
)
def test_connections_take_50_1_and_1_signatures(
    whole: Whole, curve: str, scenario: str, signatures: int, resumed: int
) -> None:
    counts = {
        arm["name"]: (arm["signatures"], arm["resumed"], len(arm["samples_ns"]))
        for arm in whole.scenario(scenario, curve)["arms"]
    }
    everywhere = {"signer": signatures, "transport": signatures, "peer": signatures}
    assert counts == {
        "tpm-persistent": (everywhere, resumed, 50),
        "software": (everywhere | {"transport": None}, resumed, 50),
        "software-native": (
            {"signer": None, "transport": None, "peer": signatures},
            resumed,
            50,
        ),
    }


@pytest.mark.parametrize("curve", ["p256", "p384"])
def test_raw_signing_has_four_arms_of_twelve(whole: Whole, curve: str) -> None:
    arms = {arm["name"]: arm for arm in whole.scenario("raw-signing", curve)["arms"]}
    assert set(arms) == TPM_ARMS | {"software"}
    for name, arm in arms.items():
        assert len(arm["samples_ns"]) == 12
        assert len(arm["warmup_ns"]) == 2
        assert arm["signatures"] == {
            "signer": None if name == "floor" else 12,
            "transport": 12 if name in TPM_ARMS else None,
            "peer": 12,
        }
        assert arm["resumed"] is None


@pytest.mark.parametrize("curve", ["p256", "p384"])
def test_nothing_but_signing_goes_over_the_transport(whole: Whole, curve: str) -> None:
    commands = {
        (scenario["name"], arm["name"]): arm["tpm_commands"]
        for scenario in whole.document["scenarios"]
        for arm in scenario["arms"]
        if scenario["curve"] == curve
    }
    assert {key: count for key, count in commands.items() if count is not None} == {
        ("raw-signing", "tpm-persistent"): 12,
        ("raw-signing", "tpm-transient"): 12,
        ("raw-signing", "floor"): 12,
        ("handshake-new", "tpm-persistent"): 50,
        ("handshake-resumed", "tpm-persistent"): 1,
        ("connection-reused", "tpm-persistent"): 1,
        ("handshake-server-key", "tpm-persistent"): 50,
    }


@pytest.mark.parametrize("curve", ["p256", "p384"])
def test_without_a_resource_manager_there_is_no_loaded_transport(whole: Whole, curve: str) -> None:
    scenario = whole.scenario("loaded-transport", curve)
    assert scenario["status"] == "not-applicable"
    assert scenario["reason"] == "no resource manager on this transport"
    assert scenario["arms"] == []
    assert "  not applicable: no resource manager on this transport\n" in whole.done.stdout


def test_the_reused_connections_opening_is_kept_apart(whole: Whole) -> None:
    arm = whole.arm("connection-reused", "p256", "tpm-persistent")
    (setup,) = arm["setup_ns"]
    assert setup > max(1_000, sorted(arm["samples_ns"])[25])


def test_arms_take_turns_in_an_order_drawn_from_the_seed(whole: Whole, tmp_path: Path) -> None:
    turns = {(item["name"], item["curve"]): item["turns"] for item in whole.document["scenarios"]}
    new = turns["handshake-new", "p256"]
    assert [new.count(name) for name in sorted(set(new))] == [5, 5, 5]
    again = Agent(whole.tpm.tcti, tmp_path)
    document = again.measure(
        "--scenario", "raw-signing", "--curve", "p256", "--signatures", "12", "--warmup", "0",
        "--seed", "7", "--metadata", "never",
    )  # fmt: skip
    assert document["scenarios"][0]["turns"] == turns["raw-signing", "p256"]


def test_show_prints_what_the_run_printed(whole: Whole) -> None:
    shown = whole.agent("show", str(whole.agent.output))
    assert (shown.returncode, shown.stdout) == (0, whole.done.stdout)


def test_memory_stays_under_120_mb(whole: Whole) -> None:
    peak = whole.document["system"]["peak_memory_bytes"]
    assert 40_000_000 < peak < 120_000_000


def test_a_handle_can_be_named(agent: Agent, swtpm: Swtpm) -> None:
    document = agent.measure(*QUICK, "--handle", "0x81000004", "--scenario", "raw-signing")
    assert document["settings"]["handle"] == document["keys"][0]["handle"] == "0x81000004"
    assert swtpm.handles() == (frozenset(), frozenset())


def test_auto_passes_over_taken_handles(agent: Agent, swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, 0x817FF000)
    tpm.put_key(swtpm.tcti, 0x817FF002)
    document = agent.measure(*QUICK, "--scenario", "raw-signing")
    assert document["keys"][0]["handle"] == "0x817ff001"


def test_two_runs_have_different_keys(agent: Agent) -> None:
    options = (*QUICK, "--scenario", "raw-signing", "--seed", "1")
    names = {agent.measure(*options)["keys"][0]["name"] for _ in range(2)}
    assert len(names) == 2


def test_p521_is_measured_where_the_tpm_has_it_and_named_where_not(agent: Agent) -> None:
    document = agent.measure(
        "--curve", "p521", "--curve", "p256", *QUICK[2:], "--scenario", "raw-signing"
    )
    status = {item["curve"]: (item["status"], item["reason"]) for item in document["scenarios"]}
    assert status["p256"] == ("valid", None)
    if "p521" in document["tpm"]["curves"]:
        assert status["p521"] == ("valid", None)
    else:
        assert status["p521"] == ("not-applicable", "the TPM does not have curve p521")


@pytest.mark.skipif(os.geteuid() == 0, reason="the point is to be someone else than root")
def test_it_needs_no_root(agent: Agent) -> None:
    assert agent("run", *QUICK, "--scenario", "raw-signing").returncode == 0
