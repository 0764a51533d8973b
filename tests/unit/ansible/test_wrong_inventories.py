"""An inventory with a mistake in it is never taken for a fleet of no hosts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.playing import play

TREE = Path(__file__).resolve().parents[3]
SAYS = {
    "not there": r"\[ERROR\]: Completely failed to parse inventory source .*/inventory$",
    "empty": r"\[ERROR\]: Completely failed to parse inventory source .*/inventory$",
    "broken": r"\[ERROR\]: Completely failed to parse inventory source .*/inventory/hosts\.yml$",
    "without fleet": r"\[ERROR\]: Could not match supplied host pattern.*: fleet$",
    "one of two": r"\[ERROR\]: Completely failed to parse inventory source .*/inventory$",
}
TEXTS = {
    "broken": "fleet:\n  hosts:\n    a:\n   b: [\n",
    "without fleet": "all: {hosts: {a: {ansible_connection: local}}}\n",
}


# Without what a make around the tests says to its own.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in {"INVENTORY", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
}


def _play(*inventories: Path) -> subprocess.CompletedProcess[str]:
    return play(
        *(f"--inventory={inventory}" for inventory in inventories),
        "playbooks/doctor.yml",
        environment=ENVIRONMENT | {"COLUMNS": "1000"},
    )


@pytest.mark.parametrize("mistake", SAYS)
def test_a_playbook_refuses_it(mistake: str, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    if mistake not in {"not there", "one of two"}:
        inventory.mkdir()
    if mistake in TEXTS:
        (inventory / "hosts.yml").write_text(TEXTS[mistake])
    beside = [TREE / "inventory" / "static"] if mistake == "one of two" else []
    done = _play(*beside, inventory)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(SAYS[mistake], done.stderr, re.MULTILINE), done.stderr
    assert "PLAY" not in done.stdout


@pytest.mark.parametrize("target", ["run", "report", "doctor", "teardown", "sweep"])
@pytest.mark.parametrize("inventory", ["statik", ""])
def test_make_names_those_that_are_there(target: str, inventory: str) -> None:
    done = subprocess.run(
        ["make", target, f"INVENTORY={inventory}"],
        cwd=TREE,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    said = re.fullmatch(
        rf"Makefile:\d+: \*\*\* There is no inventory/{inventory}; set INVENTORY to one of: (.*)"
        r"\.  Stop\.",
        line,
    )
    assert said, line
    assert set(said[1].split()) == {path.name for path in (TREE / "inventory").iterdir()}


def test_help_lists_every_inventory() -> None:
    said = subprocess.run(
        ["make", "help"], cwd=TREE, env=ENVIRONMENT, capture_output=True, text=True, check=True
    ).stdout
    listed = re.search(r"INVENTORY=(\S+) \(now local\)", said)
    assert listed
    assert set(listed[1].split("|")) == {path.name for path in (TREE / "inventory").iterdir()}
    assert listed[1].startswith("local|static|vm|gcp")
