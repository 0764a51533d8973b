"""The swtpm module knows its own processes, and no others."""

import socket
from pathlib import Path

import pytest

from plugins.modules import swtpm

STATE = Path("/var/lib/tpm-a")


def process(proc, pid, *words):
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cmdline").write_bytes("\0".join(words).encode() + b"\0")


def ours(directory=STATE, port=23210):
    return swtpm.command_line("/usr/bin/swtpm", directory, port)


def test_a_daemon_is_found_by_its_state_directory(tmp_path):
    process(tmp_path, 10, *ours(Path("/var/lib/tpm-b")))
    process(tmp_path, 11, *ours())
    (tmp_path / "self").mkdir()
    found = swtpm.find(STATE, tmp_path)
    assert found is not None
    assert found[0] == 11
    assert swtpm.serves(found[1], 23210)
    assert not swtpm.serves(found[1], 23211)


@pytest.mark.parametrize(
    "words",
    [
        ["/usr/bin/vi", f"dir={STATE}"],  # another program that names the directory
        ["/usr/bin/swtpm", "socket", "--tpmstate", f"dir={STATE}2"],  # a longer name
        ["/usr/bin/swtpm", "socket", "--tpmstate", "dir=/var/lib"],  # a parent
        [""],  # a zombie
    ],
)
def test_other_processes_are_strangers(tmp_path, words):
    process(tmp_path, 10, *words)
    assert swtpm.find(STATE, tmp_path) is None


def test_a_process_that_vanishes_while_we_look_is_passed_over(tmp_path):
    (tmp_path / "10").mkdir()  # without cmdline
    process(tmp_path, 11, *ours())
    found = swtpm.find(STATE, tmp_path)
    assert found is not None
    assert found[0] == 11


def test_a_listening_port_is_taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert swtpm.taken(port)
    assert not swtpm.taken(port)


def test_the_daemon_listens_on_loopback_only():
    listening = [word for word in ours() if word.startswith("type=tcp")]
    assert len(listening) == 2
    assert all(word.endswith("bindaddr=127.0.0.1") for word in listening)
