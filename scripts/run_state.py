"""Say how far a run has come: which hosts are measured, which failed and why.

    python3 scripts/run_state.py results/RUN_ID

Reads what the roles left in the run's directory: ``run.json`` (the hosts that belong to it),
``HOST.done.json`` (the hash of a result that was fetched whole) and ``HOST.failed.json`` (stage and
reason). Writes ``failures.json`` there, a list of ``{"host", "stage", "reason"}`` for the
collector, and prints one JSON object: ``documents``, the paths of the results, and ``failures``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

NOT_WHOLE = "the result here is not the one that was fetched (its SHA-256 differs)"
NOTHING = "nothing was recorded; the run was interrupted or the host was not reached"


def host_state(run: Path, host: str) -> dict[str, str] | None:
    """Why a host has no result in this run.

    Returns:
        ``host``, ``stage`` and ``reason``; None if the host is measured.
    """
    marker, document = run / f"{host}.done.json", run / f"{host}.json"
    if marker.is_file() and document.is_file():
        wanted = json.loads(marker.read_text())["sha256"]
        if hashlib.sha256(document.read_bytes()).hexdigest() == wanted:
            return None
        return {"host": host, "stage": "fetch", "reason": NOT_WHOLE}
    failed = run / f"{host}.failed.json"
    if failed.is_file():
        recorded: dict[str, str] = json.loads(failed.read_text())
        return recorded
    return {"host": host, "stage": "run", "reason": NOTHING}


def run_state(run: Path) -> dict[str, list[object]]:
    """Go through the hosts of a run.

    Raises:
        OSError: There is no ``run.json``, or a file cannot be read.
        ValueError: A file is not JSON.
    """
    hosts = sorted(json.loads((run / "run.json").read_text())["hosts"])
    states = {host: host_state(run, host) for host in hosts}
    return {
        "documents": [str(run / f"{host}.json") for host in hosts if states[host] is None],
        "failures": [state for state in states.values() if state is not None],
    }


def main(arguments: list[str]) -> int:
    """Print the state of the run named by its directory, and write its failures."""
    if len(arguments) != 1:
        print("usage: run_state.py results/RUN_ID", file=sys.stderr)
        return 2
    run = Path(arguments[0])
    try:
        state = run_state(run)
        (run / "failures.json").write_text(json.dumps(state["failures"], indent=1) + "\n")
    except (OSError, ValueError, KeyError) as error:
        print(f"run_state: {run} is not the directory of a run: {error}", file=sys.stderr)
        return 1
    print(json.dumps(state))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
