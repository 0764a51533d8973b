"""A device on which putting an object in and taking it out costs more than signing, as on clouds.

The times are made up; what is proved is that the harness would see the effect, and that the
result is marked as a simulation everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.vm import TREE, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parents[1] / "support" / "slow_tpm.c"

# In microseconds by command code. A signature takes 60 ms, so that what the emulated processor adds
# and a busy machine varies is small beside it; nine times as much goes to Load, Save and Flush.
SLOWED = {"15d": 60_000, "161": 255_000, "162": 255_000, "165": 30_000}
ABOUT_TEN = (5, 20)
ABOUT_ONE = (0.5, 1.5)


@pytest.fixture(scope="module")
def slow_swtpm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed here; it compiles the slowed device")
    directory = tmp_path_factory.mktemp("slow")
    library, program = directory / "slow_tpm.so", directory / "slow-swtpm"
    subprocess.run(
        ["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"],
        check=True,
    )
    slowed = ",".join(f"{code}={pause}" for code, pause in SLOWED.items())
    program.write_text(
        f"#!/bin/sh\nexec env LD_PRELOAD='{library}' SLOW_TPM='{slowed}' swtpm \"$@\"\n"
    )
    program.chmod(0o755)
    return program


class Measured(NamedTuple):
    """What a machine whose TPM is slowed says, and the machine."""

    document: dict[str, Any]
    text: str
    machine: Machine


@pytest.fixture(scope="module")
def measured(short_dir: Path, slow_swtpm: Path) -> Iterator[Measured]:
    machine = Machine(short_dir / "slow", swtpm=str(slow_swtpm))
    try:
        machine.start()
        done = machine.agent(
            "run", "--curve", "p256", "--scenario", "raw-signing", "--scenario", "loaded-transport",
            "--signatures", "5", "--block", "5", "--warmup", "1", "--deadline", "60",
            "--metadata", "never", "--simulated-device", "--state-dir", "/tmp/state",
            "--output", "/tmp/result.json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield Measured(json.loads(machine.ssh("cat /tmp/result.json")), done.stdout, machine)
    finally:
        machine.remove()


def _median(document: dict[str, Any], scenario: str, arm: str) -> float:
    (found,) = [item for item in document["scenarios"] if item["name"] == scenario]
    assert (found["status"], found["reason"]) == ("valid", None)
    (samples,) = [item["samples_ns"] for item in found["arms"] if item["name"] == arm]
    assert len(samples) == 5
    return statistics.median(samples)


@pytest.mark.parametrize(
    ("scenario", "arm", "against", "band"),
    [
        ("raw-signing", "tpm-transient", "tpm-persistent", ABOUT_TEN),
        ("loaded-transport", "same-transport", "nothing-loaded", ABOUT_TEN),
        ("loaded-transport", "other-transport", "nothing-loaded", ABOUT_ONE),
    ],
)
def test_ratios(
    measured: Measured,
    scenario: str,
    arm: str,
    against: str,
    band: tuple[float, float],
) -> None:
    document = measured.document
    ratio = _median(document, scenario, arm) / _median(document, scenario, against)
    low, high = band
    assert low < ratio < high


def test_the_slowed_command_is_in_every_sample(measured: Measured) -> None:
    (raw,) = [item for item in measured.document["scenarios"] if item["name"] == "raw-signing"]
    for arm in raw["arms"]:
        fastest = min(arm["samples_ns"])
        slowed = SLOWED["15d"] * 1000 if arm["name"] != "software" else 0
        assert fastest > slowed, arm["name"]


def test_it_is_marked_as_a_simulation(measured: Measured, tmp_path: Path) -> None:
    assert measured.document["tpm"]["simulated_device"] is True
    assert "This is a simulated device: its times are not a TPM's." in measured.text.splitlines()
    (tmp_path / "result.json").write_text(json.dumps(measured.document))
    subprocess.run(
        [sys.executable, "-m", "collector", "report", tmp_path / "result.json",
         "--output", tmp_path / "report"],
        cwd=TREE,
        check=True,
    )  # fmt: skip
    for name in ("index.html", "report.md", "report.txt"):
        assert "slowed on purpose" in (tmp_path / "report" / name).read_text().lower(), name


def test_a_software_tpm_goes_with_its_machine(measured: Measured) -> None:
    # On this machine, which nothing comes after: another would have to boot again.
    machine = measured.machine
    machine.close_connections()
    assert machine.programs() == ["qemu-system-x86_64", "swtpm"]
    os.kill(int((machine.directory / "qemu.pid").read_text()), signal.SIGKILL)
    until = time.monotonic() + 60
    while machine.processes() and time.monotonic() < until:
        time.sleep(0.1)
    assert machine.processes() == []
