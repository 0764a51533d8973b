"""The swtpm module starts, keeps, restarts and stops a daemon of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.playbook, pytest.mark.swtpm]
PORT = 24910


def swtpm(directory, **options):
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible"),
            "localhost",
            "--one-line",
            "--module-name=swtpm",
            f"--args={json.dumps({'directory': str(directory), 'port': PORT, **options})}",
        ],
        cwd=PROJECT,
        env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout.split("=>", 1)[1])
    return answer["changed"], answer["pid"]


def test_a_daemons_life(tmp_path):
    state = tmp_path / "tpm"
    try:
        changed, first = swtpm(state)
        assert changed
        assert Path(f"/proc/{first}").exists()
        assert swtpm(state) == (False, first)

        changed, moved = swtpm(state, port=PORT + 1)
        assert changed, "another port, though the old control channel was there"
        assert moved != first

        shutil.rmtree(state)
        changed, anew = swtpm(state, port=PORT + 1)
        assert changed, "its state was removed under it"
        assert anew != moved
        assert (state / "tpm2-00.permall").exists()
    finally:
        stopped = swtpm(state, port=PORT + 1, state="stopped")
    assert stopped == (True, 0)
    assert swtpm(state, state="stopped") == (False, 0)
    assert (state / "tpm2-00.permall").exists(), "the state is kept"
