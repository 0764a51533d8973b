"""``tpm-tls-bench``: the command line."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import secrets
import signal
import sys
from typing import TYPE_CHECKING, Any

import tpmtls
from tpmbench import document, show
from tpmbench.counting import CommandCounter
from tpmbench.doctor import examine
from tpmbench.journal import Journal, default_state_directory
from tpmbench.measuring import Settings
from tpmbench.options import parser
from tpmbench.outcome import BenchError, InterruptedRunError, Status, UsageError
from tpmbench.pqc import handshake
from tpmbench.progress import Progress
from tpmbench.request import ML_DSA, Request
from tpmbench.run import run
from tpmbench.sampling import Watch
from tpmbench.scenarios import SCENARIOS, SUITES, chosen
from tpmbench.stopping import Stop
from tpmbench.tpmkeys import Owner, provision, recover
from tpmtls.errors import TpmTlsError
from tpmtls.public import CURVES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = parser(_CARRIERS).parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    # What the TSS is refused is said in a sentence or a row; its own lines on stderr add nothing.
    os.environ.setdefault("TSS2_LOG", "all+NONE")
    try:
        return command(arguments)
    except BenchError as error:
        return _fail(error, error.status)
    except (TpmTlsError, ValueError) as error:
        status = Status.USAGE if isinstance(error, ValueError) else Status.UNUSABLE
        return _fail(error, status)
    except InterruptedRunError as error:
        _complain(f"{error}; the TPM is as it was before")
        return 128 + error.number
    except KeyboardInterrupt:
        _complain("interrupted")
        return 128 + signal.SIGINT
    except OSError as error:  # such as a full disk where the agent keeps its small files
        return _fail(error, Status.UNUSABLE)


def _fail(error: Exception, status: Status) -> int:
    _complain(str(error))
    return status


def _complain(text: str) -> None:
    """Say one sentence on stderr."""
    Progress().say(f"tpm-tls-bench: {' '.join(text.split())}")


def _print(text: str) -> None:
    """Write to stdout. A reader that goes away, as in ``… | head``, has had what it wanted.

    Raises:
        BenchError: it cannot be written.
    """
    try:
        print(text, end="", flush=True)
    except OSError as error:
        # What is still buffered would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise BenchError(
                f"stdout cannot be written ({error.strerror}); send it elsewhere"
            ) from error


def _run(arguments: argparse.Namespace) -> int:
    suites = arguments.suite or ([] if arguments.scenario else ["tls"])
    if "all" in suites:
        suites = list(SUITES)
    scenarios = chosen(suites, arguments.scenario or [])
    if arguments.output:
        document.check_writable(arguments.output)
    curves = arguments.curve or ["p256", "p384", ML_DSA]
    if not any(scenario.measure for scenario in scenarios):
        curves = []  # nothing asks for a key of ours
    asked = {scenario.name for scenario in scenarios}
    post_quantum = ML_DSA in curves and handshake.NAME in asked
    if curves == [ML_DSA] and not post_quantum:
        raise UsageError(f"{ML_DSA} is for {handshake.NAME} only; ask for that, or another curve")
    ways = arguments.tcti or [tpmtls.DEFAULT_TCTI]
    request = Request(
        tcti=ways[0],
        further=ways[1:],
        curves=[curve for curve in CURVES if curve.name in curves],
        post_quantum=post_quantum,
        scenarios=scenarios,
        handle=arguments.handle,
        settings=Settings(
            signatures=arguments.signatures,
            connections=arguments.connections,
            warmup=arguments.warmup,
            block=arguments.block,
            deadline=arguments.deadline,
            operations=arguments.operations,
            max_duration_ns=(arguments.max_duration_ms and arguments.max_duration_ms * 1_000_000),
            counter=_counter(arguments.command_counter),
        ),
        seed=secrets.randbits(32) if arguments.seed is None else arguments.seed,
        run_id=arguments.run_id or _draw_run_id(),
        host=arguments.host or _host_name(),
        state_directory=arguments.state_dir or default_state_directory(),
        owner=_owner(arguments.owner_auth_file),
        metadata=arguments.metadata,
        simulated=arguments.simulated_device,
    )
    request.check()
    result, status, trouble = run(request, Watch(Stop(), Progress()))
    try:
        if arguments.output:
            document.write(result, arguments.output)
    finally:  # a result that cannot be kept can at least be read
        _print(show.text(result))
    if trouble:
        _complain(trouble)
    elif status is Status.INVALID:
        names = sorted(
            {item["name"] for item in _all_scenarios(result) if item["status"] == "invalid"}
        )
        _complain(f"invalid: {', '.join(names)}; the reasons stand in the result")
    return status


def _all_scenarios(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from result["scenarios"]
    for way in result.get("other_transports", ()):
        for suite in SUITES:
            yield from way[suite]


def _provision(arguments: argparse.Namespace) -> int:
    journal = Journal(arguments.state_dir or default_state_directory())
    owner = _owner(arguments.owner_auth_file) or Owner()
    curve = next(curve for curve in CURVES if curve.name == arguments.curve)
    with journal.locked(), tpmtls.connect(arguments.tcti, arguments.deadline) as transport:
        recover(transport, journal, owner)
        key = provision(transport, journal, owner, curve, arguments.handle)
        _print(
            f"{curve.name} key at {key.handle:#010x}, Name {key.name.hex()}\n"
            "It stays there until you evict it: "
            f"tpm2_evictcontrol --hierarchy o --object-context {key.handle:#010x}\n"
            "Nothing attests to it: it is a key to try with, not a provisioned identity.\n"
        )
    return Status.MEASURED


def _doctor(arguments: argparse.Namespace) -> int:
    report = examine(
        arguments.tcti, arguments.deadline, arguments.handle, metadata=arguments.metadata
    )
    _print(f"{json.dumps(report.document())}\n" if arguments.json else report.text())
    return Status.MEASURED if report.holds else Status.INVALID


def _evict(arguments: argparse.Namespace) -> int:
    journal = Journal(arguments.state_dir or default_state_directory())
    owner = _owner(arguments.owner_auth_file) or Owner()
    freed, troubles = 0, {}
    with journal.locked():
        asked = [arguments.tcti] if arguments.tcti else sorted(_places(journal))
        for tcti in asked:
            if not arguments.tcti and tcti not in _places(journal):
                continue  # all of it was found over another way to the same TPM
            try:
                with tpmtls.connect(tcti) as transport:
                    freed += recover(transport, journal, owner)
            except (BenchError, TpmTlsError) as error:  # the other TPMs are cleared all the same
                troubles[tcti] = error
        left = _places(journal)
    status = Status.MEASURED
    for tcti, trouble in troubles.items():
        if tcti in left or arguments.tcti:
            _complain(str(trouble))
            status = max(status, getattr(trouble, "status", Status.UNUSABLE))
    _print(f"freed {freed} {'object' if freed == 1 else 'objects'} that earlier runs left behind\n")
    for tcti in sorted(left - set(troubles)):
        _print(
            f"not looked for everywhere: what was made over {tcti}; run tpm-tls-bench evict "
            f"--tcti {tcti}\n"
        )
    return status


def _places(journal: Journal) -> set[str]:
    return {entry.tcti for entry in journal.entries()}


def _list(_arguments: argparse.Namespace) -> int:
    name_width = max(len(scenario.name) for scenario in SCENARIOS)
    suite_width = max(len(suite) for suite in SUITES)
    for item in SCENARIOS:
        _print(f"{item.name:<{name_width}}  {item.suite:<{suite_width}}  {item.question}\n")
    return Status.MEASURED


def _show(arguments: argparse.Namespace) -> int:
    path = arguments.document
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a result document ({error})") from error
    if not isinstance(result, dict) or result.get("schema") != document.SCHEMA:
        raise UsageError(f"{path} is no result document of format {document.SCHEMA}")
    try:
        text = show.text(result)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"{path} does not follow the format {document.SCHEMA} ({error!r}); "
            "python -m collector validate says where"
        ) from error
    _print(text)
    return Status.MEASURED


def _counter(line: str | None) -> CommandCounter | None:
    if line is None:
        return None
    counter = CommandCounter(line)
    counter.read()  # one that cannot count is told of before anything is measured
    return counter


def _owner(path: Path | None) -> Owner | None:
    if path is None:
        return None
    try:
        return Owner(path.read_bytes().rstrip(b"\r\n"))
    except OSError as error:
        raise UsageError(f"the owner auth file {path} cannot be read: {error.strerror}") from error


def _draw_run_id() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def _host_name() -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", os.uname().nodename).lstrip("-._")
    return name[:128] or "localhost"


_CARRIERS = {
    "run": _run,
    "doctor": _doctor,
    "provision": _provision,
    "evict": _evict,
    "list": _list,
    "show": _show,
}

if __name__ == "__main__":
    sys.exit(main())
