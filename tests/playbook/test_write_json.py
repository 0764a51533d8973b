"""A document on the control node is written whole, once, and without asking the host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.playing import play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.playbook


def test_it_writes_what_is_new_and_says_what_it_cannot(tmp_path: Path) -> None:
    dest = tmp_path / "host.done.json"
    gone = tmp_path / "gone" / "host.done.json"

    def write(to: Path, **keywords: object) -> dict[str, object]:
        module = {"content": {"host": "{{ inventory_hostname }}", "n": 1}, "dest": str(to)}
        return {"name": "Write", "write_json": module, **keywords}

    tasks = [
        write(dest, check_mode=True, register="checked"),
        {"ansible.builtin.assert": {"that": f"'{dest}' is not exists"}, "name": "Look"},
        write(dest, register="first"),
        write(dest, register="second"),
        write(gone, register="failed", ignore_errors=True),
        {
            "name": "Tell",
            "write_json": {
                "content": {
                    "changed": [
                        f"{{{{ {name}.changed }}}}" for name in ("checked", "first", "second")
                    ],
                    "failed": "{{ failed.msg }}",
                },
                "dest": str(tmp_path / "told.json"),
            },
        },
    ]
    # Nothing listens there: a task that asked the host would fail.
    inventory = {"all": {"hosts": {"away": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    of_tasks = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.json").write_text(json.dumps([of_tasks]))
    played = play("--inventory", tmp_path / "hosts.json", tmp_path / "play.json")
    assert played.returncode == 0, played.stdout + played.stderr
    assert json.loads(dest.read_text()) == {"host": "away", "n": 1}
    assert dest.stat().st_mode & 0o777 == 0o644
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["changed"] == [True, True, False]
    assert f"{gone} on the control node cannot be written: No such file" in told["failed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "host.done.json", "hosts.json", "play.json", "told.json",
    ]  # fmt: skip
