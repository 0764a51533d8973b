"""A long command outlives the play that started it, and the next play goes on with it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.playbook


class Play:
    """A play that follows one command on this machine."""

    def __init__(self, root, command, **keywords):
        self.note = root / "job.json"
        (root / "there").mkdir()
        task = {
            "name": "Follow",
            "followed_command": {
                "argv": ["sh", "-c", command],
                "directory": str(root / "there"),
                "note": str(self.note),
                "every": 1,
            },
            "async": 60,
            "poll": 0,
            "register": "result",
            "failed_when": False,
            **keywords,
        }
        show = {"name": "Show", "ansible.builtin.copy": {"dest": str(root / "result.json")}}
        show["ansible.builtin.copy"] |= {"content": "{{ result | to_json }}", "mode": "0600"}
        play = {"hosts": "localhost", "gather_facts": False, "tasks": [task, show]}
        self.file = root / "play.json"
        self.file.write_text(json.dumps([play]))
        self.result_file = root / "result.json"

    def write_note(self, job, started):
        """As an earlier ansible-playbook did."""
        note = {"name": job, "started": started, "play": "an earlier one"}
        self.note.write_text(json.dumps(note) + "\n")

    def start(self):
        return subprocess.Popen(
            [str(Path(sys.executable).parent / "ansible-playbook"), str(self.file)],
            cwd=PROJECT,
            env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self):
        output, _ = self.start().communicate(timeout=120)
        return output, json.loads(self.result_file.read_text())


def test_progress_is_shown_and_the_end_is_returned(tmp_path):
    command = "echo first step >&2; sleep 3; echo last words >&2; echo out; exit 7"
    output, result = Play(tmp_path, command).run()
    assert "localhost: first step" in output
    assert result["rc"] == 7
    assert result["stdout"] == "out"
    assert result["stderr_lines"] == ["first step", "last words"]
    assert not (tmp_path / "job.json").exists()


def test_a_play_that_is_killed_leaves_the_command_to_the_next(tmp_path):
    starts = tmp_path / "starts"
    play = Play(tmp_path, f"echo x >>{starts}; sleep 12; echo done")
    first = play.start()
    end = time.monotonic() + 60
    while not (play.note.exists() and starts.exists()):
        assert time.monotonic() < end, "the command was never started"
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    if first.stdout:
        first.stdout.close()

    output, result = play.run()
    assert "found under way; following it" in output
    assert result["rc"] == 0
    assert result["stdout"] == "done"
    assert starts.read_text() == "x\n", "it was started once"
    assert not play.note.exists()


def test_a_command_that_is_killed_ends_with_its_signal(tmp_path):
    gone = tmp_path / "there" / "pid"
    play = Play(tmp_path, "sleep 600")
    running = play.start()
    end = time.monotonic() + 60
    while not (play.note.exists() and gone.exists()):
        assert time.monotonic() < end, "the command was never started"
        time.sleep(0.1)
    pid = int(gone.read_text())
    os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=120)
    result = json.loads(play.result_file.read_text())
    assert result["rc"] == -signal.SIGKILL
    assert not play.note.exists()


def test_a_job_that_the_host_no_longer_knows_is_started_anew(tmp_path):
    play = Play(tmp_path, "echo here")
    play.write_note("j1234.1", started=time.time())  # as after a restart of the host
    output, result = play.run()
    assert "found under way" not in output
    assert result["stdout"] == "here"


def test_a_job_is_found_where_home_is_not_the_one_in_the_list_of_users(tmp_path):
    _, result = Play(tmp_path, "echo here", environment={"HOME": str(tmp_path / "home")}).run()
    assert result.get("stdout") == "here", result


def test_the_time_limit_is_from_the_commands_start_in_an_earlier_play(tmp_path):
    # To the second play alone it would be within the limit.
    play = Play(tmp_path, "sleep 55", ignore_errors=True)
    first = play.start()
    gone = tmp_path / "there" / "pid"
    end = time.monotonic() + 60
    while not (play.note.exists() and gone.exists()):
        assert time.monotonic() < end, "the command was never started"
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    play.write_note(json.loads(play.note.read_text())["name"], started=time.time() - 100)
    try:
        output, result = play.run()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(gone.read_text()), signal.SIGKILL)
    assert "found under way; following it" in output
    assert "it did not end within 60 s" in result["msg"]


def test_what_another_version_noted_is_no_job(tmp_path):
    play = Play(tmp_path, "echo here")
    play.note.write_text('{"job": "j1234.1"}\n')
    output, result = play.run()
    assert "found under way" not in output
    assert result["stdout"] == "here"
