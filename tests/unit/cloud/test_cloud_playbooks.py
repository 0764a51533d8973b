"""What the playbooks and inventories of clouds refuse or insist on before anything is sent."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.compute_double import ComputeDouble

if TYPE_CHECKING:
    from collections.abc import Iterator

TREE = Path(__file__).resolve().parents[3]
BESIDE = Path(sys.executable).parent
ENVIRONMENT = {
    "ANSIBLE_CONFIG": str(TREE / "ansible.cfg"),
    "ANSIBLE_LOCALHOST_WARNING": "False",
    "AWS_REGION": "eu-west-1",
    "COLUMNS": "1000",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "PATH": os.environ["PATH"],
}
# What each host is given, and what is said about it.
SWEEPS: dict[str, tuple[dict[str, Any], str]] = {
    "no-project": ({"confidential_vm_project": ""}, "confidential_vm_project must be the id"),
    "no-token": (
        {"confidential_vm_auth_kind": "access_token", "confidential_vm_access_token": ""},
        "confidential_vm_access_token is empty",
    ),
    "empty-fleet": ({"sweep_fleet": ""}, "sweep_fleet is empty; leave it out"),
    "null-fleet": ({"sweep_fleet": None}, "sweep_fleet is empty; leave it out"),
    "every-fleet": ({"sweep_fleet": "*"}, "sweep_fleet is not the name of a fleet: '*'"),
    "injected": ({"sweep_fleet": "x OR labels.a:*"}, "sweep_fleet is not the name of a fleet"),
    "empty-age": ({"sweep_min_age": ""}, "sweep_min_age must be seconds, 0 or more, not ''"),
    "null-age": ({"sweep_min_age": None}, "sweep_min_age must be seconds, 0 or more"),
    "negative": ({"sweep_min_age": -1}, "sweep_min_age must be seconds, 0 or more, not '-1'"),
    "words": ({"sweep_min_age": "2h"}, "sweep_min_age must be seconds, 0 or more, not '2h'"),
}


def ansible(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BESIDE / program, *arguments],
        cwd=TREE,
        env=ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_sweep_refuses_what_would_take_more_than_was_meant(tmp_path: Path) -> None:
    """``-e sweep_fleet=$UNSET`` and a variable file with nothing behind the colon among them."""
    hosts = {
        name: {"confidential_vm_project": "my-project"} | given
        for name, (given, _) in SWEEPS.items()
    }
    inventory = tmp_path / "hosts.json"
    group = {"hosts": hosts, "vars": {"confidential_vm_provider": "gcp"}}
    inventory.write_text(json.dumps({"all": {"children": {"fleet": group}}}))
    done = ansible("ansible-playbook", f"--inventory={inventory}", "playbooks/sweep.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    text = " ".join(done.stdout.split())
    for name, (_, says) in SWEEPS.items():
        said = re.search(rf"fatal: \[{name}\]: FAILED! => (.*?) (fatal|PLAY RECAP|TASK)", text)
        assert said, (name, done.stdout)
        assert says.replace("'", "") in said[1].replace("'", ""), said[1]
    assert "Sweep Google" not in text  # nothing was sent


@pytest.mark.parametrize(
    ("cloud", "needed"),
    [
        ("gcp", "confidential_vm_project must be the id of your Google Cloud project"),
        ("aws", "confidential_vm_image must be the id of an image with TpmSupport v2.0"),
        ("azure", "confidential_vm_azure_subscription must be the id of your subscription"),
    ],
)
def test_doctor_says_which_variable_is_missing(cloud: str, needed: str) -> None:
    done = ansible(
        "ansible-playbook", f"--inventory=inventory/{cloud}", "--limit=snp", "playbooks/doctor.yml"
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert needed in " ".join(done.stdout.split())
    assert "lookup plugin" not in done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is missing")
@pytest.mark.parametrize("cloud", ["gcp", "aws", "azure"])
def test_host_keys_are_checked_whatever_the_environment_says(cloud: str, tmp_path: Path) -> None:
    """To ssh the first of two values counts."""
    seen, ssh = tmp_path / "seen", tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\n[ "$1" = -V ] && exec ssh -V\nssh -G "$@" > {seen}\nexit 255\n')
    ssh.chmod(0o755)
    ansible(
        "ansible",
        f"--inventory=inventory/{cloud}",
        "--module-name=raw",
        "--args=exit 0",
        "--extra-vars=ansible_host=192.0.2.1",
        "snp",
        ANSIBLE_HOST_KEY_CHECKING="False",
        ANSIBLE_SSH_ARGS="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
        "-o Compression=yes",
        ANSIBLE_SSH_EXECUTABLE=str(ssh),
        ANSIBLE_SSH_RETRIES="0",
        HOME=str(tmp_path),
    )
    options = dict(line.partition(" ")[::2] for line in seen.read_text().splitlines())
    assert options["stricthostkeychecking"] == "true"
    assert options["userknownhostsfile"] == str(TREE / "var/known_hosts/bench-snp")
    assert options["globalknownhostsfile"] == "none"
    assert options["hostkeyalias"] == "bench-snp"
    assert options["compression"] == "yes"  # the rest of it is the user's to say


@pytest.mark.parametrize("cloud", ["gcp", "aws", "azure"])
def test_what_else_ssh_is_told_is_what_it_is_told_everywhere(cloud: str) -> None:
    """Those inventories set ``ansible_ssh_args``, and so must say again what ansible.cfg says."""
    configured = configparser.ConfigParser()
    configured.read(TREE / "ansible.cfg")
    said = (TREE / "inventory" / cloud / "group_vars" / f"{cloud}.yml").read_text()
    assert f"'{configured['ssh_connection']['ssh_args']}'" in said


@pytest.fixture
def google(tmp_path: Path) -> Iterator[ComputeDouble]:
    one = ComputeDouble(tmp_path)
    yield one
    one.close()


def fleet_of(
    google: ComputeDouble, tmp_path: Path, hosts: dict[str, dict[str, Any]]
) -> dict[str, str]:
    """An inventory of these hosts on Google Cloud's double, as arguments of ansible-playbook."""
    inventory, key = tmp_path / "hosts.json", tmp_path / "key.pub"
    key.write_text("ssh-ed25519 AAAA bench\n")
    shared = {f"confidential_vm_{name}": value for name, value in google.options().items()}
    shared |= {
        "ansible_user": "bench",
        "confidential_vm_known_hosts_dir": str(tmp_path / "known_hosts"),
        "confidential_vm_machine_type": "c3-standard-4",
        "confidential_vm_provider": "gcp",
        "confidential_vm_ssh_public_key_file": str(key),
        "confidential_vm_zone": "europe-west4-b",
    }
    inventory.write_text(json.dumps({"fleet": {"hosts": hosts, "vars": shared}}))
    return {"inventory": str(inventory), "HOME": str(tmp_path)}


