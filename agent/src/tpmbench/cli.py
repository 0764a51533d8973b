"""``tpm-tls-bench``: the command line."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpmtls
from tpmbench import __version__, document, show
from tpmbench.doctor import examine
from tpmbench.journal import Journal, default_state_directory
from tpmbench.measuring import Settings
from tpmbench.outcome import BenchError, InterruptedRunError, Status, UsageError
from tpmbench.progress import Progress
from tpmbench.run import Request, run
from tpmbench.sampling import Watch
from tpmbench.scenarios import SCENARIOS, SUITES, chosen
from tpmbench.stopping import Stop
from tpmbench.tpmkeys import Owner, recover
from tpmtls.errors import TpmTlsError
from tpmtls.public import CURVES

if TYPE_CHECKING:
    from collections.abc import Callable

_OWNER_HANDLES = range(0x81000000, 0x81800000)
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except BenchError as error:
        return _fail(error, error.status)
    except (TpmTlsError, ValueError) as error:
        status = Status.USAGE if isinstance(error, ValueError) else Status.UNUSABLE
        return _fail(error, status)
    except InterruptedRunError as error:
        print(f"tpm-tls-bench: {error}; the TPM is as it was before", file=sys.stderr)
        return 128 + error.number
    except BrokenPipeError:  # the reader of our text went away, as in `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.INVALID


def _fail(error: Exception, status: Status) -> int:
    print(f"tpm-tls-bench: {' '.join(str(error).split())}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tpm-tls-bench", description="What a TPM-held key costs TLS, measured on this host."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)

    doctor = commands.add_parser("doctor", help="check what TLS with a TPM key assumes")
    doctor.set_defaults(command=_doctor)
    _add_tpm(doctor)
    doctor.add_argument("--handle", type=_handle, help="the key meant (default: every key)")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.add_argument("--metadata", choices=("auto", "never"), default="auto")

    evict = commands.add_parser("evict", help="free what earlier runs of ours left in the TPM")
    evict.set_defaults(command=_evict)
    evict.add_argument("--tcti", help="only over this transport (default: every one we used)")
    _add_state(evict)

    listing = commands.add_parser("list", help="list the scenarios")
    listing.set_defaults(command=_list)

    showing = commands.add_parser("show", help="print a result document as text")
    showing.set_defaults(command=_show)
    showing.add_argument("document", type=Path, metavar="result.json")
    return parser


def _add_run(commands: Any) -> None:
    parser = commands.add_parser("run", help="measure")
    parser.set_defaults(command=_run)
    _add_tpm(parser)
    _add_state(parser)
    parser.add_argument(
        "--curve",
        action="append",
        choices=[curve.name for curve in CURVES],
        help="curve of the key; repeat for several (default: p256 and p384)",
    )
    parser.add_argument(
        "--handle",
        type=_handle_or_auto,
        default=None,
        help="persistent handle for the key, or auto (default): the first free from 0x817ff000",
    )
    parser.add_argument(
        "--suite", action="append", choices=[*SUITES, "all"], help="suite (default: tls)"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        choices=[item.name for item in SCENARIOS],
        metavar="NAME",
        help="only this scenario; repeat for several (see tpm-tls-bench list)",
    )
    parser.add_argument("--signatures", type=_count, default=100, help="per arm (100)")
    parser.add_argument("--connections", type=_count, default=50, help="per arm (50)")
    parser.add_argument("--warmup", type=_natural, default=5, help="samples kept apart (5)")
    parser.add_argument("--block", type=_count, default=10, help="samples in a turn (10)")
    parser.add_argument("--seed", type=_natural, help="of the order of turns (drawn)")
    parser.add_argument("--run-id", type=_label, help="name of the run (drawn)")
    parser.add_argument("--host", type=_label, help="name of the host (its own)")
    parser.add_argument("--metadata", choices=("auto", "never"), default="auto", help=_METADATA)
    parser.add_argument(
        "--simulated-device",
        action="store_true",
        help="mark the result: this device alters timings on purpose",
    )
    parser.add_argument("--output", type=Path, help="write the result document there")


_METADATA = "whether a cloud's metadata service is asked, where DMI names the cloud (auto)"


def _add_tpm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tcti", default=tpmtls.DEFAULT_TCTI, help=f"way to the TPM ({tpmtls.DEFAULT_TCTI})"
    )
    parser.add_argument(
        "--deadline",
        type=_seconds,
        default=tpmtls.DEFAULT_DEADLINE,
        metavar="SECONDS",
        help=f"longest wait for the TPM ({tpmtls.DEFAULT_DEADLINE:g})",
    )


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=None,
        help=f"where our keys are written down ({default_state_directory()})",
    )
    parser.add_argument(
        "--owner-auth-file",
        type=Path,
        metavar="FILE",
        help="file with the owner hierarchy's auth value, if it has one",
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.output:
        document.check_writable(arguments.output)
    suites = arguments.suite or ([] if arguments.scenario else ["tls"])
    if "all" in suites:
        suites = list(SUITES)
    curves = arguments.curve or ["p256", "p384"]
    request = Request(
        tcti=arguments.tcti,
        curves=[curve for curve in CURVES if curve.name in curves],
        scenarios=chosen(suites, arguments.scenario or []),
        handle=arguments.handle,
        settings=Settings(
            signatures=arguments.signatures,
            connections=arguments.connections,
            warmup=arguments.warmup,
            block=arguments.block,
            deadline=arguments.deadline,
        ),
        seed=secrets.randbits(32) if arguments.seed is None else arguments.seed,
        run_id=arguments.run_id or _draw_run_id(),
        host=arguments.host or _host_name(),
        state_directory=arguments.state_dir or default_state_directory(),
        owner=_owner(arguments.owner_auth_file),
        metadata=arguments.metadata,
        simulated=arguments.simulated_device,
    )
    result, status, trouble = run(request, Watch(Stop(), Progress()))
    if arguments.output:
        document.write(result, arguments.output)
    print(show.text(result), end="")
    if trouble:
        print(f"tpm-tls-bench: {' '.join(trouble.split())}", file=sys.stderr)
    elif status is Status.INVALID:
        names = sorted(
            {item["name"] for item in result["scenarios"] if item["status"] == "invalid"}
        )
        print(
            f"tpm-tls-bench: invalid: {', '.join(names)}; the reasons stand in the result",
            file=sys.stderr,
        )
    return status


def _doctor(arguments: argparse.Namespace) -> int:
    report = examine(
        arguments.tcti, arguments.deadline, arguments.handle, metadata=arguments.metadata
    )
    print(json.dumps(report.document()) if arguments.json else report.text(), end="")
    if arguments.json:
        print()
    return Status.MEASURED if report.holds else Status.INVALID


def _evict(arguments: argparse.Namespace) -> int:
    journal = Journal(arguments.state_dir or default_state_directory())
    owner = _owner(arguments.owner_auth_file) or Owner()
    freed = 0
    with journal.locked():
        entries = journal.entries()
        places = [arguments.tcti] if arguments.tcti else sorted({item.tcti for item in entries})
        for tcti in places:
            with tpmtls.connect(tcti) as transport:
                freed += recover(transport, journal, owner)
    print(f"freed {freed} objects that earlier runs left behind")
    return Status.MEASURED


def _list(_arguments: argparse.Namespace) -> int:
    for scenario in SCENARIOS:
        print(f"{scenario.name:<20} {scenario.suite:<6} {scenario.question}")
    return Status.MEASURED


def _show(arguments: argparse.Namespace) -> int:
    path = arguments.document
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
    print(text, end="")
    return Status.MEASURED


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


def _handle(text: str) -> int:
    try:
        handle = int(text, 16)
    except ValueError:
        handle = -1
    if handle not in _OWNER_HANDLES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no persistent handle of the owner's, 0x81000000 to 0x817fffff"
        )
    return handle


def _handle_or_auto(text: str) -> int | None:
    return None if text == "auto" else _handle(text)


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def _count(text: str) -> int:
    number = _natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.01 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no time from 0.01 to 3600 seconds")
    return seconds


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: letters, digits, dot, dash, colon and underscore"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
