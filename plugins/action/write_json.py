"""Ansible action: write a JSON document to a file on the control node.

It runs no module, which `copy` with `delegate_to: localhost` does twice for each host.
plugins/modules/write_json.py documents the use.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

MODE = 0o644


class ActionModule(ActionBase):
    """The action; one instance serves one host."""

    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Write the file whole or not at all.

        Raises:
            AnsibleActionFail: it cannot be written.
        """
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            argument_spec={
                "content": {"type": "dict", "required": True},
                "dest": {"type": "path", "required": True},
            }
        )
        dest = Path(options["dest"])
        text = json.dumps(options["content"]) + "\n"
        try:
            changed = not dest.exists() or dest.read_text() != text
            if changed and not self._task.check_mode:
                _replace(dest, text)
        except OSError as error:
            raise AnsibleActionFail(
                f"{dest} on the control node cannot be written: {error.strerror}"
            ) from error
        return {"changed": changed, "dest": str(dest)}


def _replace(dest: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=dest.parent, prefix=".", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), MODE)
            Path(file.name).replace(dest)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
