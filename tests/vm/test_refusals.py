"""What keeps a machine from being built or started, each in one sentence with its remedy."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import vm as virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _start(directory: Path, **given: Any) -> str:
    """Try to start a machine, which must fail; return the sentence."""
    arguments = {
        "name": "refused",
        "directory": str(directory),
        "image": str(directory),
        "port": virtual.free_port(),
    }
    (directory / "ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAA guest\n")
    return _refused("vm_machine", **{**arguments, **given})


def _refused(module: str, **arguments: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        virtual.module(module, **arguments)
    return str(caught.value)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_a_port_that_something_else_has(tmp_path: Path, taken: int) -> None:
    assert _start(tmp_path, port=taken) == (
        f"vm_machine: Port {taken} on 127.0.0.1 is in use by another program; "
        "choose another vm_host_port, in inventory/vm by another vm_first_port."
    )


def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    said = _start(deep)
    assert "is too long for a UNIX socket; choose a shorter vm_host_dir." in said


def test_a_program_that_is_not_installed(tmp_path: Path) -> None:
    assert _start(tmp_path, swtpm="no-such-swtpm") == (
        "vm_machine: no-such-swtpm is not installed here; the virtual machine needs it "
        "(Debian, Ubuntu: apt-get install swtpm)."
    )


def test_a_software_tpm_that_gives_up(short_dir: Path) -> None:
    broken = short_dir / "broken"
    broken.mkdir()
    program = broken / "swtpm"
    program.write_text("#!/bin/sh\necho no state for me >&2\nexit 1\n")
    program.chmod(0o755)
    assert _start(broken, swtpm=str(program)) == (
        "vm_machine: The machine refused did not start: swtpm says: no state for me."
    )


def test_a_machine_without_an_image_leaves_no_software_tpm_behind(short_dir: Path) -> None:
    empty = short_dir / "empty"
    empty.mkdir()
    said = _start(empty)
    assert said.startswith("vm_machine: The machine refused did not start: QEMU says: ")
    assert f"{empty}/root.squashfs" in said
    assert virtual.processes(empty) == []


def test_a_mirror_out_of_reach(tmp_path: Path) -> None:
    said = _refused(
        "vm_image",
        cache=str(tmp_path / "cache"),
        files=str(virtual.ROLE / "files"),
        packages=["sudo"],
        mirror="http://127.0.0.1:9/debian",
    )
    assert said.startswith("vm_image: The guest's image could not be built from Debian bookworm: ")
    assert said.endswith("Is a Debian mirror within reach?")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]
