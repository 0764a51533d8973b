#!/usr/bin/python
"""Ansible module: a software TPM (swtpm) that listens on TCP, started or stopped."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: swtpm
short_description: Start or stop a software TPM
description:
  - Runs C(swtpm socket) as a daemon on 127.0.0.1, with its control channel on the next port,
    as the C(swtpm) TCTI of tpm2-tss expects it.
  - A process is only taken for this TPM, and only ever stopped, if its command line names this
    state directory.
options:
  state:
    description: Whether the TPM is to run. Its state directory is kept in both cases.
    type: str
    choices: [started, stopped]
    default: started
  directory:
    description: Absolute path of the TPM's state.
    type: path
    required: true
  port:
    description: TCP port for commands; the next one is the control channel.
    type: int
    required: true
  executable:
    description: The swtpm program.
    type: str
    default: swtpm
  wait:
    description: Seconds to wait for the TPM to listen, or to be gone.
    type: int
    default: 10
author: The tpm-fleet-bench authors
"""

EXAMPLES = r"""
- name: Start a software TPM
  swtpm:
    directory: /var/lib/tpm-a
    port: 23210
"""

RETURN = r"""
pid:
  description: The daemon's process id; 0 when there is none.
  type: int
  returned: always
"""

LOOPBACK = "127.0.0.1"
PROC = Path("/proc")


def command_line(executable: str, directory: Path, port: int) -> list[str]:
    """The daemon's command line; the state directory in it is how the process is recognised."""
    return [
        executable,
        "socket",
        "--tpm2",
        "--tpmstate",
        f"dir={directory}",
        "--server",
        f"type=tcp,port={port},bindaddr={LOOPBACK}",
        "--ctrl",
        f"type=tcp,port={port + 1},bindaddr={LOOPBACK}",
        # The TPM is powered on and started up by itself: clients of the TCTI only send commands.
        "--flags",
        "not-need-init,startup-clear",
        "--log",
        f"file={directory / 'swtpm.log'},level=1,truncate",
        "--daemon",
    ]


def find(directory: Path, proc: Path = PROC) -> tuple[int, list[str]] | None:
    """The process id and command line of the swtpm that holds this state directory, if one runs."""
    wanted = f"dir={directory}"
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # gone meanwhile, or another user's
            continue
        if Path(words[0]).name == "swtpm" and wanted in words:
            return int(entry.name), words
    return None


def serves(words: list[str], port: int) -> bool:
    """Whether a swtpm with this command line takes its commands on the port."""
    server = ["--server", f"type=tcp,port={port},bindaddr={LOOPBACK}"]
    return any(words[place : place + 2] == server for place in range(len(words)))


def taken(port: int) -> bool:
    """Whether something else listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def wait_until(condition, seconds: int) -> bool:
    """Ask every 50 ms until the condition holds or the time is over."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def stop(module: AnsibleModule, pid: int, directory: Path) -> None:
    """End the process and wait until it is gone."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        module.fail_json(
            msg=f"The software TPM in {directory} (process {pid}) belongs to another user; "
            f"stop it as that user."
        )
    if not wait_until(lambda: find(directory) is None, module.params["wait"]):
        module.fail_json(
            msg=f"The software TPM in {directory} (process {pid}) did not end within "
            f"{module.params['wait']} s of SIGTERM; end it by hand: kill -9 {pid}"
        )


def start(module: AnsibleModule, directory: Path, port: int) -> int:
    """Start the daemon and wait until it listens."""
    executable = module.get_bin_path(module.params["executable"])
    if executable is None:
        module.fail_json(
            msg=f"{module.params['executable']} is not installed here; it is the software TPM "
            "(Debian, Ubuntu: apt-get install swtpm)."
        )
    for needed in (port, port + 1):
        if taken(needed):
            module.fail_json(
                msg=f"Port {needed} on {LOOPBACK} is in use by another program; "
                "choose another software_tpm_port, in inventory/local by another local_first_port "
                "(each TPM takes its port and the next)."
            )
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    status, output, error = module.run_command(command_line(executable, directory, port))
    if status != 0 or not wait_until(
        lambda: taken(port) and taken(port + 1), module.params["wait"]
    ):
        log = directory / "swtpm.log"
        said = [*(log.read_text().splitlines() if log.exists() else []), output, error]
        reason = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")
        module.fail_json(msg=f"swtpm did not start in {directory}: {reason}")
    found = find(directory)
    return found[0] if found else 0


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "directory": {"type": "path", "required": True},
            "port": {"type": "int", "required": True},
            "executable": {"type": "str", "default": "swtpm"},
            "wait": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    directory, port = Path(module.params["directory"]), module.params["port"]
    if not directory.is_absolute():
        module.fail_json(msg=f"software_tpm_dir must be an absolute path, not {directory}.")
    found = find(directory)
    wanted = module.params["state"] == "started"
    # A TPM whose state was removed under it fails at the next write; it has to begin anew.
    right = found is not None and serves(found[1], port) and directory.is_dir()
    if (wanted and right) or (not wanted and found is None):
        module.exit_json(changed=False, pid=found[0] if found else 0)
    if module.check_mode:
        module.exit_json(changed=True, pid=0)
    if found:
        stop(module, found[0], directory)
    module.exit_json(changed=True, pid=start(module, directory, port) if wanted else 0)


if __name__ == "__main__":
    main()
