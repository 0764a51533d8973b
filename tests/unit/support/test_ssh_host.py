"""Hosts of the tests that are reached by SSH."""

from __future__ import annotations

import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import ssh_host

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(bool(ssh_host.missing()), reason=ssh_host.missing())
def test_a_session_is_at_home_in_the_host_and_reads_nothing_of_the_users(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    host = ssh_host.SshHost(tmp_path / "host", port, ssh_host.make_key(tmp_path / "key"))
    (host.home / ".bashrc").write_text("echo its own\n")
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {host.host_key}\n")
    host.start()
    try:
        said = subprocess.check_output(
            [
                "ssh", "-F", "none", "-i", tmp_path / "key", "-p", str(port),
                "-o", f"UserKnownHostsFile={tmp_path / 'known'}", "127.0.0.1", "cd && pwd",
            ],
            text=True,
        )  # fmt: skip
    finally:
        host.stop()
    # Which file a shell reads is its own affair; that it is none but this one is ours.
    assert said.splitlines()[-1] == str(host.home)
    assert set(said.splitlines()[:-1]) <= {"its own"}


@pytest.mark.skipif(bool(ssh_host.missing()), reason=ssh_host.missing())
def test_a_port_is_kept_for_a_host_also_while_it_does_not_run(tmp_path: Path) -> None:
    host = ssh_host.SshHost(tmp_path / "host", 0, ssh_host.make_key(tmp_path / "key"))
    for _ in range(2):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", host.port))
        host.start()
        assert host.running
        host.stop()
    host.close()
