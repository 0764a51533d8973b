"""A virtual machine for these tests, booted once, beside any that a user runs."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import vm as virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent
_MISSING = virtual.missing()
# The first one builds the image, and a boot on a busy machine takes its time.
_SECONDS = 1200


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
def vm(short_dir: Path) -> Iterator[virtual.Machine]:
    """The machine, started by the role on the project's own inventory."""
    machine = virtual.Machine(short_dir / "vm-a")
    try:
        played = machine.play(_HERE / "role.yml")
        assert played.returncode == 0, played.stdout + played.stderr
        machine.start()
        yield machine
    finally:
        machine.remove()


@pytest.fixture(scope="session")
def document(vm: virtual.Machine) -> dict[str, Any]:
    """What the agent measured there, as an unprivileged user in group tss."""
    done = vm.agent(
        "run", "--curve", "p256", "--scenario", "raw-signing", "--scenario", "loaded-transport",
        "--scenario", "handshake-new", "--signatures", "4", "--connections", "2", "--warmup", "1",
        "--deadline", "60", "--metadata", "never", "--command-counter", "tpm-commands",
        "--state-dir", "/tmp/state", "--output", "/tmp/result.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured: dict[str, Any] = json.loads(vm.ssh("cat /tmp/result.json"))
    return measured
