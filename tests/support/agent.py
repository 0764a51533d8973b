"""The agent as a user runs it: a process of its own, with a state directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import guard

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = Path(__file__).resolve().parents[2] / "agent" / "src"

QUICK = (
    "--curve", "p256", "--signatures", "3", "--connections", "2", "--warmup", "1",
    "--metadata", "never",
)  # fmt: skip
"""A run that takes about a second."""


class Agent:
    """Runs ``tpm-tls-bench``.

    Args:
        tcti: its TPM.
        directory: private; holds its state.
        python: the interpreter.
        prefix: what stands before the command, such as another user's identity.
    """

    def __init__(
        self,
        tcti: str,
        directory: Path,
        python: str = sys.executable,
        prefix: Sequence[str] = (),
    ) -> None:
        self.tcti = tcti
        self.state = directory / "agent-state"
        self.output = directory / "result.json"
        self._python = python
        self._prefix = prefix

    def command(self, name: str, *options: str) -> list[str]:
        """Return the command line of a subcommand, its TPM and state given."""
        given = {
            "run": ["--tcti", self.tcti, "--state-dir", str(self.state)],
            "evict": ["--state-dir", str(self.state)],
            "doctor": ["--tcti", self.tcti],
        }.get(name, [])
        return [*self._prefix, self._python, "-m", "tpmbench.cli", name, *given, *options]

    def start(self, name: str, *options: str, **popen: Any) -> subprocess.Popen[str]:
        """Start a subcommand; stdout and stderr are pipes unless given."""
        guard.watch()
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "env": {**os.environ, "PYTHONPATH": str(SOURCE)},
        }
        return subprocess.Popen(self.command(name, *options), **(settings | popen))

    def __call__(
        self, name: str, *options: str, timeout: float = 240, **popen: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a subcommand to its end."""
        process = self.start(name, *options, **popen)
        try:
            out, error = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def measure(self, *options: str) -> dict[str, Any]:
        """Run with a result document, which must be measured without complaint."""
        done = self("run", "--output", str(self.output), *options)
        assert done.returncode == 0, done.stderr
        return self.document()

    def document(self) -> dict[str, Any]:
        """Read the result document that was written last."""
        document: dict[str, Any] = json.loads(self.output.read_text())
        return document

    def journal(self) -> list[dict[str, Any]]:
        """Read the journal's entries, without drafts of entries."""
        paths = [path for path in self.journal_files() if path.suffix == ".json"]
        return [json.loads(path.read_text()) for path in paths]

    def journal_files(self) -> list[Path]:
        """List whatever is in the journal's directory."""
        directory = self.state / "journal"
        return sorted(directory.iterdir()) if directory.exists() else []


def only(*scenarios: str) -> list[str]:
    """Return the options that choose scenarios."""
    return [part for name in scenarios for part in ("--scenario", name)]


def wait_for_line(process: subprocess.Popen[str], wanted: str) -> None:
    """Read a running agent's stderr up to a line of progress.

    ``p256 raw-signing`` for instance is said when the key is at its persistent handle.
    """
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if line.strip() == wanted:
            return
    raise AssertionError(f"it ended without {wanted!r}, with {seen}")


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one sentence that a failed command ends with; it must be no traceback."""
    assert "Traceback" not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("tpm-tls-bench")]
    assert lines, f"nothing was said on stderr: {done.stderr!r}"
    assert len(lines) == 1, f"more than one sentence: {lines}"
    return lines[0]
