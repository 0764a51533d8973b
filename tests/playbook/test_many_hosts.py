"""More hosts than Ansible has forks are measured at once; where they share a machine, one is."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.playing import play

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = [f"host-{number}" for number in range(1, 4)]
FORKS = 2

pytestmark = pytest.mark.playbook

# Stands where the agent does: says when it begins, waits for its like, and says whether they came.
AGENT = """#!/bin/sh
while [ "$1" != --output ]; do shift; done
mkdir "$MEETING/$$" || exit 9
most=0 looks=0
while [ $looks -lt "$LOOKS" ]; do
    now=$(ls "$MEETING" | wc -l)
    [ "$now" -gt $most ] && most=$now
    [ $most -eq "$HOSTS" ] && break
    looks=$((looks + 1))
    sleep 0.2
done
echo "{\\"most\\": $most}" >"$2"
[ $most -eq "$HOSTS" ] || rmdir "$MEETING/$$"
"""


def _measure(root: Path, looks: int, **variables: object) -> list[int]:
    """Run the role on all hosts; return how many of them each saw at work."""
    meeting, agent, run = root / "meeting", root / "agent", root / "results" / "many"
    meeting.mkdir()
    run.mkdir(parents=True)
    agent.write_text(AGENT)
    agent.chmod(0o755)
    inventory = {"fleet": {"hosts": dict.fromkeys(HOSTS), "vars": {"ansible_connection": "local"}}}
    (root / "hosts.json").write_text(json.dumps(inventory))
    given = {
        "ansible_python_interpreter": sys.executable,
        "bench_run_id": "many",
        "bench_run_tcti": "swtpm:",
        "bench_run_become": False,
        "bench_run_executable": str(agent),
        "bench_run_state_dir": f"{root}/{{{{ inventory_hostname }}}}",
        "bench_run_results_dir": str(run.parent),
        "bench_run_poll": 1,
    }
    of_role = {"hosts": "fleet", "gather_facts": False, "roles": ["bench_run"]}
    (root / "play.json").write_text(json.dumps([of_role]))
    seen = {"MEETING": str(meeting), "HOSTS": str(len(HOSTS)), "LOOKS": str(looks)}
    played = play(
        "--forks", str(FORKS), "--inventory", root / "hosts.json",
        "--extra-vars", json.dumps(given | variables), root / "play.json",
        environment=os.environ | seen,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout + played.stderr
    return [json.loads((run / f"{host}.json").read_text())["most"] for host in HOSTS]


def test_all_are_at_work_before_any_has_ended(tmp_path: Path) -> None:
    assert _measure(tmp_path, looks=600) == [len(HOSTS)] * len(HOSTS)


def test_on_one_machine_only_one_is(tmp_path: Path) -> None:
    assert _measure(tmp_path, looks=5, bench_run_throttle=1) == [1] * len(HOSTS)
