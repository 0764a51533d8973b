"""What the guest does at each boot, run by a real shell with the two commands replaced."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.ec2_options import options

if TYPE_CHECKING:
    from pathlib import Path


class Guest:
    """A root file system and a PATH of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.end = root / "end"
        (root / "bin").mkdir()
        self.log = root / "log"
        self.program("shutdown", 0)

    def program(self, name: str, status: int) -> None:
        """Put a program there that writes down how it was called."""
        file = self.root / "bin" / name
        file.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.log}\nexit {status}\n')
        file.chmod(0o755)

    def boot(self, seconds: int) -> list[str]:
        """Run the command of the user data; what it called."""
        from ansible.module_utils.ec2_body import user_data

        text = user_data(options("snp", max_run_duration=seconds))
        (command,) = json.loads(text.partition("\n")[2])["bootcmd"]
        assert "/var/lib/tpm-fleet-bench.deadline" in command[2]
        moved = command[2].replace("/var/lib/tpm-fleet-bench.deadline", str(self.end))
        self.log.unlink(missing_ok=True)
        environment = os.environ | {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        subprocess.run([*command[:2], moved], env=environment, check=True, capture_output=True)
        return self.log.read_text().splitlines()


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def test_a_timer_ends_the_vm_and_is_not_put_off_by_a_reboot(guest: Guest) -> None:
    guest.program("systemd-run", 0)
    began = int(time.time())
    (called,) = guest.boot(7200)
    end = int(guest.end.read_text())
    assert began + 7200 <= end <= int(time.time()) + 7200
    seconds = int(called.partition("--on-active=")[2].partition("s")[0])
    assert 7200 - (time.time() - began) - 1 <= seconds <= 7200
    assert called.endswith("shutdown -P now")

    guest.end.write_text(str(int(time.time()) + 600))
    (called,) = guest.boot(7200)
    assert int(called.partition("--on-active=")[2].partition("s")[0]) <= 600


def test_a_vm_that_boots_after_its_end_goes_at_once(guest: Guest) -> None:
    guest.program("systemd-run", 0)
    guest.end.write_text("1000")
    (called,) = guest.boot(7200)
    assert "--on-active=1s" in called


def test_without_a_timer_shutdown_is_asked_in_minutes(guest: Guest) -> None:
    guest.program("systemd-run", 1)
    called = guest.boot(7200)
    assert called[-1] in ("shutdown -P +120", "shutdown -P +119")