def test_each_project_is_asked_by_one_host(google: ComputeDouble, tmp_path: Path) -> None:
    projects = {"a1": "project-a", "a2": "project-a", "b1": "project-b", "b2": "project-b"}
    about = {host: {"confidential_vm_project": name} for host, name in projects.items()}
    about["b2"]["confidential_vm_fleet"] = "second"
    fleet = fleet_of(google, tmp_path, about)
    inventory = f"--inventory={fleet['inventory']}"
    for playbook, others in (("sweep", 0), ("teardown", 1)):
        google.requests.clear()
        done = ansible(
            "ansible-playbook", inventory, f"playbooks/{playbook}.yml", HOME=fleet["HOME"]
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lists = [line for line in google.requests if line.endswith("/aggregated/instances")]
        times = {name: sum(f"/{name}/" in line for line in lists) for name in projects.values()}
        looks = 1 + others  # a teardown asks again at its end, and once more for the other fleet
        assert times == {"project-a": looks, "project-b": looks * (1 + others)}
    assert done.stdout.count("Nothing is left of the fleet") == 3


ODD_RANGES = {
    "name": ["office.example"],
    "address": ["198.51.100.1/24", "192.0.2.7"],
    "text": "192.0.2.0/24,here",
}


def test_odd_ranges_are_one_sentence_before_any_call(google: ComputeDouble, tmp_path: Path) -> None:
    about = {name: {"confidential_vm_ssh_source_ranges": text} for name, text in ODD_RANGES.items()}
    fleet = fleet_of(google, tmp_path, about)
    inventory = f"--inventory={fleet['inventory']}"
    done = ansible("ansible-playbook", inventory, "playbooks/provision.yml", HOME=fleet["HOME"])
    assert done.returncode == 2, done.stdout + done.stderr
    text = " ".join(done.stdout.split()).replace("''", "'")
    for odd in ("office.example", "192.0.2.7", "here"):
        assert f"must be ranges such as 192.0.2.7/32, not '{odd}'" in text, done.stdout
    assert google.requests == []


def test_two_hosts_are_never_one_vm(google: ComputeDouble, tmp_path: Path) -> None:
    fleet = fleet_of(google, tmp_path, {"a1": {}, "a2": {}, "a3": {"confidential_vm_name": "c"}})
    done = ansible(
        "ansible-playbook",
        f"--inventory={fleet['inventory']}",
        "--extra-vars=confidential_vm_name=bench",
        "playbooks/provision.yml",
        HOME=fleet["HOME"],
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "confidential_vm_name must differ from host to host" in done.stdout
    assert google.requests == []


def test_check_mode_makes_no_vm_and_connects_to_nothing_of_its_name(
    google: ComputeDouble, tmp_path: Path
) -> None:
    fleet = fleet_of(google, tmp_path, {"a1": {"confidential_vm_type": "TDX"}})
    seen, ssh = tmp_path / "seen", tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\n[ "$1" = -V ] && exec ssh -V\ntouch {seen}\nexit 255\n')
    ssh.chmod(0o755)
    done = ansible(
        "ansible-playbook",
        f"--inventory={fleet['inventory']}",
        f"--extra-vars=bench_run_results_dir={tmp_path / 'results'}",
        "--check",
        "playbooks/measure.yml",
        ANSIBLE_SSH_EXECUTABLE=str(ssh),
        HOME=fleet["HOME"],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed: [a1 -> localhost]" in done.stdout  # it would be made
    assert google.count("^(POST|DELETE) ") == 0
    assert "fatal" not in done.stdout
    assert not seen.exists()


def test_every_play_has_the_strategy_that_run_once_needs() -> None:
    plays = [
        play
        for playbook in (TREE / "playbooks").glob("*.yml")
        for play in yaml.safe_load(playbook.read_text())
        if "hosts" in play
    ]
    assert len(plays) > 5
    assert {play.get("strategy") for play in plays} == {"ansible.builtin.linear"}
