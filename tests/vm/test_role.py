"""The role vm_host on the inventory vm, and what it starts on this machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.vm import Machine

PLAYBOOK = Path(__file__).parent / "role.yml"


def test_a_second_play_changes_nothing(vm: Machine) -> None:
    vm.close_connections()  # so that what is compared is the machine alone
    before = vm.processes()
    played = vm.play(PLAYBOOK)
    assert played.returncode == 0, played.stdout
    (recap,) = re.findall(r"^vm-a +: (.*)$", played.stdout, re.MULTILINE)
    assert "changed=0" in recap.split()
    assert vm.processes() == before


def test_the_devices_are_those_of_a_real_kernel(vm: Machine) -> None:
    listed = vm.ssh("stat -c '%n %F %U %G %a' /dev/tpm0 /dev/tpmrm0; uname -r").splitlines()
    assert listed[:2] == [
        "/dev/tpm0 character special file tss root 660",
        "/dev/tpmrm0 character special file root tss 660",
    ]
    assert re.fullmatch(r"6[.]1[.].*-cloud-amd64", listed[2])


def test_only_loopback_leads_in_and_nothing_leads_out(vm: Machine) -> None:
    listening = [
        line.split()
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A"  # TCP_LISTEN
    ]
    port = re.search(r"Port (\d+)", (vm.directory / "ssh_config").read_text())
    assert port
    addresses = {words[1] for words in listening if int(words[1].split(":")[1], 16) == int(port[1])}
    assert addresses == {f"0100007F:{int(port[1]):04X}"}
    # 10.0.2.2 is the control node as QEMU's network shows it, were it not restricted.
    done = vm.run(f"busybox nc -w 3 10.0.2.2 {port[1]} </dev/null")
    assert (done.returncode, done.stdout) == (1, "")


def test_the_host_key_is_the_images_own_and_is_checked(vm: Machine, tmp_path: Path) -> None:
    known = vm.directory / "known_hosts"
    right = known.read_text()
    in_the_guest = vm.ssh("sudo ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key")
    assert right.split()[1:3] == in_the_guest.split()[:2]
    # A machine with another key is refused, although nothing else is wrong.
    host, algorithm, _ = right.split()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True
    )
    other = (tmp_path / "key.pub").read_text().split()[1]
    (tmp_path / "known_hosts").write_text(f"{host} {algorithm} {other}\n")
    for file, status in ((known, 0), (tmp_path / "known_hosts", 255)):
        done = subprocess.run(
            ["ssh", "-F", vm.directory / "ssh_config", "-o", "ControlPath=none",
             "-o", f"UserKnownHostsFile={file}", vm.name, "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
    assert "Host key verification failed" in done.stderr
