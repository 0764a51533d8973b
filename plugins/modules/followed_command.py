"""Documentation of the action plugin of the same name, which does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: followed_command
short_description: Run a long command that outlives the connection, and show how it comes along
description:
  - Starts the command as an asynchronous job of Ansible and looks at it until it has ended.
  - The last line of its standard error is shown whenever it is a new one.
  - A connection that breaks is opened again; the command is not disturbed.
  - The job is noted on the control node. A later play with the same note follows the command that
    still runs, or takes its result, instead of starting another.
  - Needs C(async), the command's time limit in seconds from its start, and C(poll=0).
options:
  argv:
    description: The command and its arguments.
    type: list
    elements: str
    required: true
  directory:
    description: Directory on the host, which exists, for the process id and standard error.
    type: path
    required: true
  note:
    description: File on the control node that names the job while it is under way.
    type: path
    required: true
  every:
    description: Seconds between two looks.
    type: int
    default: 5
  follow:
    description:
      - Whether to wait for the command's end. If not, it is started, and a later task with the same
        note follows it. Tasks that follow hold a process of Ansible's each; commands that only
        run hold none, so that more hosts than Ansible has forks are at work at once.
    type: bool
    default: true
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Measure
  followed_command:
    argv: [timeout, "600", measure-for-long]
    directory: /var/tmp/measure
    note: results/host.job.json
  async: 700
  poll: 0
"""

RETURN = r"""
rc:
  description: The command's exit status.
  type: int
  returned: when the command was followed to its end
stdout:
  description: What the command wrote to its standard output.
  type: str
  returned: when the command was followed to its end
stderr_lines:
  description: The last lines that the command wrote to its standard error.
  type: list
  elements: str
  returned: when the command was followed to its end
"""
