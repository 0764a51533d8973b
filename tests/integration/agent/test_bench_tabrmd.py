"""tpm2-abrmd as the way to the TPM: a resource manager that swaps only what a command names.

So what the kernel's manager does to a key beside an unrelated object (tests/vm) is the kernel's
doing and not the TPM's.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from tests.support import swtpm as software_tpm
from tests.support import tpm
from tests.support.agent import SOURCE, Agent, sentence, wait_for_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.swtpm import Handles, Swtpm

SCHEMA = Path(__file__).resolve().parents[3] / "schema" / "result.schema.json"
TCTI = "tabrmd:bus_type=session"
SIGNATURES = 5
CONNECTIONS = 2
MADE = {"handshake-new": CONNECTIONS, "connection-reused": 1}
START_SECONDS = 30


def _missing() -> list[str]:
    missing = [name for name in ("tpm2-abrmd", "dbus-daemon") if shutil.which(name) is None]
    try:
        ctypes.CDLL("libtss2-tcti-tabrmd.so.0")
    except OSError:
        missing.append("libtss2-tcti-tabrmd")
    return missing


_MISSING = _missing()
pytestmark = [
    pytest.mark.swtpm,
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed here: {', '.join(_MISSING)}"),
]


class Bus:
    """A D-Bus session of the test's own, with tpm2-abrmd on it."""

    def __init__(self, directory: Path, way: str) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        bus = self._start(["dbus-daemon", "--session", "--nofork", "--print-address"], {})
        assert bus.stdout is not None
        self.environment = {"DBUS_SESSION_BUS_ADDRESS": bus.stdout.readline().strip()}
        self._log = directory / "abrmd.log"
        root = ["--allow-root"] if os.geteuid() == 0 else []
        with self._log.open("w") as log:
            self._start(
                ["tpm2-abrmd", "--session", "--logger=stdout", *root, f"--tcti={way}"],
                self.environment | {"G_MESSAGES_DEBUG": "all"},
                log,
            )

    def _start(
        self, command: list[str], environment: dict[str, str], output: Any = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL if output is subprocess.PIPE else output,
            env={**os.environ, **environment},
            text=True,
        )
        self._processes.append(process)
        return process

    def wait(self) -> None:
        """Wait until the daemon has its name on the bus."""
        question = [
            "dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/",
            "org.freedesktop.DBus.NameHasOwner", "string:com.intel.tss2.Tabrmd",
        ]  # fmt: skip
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            said = subprocess.run(
                question,
                capture_output=True,
                text=True,
                env={**os.environ, **self.environment},
                check=False,
            )
            if "boolean true" in said.stdout:
                return
            assert self._processes[-1].poll() is None, self._log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"tpm2-abrmd is not on the bus: {self._log.read_text()}")

    def kill_the_manager(self) -> None:
        """End tpm2-abrmd without a chance to tidy up."""
        self._processes[-1].kill()
        self._processes[-1].wait()

    def stop(self) -> None:
        """End both."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Measured:
    """A run over tpm2-abrmd, and the TPM before and after it."""

    def __init__(self, directory: Path, swtpm: Swtpm) -> None:
        tpm.put_key(swtpm.tcti, 0x81000004)
        self.before: Handles = swtpm.handles()
        bus = Bus(directory, swtpm.tcti)
        try:
            bus.wait()
            agent = Agent(TCTI, directory)
            self.done = agent(
                "run", "--curve", "p256", "--scenario", "raw-signing", "--scenario",
                "loaded-transport", "--scenario", "handshake-new", "--scenario",
                "connection-reused", "--signatures", str(SIGNATURES),
                "--connections", str(CONNECTIONS), "--warmup", "1", "--metadata", "never",
                "--command-counter", f"grep -c SWTPM_IO_Read {directory}/tpm/swtpm.log",
                "--output", str(agent.output),
                env={**os.environ, **bus.environment, "PYTHONPATH": str(SOURCE)},
            )  # fmt: skip
        finally:
            bus.stop()
        self.after: Handles = swtpm.handles()
        assert self.done.returncode == 0, self.done.stderr
        self.document: dict[str, Any] = agent.document()

    def arms(self, name: str) -> dict[str, Any]:
        """Return a scenario's arms by name."""
        (found,) = [item for item in self.document["scenarios"] if item["name"] == name]
        assert (found["status"], found["reason"]) == ("valid", None)
        return {arm["name"]: arm for arm in found["arms"]}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    directory = tmp_path_factory.mktemp("tabrmd")
    swtpm = software_tpm.Swtpm(directory / "tpm", log_level=20)
    swtpm.start()
    try:
        yield Measured(directory, swtpm)
    finally:
        swtpm.stop()


