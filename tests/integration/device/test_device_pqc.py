"""The post-quantum rows against a TPM of version 1.85, and against one without."""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING, Any

import pytest

import tpmtls
from tests.support.agent import Agent
from tests.support.pqc_serving import serving
from tests.support.pqc_tpm import PqcTpm
from tpmbench.device.suite import Suite
from tpmbench.journal import Journal
from tpmbench.measuring import Settings
from tpmbench.pqc.operations import OPERATIONS
from tpmbench.sampling import Watch
from tpmbench.tpmkeys import Keyring, Owner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm

FEW = ("--operations", "3", "--warmup", "1", "--metadata", "never")
ALL = [part for item in OPERATIONS for part in ("--scenario", item.name)]


def only(*names: str) -> list[str]:
    return [part for name in names for part in ("--scenario", name)]


def by_name(agent: Agent) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in agent.document()["scenarios"]}


def test_every_row_runs_on_a_tpm_that_has_it(tmp_path: Path) -> None:
    machine = PqcTpm()
    with serving(machine) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent("run", *FEW, *ALL, "--output", str(agent.output), timeout=200)
    assert done.returncode == 0, done.stderr
    found = by_name(agent)
    assert len(found) == len(OPERATIONS) == 39
    ran = {name for name, item in found.items() if item["operation"]["status"] == "run"}
    lacking = {name for name in found if name.startswith("device-ml-kem-512")}
    assert ran == set(found) - lacking
    assert all(found[name]["operation"]["checked"] == 3 for name in ran)
    for name in lacking:
        assert found[name]["status"] == "not-applicable"
        assert "parameter sets" in found[name]["reason"]
    assert machine.objects == {}, "something was left in the TPM"
    assert set(range(0x1A3, 0x1AB)) <= set(machine.seen), "a command was never sent"
    assert "ML-DSA-65 sign " in done.stdout
    assert "ML-KEM-768 decapsulate" in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "device-ml-dsa-65-sign", "device-ml-dsa-44-sign-digest", "device-hash-ml-dsa-87-sign",
        "device-hash-ml-dsa-44-sign-digest", "device-ml-kem-768-decapsulate",
        "device-ml-kem-1024-encapsulate",
    ],
)  # fmt: skip
def test_a_wrong_answer_is_an_error(tmp_path: Path, name: str) -> None:
    machine = PqcTpm(forge=True)
    with serving(machine) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent("run", *FEW, *only(name), "--output", str(agent.output))
    assert done.returncode == 1
    (found,) = agent.document()["scenarios"]
    assert found["operation"]["status"] == "error"
    assert found["reason"].startswith("wrong answer: ")
    assert machine.objects == {}


def test_a_tpm_that_verifies_everything_is_found_out(tmp_path: Path) -> None:
    def gullible(command: bytes, response: bytes) -> bytes:
        if int.from_bytes(command[6:10]) == 0x1A5:
            return bytes.fromhex("8001 00000014 00000000 8027 40000001 000d 0000")
        return response

    with serving(PqcTpm(), gullible) as tcti:
        agent = Agent(tcti, tmp_path)
        done = agent(
            "run", *FEW, *only("device-ml-dsa-65-verify-digest"), "--output", str(agent.output)
        )
    assert done.returncode == 1
    (found,) = agent.document()["scenarios"]
    assert "verified a signature over something else" in found["reason"]


def test_a_tpm_without_them_has_a_row_for_each(swtpm: Swtpm, tmp_path: Path) -> None:
    agent = Agent(swtpm.tcti, tmp_path)
    agent.measure(*FEW, *ALL, *only("device-rng"))
    found = by_name(agent)
    assert found.pop("device-rng")["status"] == "valid"
    assert {item["operation"]["status"] for item in found.values()} == {"unsupported"}
    assert all(item["reason"] for item in found.values())


class Narrow:
    """A channel that does not take long responses, as a device with a small buffer."""

    def __init__(self, channel: Any, most: int) -> None:
        self._channel = channel
        self._most = most

    def send(self, command: bytes) -> None:
        self._channel.send(command)

    def receive(self, timeout: float) -> bytes:
        response = self._channel.receive(timeout)
        if len(response) > self._most:
            raise OSError(errno.EIO, "Input/output error")
        return bytes(response)

    def close(self) -> None:
        self._channel.close()


class Silent:
    """Neither asks for an end nor writes."""

    def check(self) -> None: ...
    def say(self, text: str) -> None: ...
    def begin(self, title: str) -> None: ...
    def step(self, done: int, total: int) -> None: ...
    def end(self) -> None: ...


def test_a_response_that_does_not_fit_is_a_transport_limit(tmp_path: Path) -> None:
    """A CRB buffer of 3968 bytes carries ML-DSA-65's signature, and not ML-DSA-87's."""
    machine = PqcTpm()
    names = {f"device-ml-dsa-{size}-sign-digest" for size in ("65", "87")}
    chosen = [item for item in OPERATIONS if item.name in names]
    with serving(machine) as tcti, tpmtls.connect(tcti) as transport:
        transport.channel = Narrow(transport.channel, 3968)
        keyring = Keyring(transport, Journal(tmp_path), Owner(), None)
        settings = Settings(1, 1, 1, 1, 10.0, operations=3)
        silent: Any = Silent()
        suite = Suite(transport, keyring, settings, random.Random(1), Watch(silent, silent))
        found: list[dict[str, Any]] = []
        suite.measure(chosen, found)
    assert [item["operation"]["status"] for item in found] == ["run", "transport-limit"]
    assert found[1]["status"] == "not-applicable"
    assert machine.objects == {}


def test_a_killed_runs_keys_and_sequences_are_found_again(tmp_path: Path) -> None:
    """The peer keeps what is loaded, and the TSS does not know these objects."""
    machine = PqcTpm()
    with serving(machine) as tcti:
        agent = Agent(tcti, tmp_path)
        process = agent.start(
            "run", *only("device-ml-dsa-44-sign"), "--operations", "100000", "--metadata", "never"
        )
        for line in process.stderr or ():
            if "ml-dsa" in line:
                break
        while len(machine.objects) < 2 and process.poll() is None:
            pass
        process.kill()
        process.communicate()
        assert machine.objects
        done = agent("evict")
    assert done.returncode == 0, done.stderr
    assert machine.objects == {}
    assert agent.journal_files() == []
