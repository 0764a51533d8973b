"""Ansible action: run a long command that outlives the connection, and show how it comes along.

Ansible's own polling re-attaches after a broken connection, but shows nothing of what the command
says and forgets the job when the play is interrupted. plugins/modules/followed_command.py documents
the use.
"""

from __future__ import annotations

import json
import shlex
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# Leaves the process id for whoever looks, then becomes the command.
WRAPPER = 'echo $$ >"$1/pid" && exec 2>"$1/progress" && shift && exec "$@"'
LAST_WORDS = 20  # lines of standard error that are returned
UNKNOWN = "could not find job"  # what async_status says of a job that the host has no file of
# The same in all processes of one ansible-playbook: it loads the plug-in before it forks them.
THIS_PLAY = uuid.uuid4().hex
STARTING = 30  # seconds after which a job that has left no process id counts as dead

display = Display()


class Job(NamedTuple):
    """What the note says of a job.

    Attributes:
        name: Ansible's id of it.
        started: when, by this machine's clock, in seconds since the epoch.
        play: which ansible-playbook started it.
    """

    name: str
    started: float
    play: str


class ActionModule(ActionBase):
    """The action; one instance serves one host."""

    _supports_async = True
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Start the command, or find it running, and follow it to its end.

        Returns:
            The result of Ansible's ``command`` module, with the last lines of standard error.

        Raises:
            AnsibleActionFail: ``async`` is not set, the time limit passed, or the process vanished.
            AnsibleConnectionFailure: the host did not come back within the time limit.
        """
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            argument_spec={
                "argv": {"type": "list", "elements": "str", "required": True},
                "directory": {"type": "path", "required": True},
                "note": {"type": "path", "required": True},
                "every": {"type": "int", "default": 5},
                "follow": {"type": "bool", "default": True},
            }
        )
        if not self._task.async_val or self._task.poll:
            raise AnsibleActionFail("followed_command needs async, in seconds, and poll: 0.")
        if self._task.check_mode:
            return {"skipped": True, "msg": "a command is not run in check mode"}
        self._vars = task_vars or {}
        self._directory = shlex.quote(options["directory"])
        note = Path(options["note"])
        job = self._under_way(note)
        found = job is not None
        if job is None:
            started = self._start(options["argv"], options["directory"])
            if started.get("failed"):
                return started
            job = Job(started["ansible_job_id"], time.time(), THIS_PLAY)
            note.write_text(json.dumps(job._asdict()) + "\n")
        elif job.play != THIS_PLAY:
            self._say("found under way; following it")
        if not options["follow"]:
            return {"changed": not found}
        self._follow(options["every"], job.started + self._task.async_val)
        result = self._result(job.name)
        note.unlink(missing_ok=True)
        words = self._shell(f"tail -n {LAST_WORDS} {self._directory}/progress")["stdout"]
        return {**result, "stderr": words, "stderr_lines": words.splitlines(), "changed": True}

    def _start(self, argv: list[str], directory: str) -> dict[str, Any]:
        self._shell(f"rm -f {self._directory}/pid {self._directory}/progress")
        return self._execute_module(
            module_name="ansible.legacy.command",
            module_args={"argv": ["sh", "-c", WRAPPER, "sh", directory, *argv]},
            task_vars=self._vars,
            wrap_async=True,
        )

    def _under_way(self, note: Path) -> Job | None:
        """The job that was started before, if it still runs or has left its result."""
        try:
            job = Job(**json.loads(note.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        if job.play == THIS_PLAY:  # if it is gone, that is an error, and no reason for another
            return job
        status = self._status(job.name, "status")
        if status.get("msg") == UNKNOWN:  # which the module calls finished, too
            return None
        # None: it was started so lately that it has left no process id.
        if status.get("finished") or self._running() is not False or self._settled(job.name):
            return job
        return None

    def _result(self, name: str) -> dict[str, Any]:
        """The result of a job whose process is gone."""
        result = self._settled(name)
        if result is None:
            raise AnsibleActionFail(
                "its process vanished without a result; was the host restarted?"
            )
        self._status(name, "cleanup")
        return result

    def _settled(self, name: str) -> dict[str, Any] | None:
        """What Ansible's job wrapper writes down shortly after the process ended; None if not."""
        for _ in range(10):
            result = self._status(name, "status")
            if result.get("finished"):
                return result
            time.sleep(1)
        return None

    def _status(self, name: str, mode: str) -> dict[str, Any]:
        # Its ~ is left to the module: Ansible's job wrapper takes HOME for it, and a shell's ~user,
        # which it would become here, is the home in the host's list of users.
        directory = self.get_shell_option("async_dir", "~/.ansible_async")
        return self._execute_module(
            module_name="ansible.legacy.async_status",
            module_args={"jid": name, "mode": mode, "_async_dir": directory},
            task_vars=self._vars,
        )

    def _follow(self, every: int, end: float) -> None:
        """Look at the command until its process is gone; look through broken connections."""
        begun = time.monotonic()
        last = ""
        while True:
            try:
                running = self._running()
                line = self._shell(f"tail -n 1 {self._directory}/progress 2>/dev/null")["stdout"]
            except AnsibleConnectionFailure as failure:
                if time.time() + every > end:
                    raise
                self._say(f"connection lost ({failure.message}); trying again")
                time.sleep(every)
                self._reconnect()
                continue
            if line.strip() and line.strip() != last:
                last = line.strip()
                self._say(last)
            if running is False or (running is None and time.monotonic() - begun > STARTING):
                return
            if time.time() > end:
                raise AnsibleActionFail(f"it did not end within {self._task.async_val} s.")
            time.sleep(every)

    def _running(self) -> bool | None:
        """Whether the process is there; None while it has left no process id."""
        said = self._shell(
            f"pid=$(cat {self._directory}/pid 2>/dev/null) || {{ echo new; exit 0; }}; "
            "grep -qs '^State:.[^Z]' /proc/$pid/status && echo yes || echo no"
        )
        return {"yes": True, "no": False}.get(said["stdout"].strip())

    def _shell(self, command: str) -> dict[str, Any]:
        return self._low_level_execute_command(command, sudoable=True)

    def _reconnect(self) -> None:
        reset = getattr(self._connection, "reset", None)
        if reset:
            try:
                reset()
            except AnsibleConnectionFailure:
                return

    def _say(self, text: str) -> None:
        display.display(f"{self._vars.get('inventory_hostname', 'host')}: {text}")