def test_it_measures_and_the_document_follows_the_schema(measured: Measured) -> None:
    validator = jsonschema_rs.validator_for(SCHEMA.read_text())
    assert [str(error) for error in validator.iter_errors(measured.document)] == []


def test_it_is_recognised_as_a_resource_manager(measured: Measured) -> None:
    assert measured.document["tpm"]["tcti"] == TCTI
    assert measured.document["tpm"]["resource_manager"] == "tabrmd"


@pytest.mark.parametrize(
    ("scenario", "arm", "per_signature"),
    [
        ("raw-signing", "tpm-persistent", 1),
        ("raw-signing", "floor", 1),
        ("raw-signing", "tpm-transient", 4),
        ("handshake-new", "tpm-persistent", 1),
        ("connection-reused", "tpm-persistent", 1),
        # Unlike the kernel's, it leaves alone what the command does not name.
        ("loaded-transport", "nothing-loaded", 1),
        ("loaded-transport", "same-transport", 1),
        ("loaded-transport", "same-transport-2-objects", 1),
        ("loaded-transport", "same-transport-3-objects", 1),
        ("loaded-transport", "same-transport-hmac-session", 1),
        ("loaded-transport", "other-transport", 1),
    ],
)
def test_commands_per_signature(
    measured: Measured, scenario: str, arm: str, per_signature: int
) -> None:
    found = measured.arms(scenario)[arm]
    signatures = found["signatures"]["transport"]
    assert signatures == MADE.get(scenario, SIGNATURES)
    assert found["tpm_commands"] == signatures
    assert found["tpm_commands_behind_manager"] == per_signature * signatures


def test_the_tpm_is_as_it_was(measured: Measured) -> None:
    assert len(measured.before.persistent) == 1
    assert measured.after == measured.before


def test_a_manager_that_is_killed_ends_the_run_in_a_sentence(tmp_path: Path) -> None:
    swtpm = software_tpm.Swtpm(tmp_path / "tpm")
    swtpm.start()
    bus = Bus(tmp_path, swtpm.tcti)
    try:
        bus.wait()
        agent = Agent(TCTI, tmp_path)
        process = agent.start(
            "run", "--curve", "p256", "--scenario", "raw-signing", "--signatures", "1000000",
            "--metadata", "never", "--output", str(agent.output),
            env={**os.environ, **bus.environment, "PYTHONPATH": str(SOURCE)},
        )  # fmt: skip
        wait_for_line(process, "p256 raw-signing")
        bus.kill_the_manager()
        out, error = process.communicate(timeout=120)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, error)
        assert done.returncode == 4
        assert "0x817ff000 could not be removed" in sentence(done)
        assert f"{TCTI} broke during" in agent.document()["scenarios"][0]["reason"]
        evicted = agent("evict", "--tcti", swtpm.tcti)
        assert evicted.returncode == 0, evicted.stderr
        after = swtpm.handles()
        assert (after.persistent, after.transient) == (frozenset(), frozenset())
        assert agent.journal_files() == []
    finally:
        bus.stop()
        swtpm.stop()
