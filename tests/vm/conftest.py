"""A virtual machine for these tests, beside any that a user runs, and a whole run on it."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support import vm as virtual

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

_HERE = Path(__file__).parent
_MISSING = virtual.missing()
# The first one builds the image, and a boot on a busy machine takes its time.
_SECONDS = 3600
RUN = "whole-run"
STATE = "/var/lib/tpm-tls-bench"
SIGNATURES, CONNECTIONS = 4, 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and skip them where there can be no machine."""
    for item in items:
        if _HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.vm)
            item.add_marker(pytest.mark.timeout(_SECONDS))
            if _MISSING:
                item.add_marker(
                    pytest.mark.skip(reason=f"not installed here: {', '.join(_MISSING)}")
                )


@pytest.fixture(scope="session")
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for UNIX sockets."""
    directory = Path(tempfile.mkdtemp(prefix="tpm-vm-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def machine(short_dir: Path) -> Iterator[virtual.Machine]:
    """The machine, first started by the role on the project's own inventory."""
    machine = virtual.Machine(short_dir / "vm-a")
    try:
        played = machine.play(_HERE / "role.yml")
        assert played.returncode == 0, played.stdout + played.stderr
        machine.start()
        yield machine
    finally:
        machine.remove()


@pytest.fixture(scope="module")
def vm(machine: virtual.Machine) -> virtual.Machine:
    """The machine, started again if the tests before have left it stopped."""
    if not machine.processes():
        machine.start()
    return machine


class WholeRun(NamedTuple):
    """What `run.yml` left, on both sides."""

    played: subprocess.CompletedProcess[str]
    results: Path
    report: Path
    handles: tuple[dict[str, list[str]], dict[str, list[str]]]
    """The TPM's, before and after."""
    owners: str
    """Owner, group, mode and path of the directories on the host."""
    files: str
    """Those that are left in the state directory."""


@pytest.fixture(scope="session")
def whole_run(machine: virtual.Machine, short_dir: Path) -> WholeRun:
    """One whole run as a user's, over SSH and with sudo, of what shows the kernel's part."""
    if not machine.processes():
        machine.start()
    before = machine.handles()
    played = machine.play(
        Path("playbooks/run.yml"),
        run_id=RUN,
        bench_run_results_dir=str(short_dir / "results"),
        bench_report_dir=str(short_dir / "report"),
        bench_run_scenarios=["raw-signing", "loaded-transport", "handshake-new"],
        bench_run_signatures=SIGNATURES,
        bench_run_connections=CONNECTIONS,
        bench_run_deadline=60,
        bench_run_poll=20,  # each look costs the emulated processor as much as a few signatures
    )
    assert played.returncode == 0, played.stdout + played.stderr
    return WholeRun(
        played,
        short_dir / "results" / RUN,
        short_dir / "report",
        (before, machine.handles()),
        machine.ssh(f"sudo stat -c '%U:%G %a %n' /opt/tpm-tls-bench {STATE} {STATE}/journal"),
        machine.ssh(f"sudo find {STATE} -type f"),
    )


@pytest.fixture(scope="session")
def document(whole_run: WholeRun) -> dict[str, Any]:
    """The result document of the whole run."""
    measured: dict[str, Any] = json.loads((whole_run.results / "vm-a.json").read_text())
    return measured
