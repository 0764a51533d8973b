"""The options of ``tpm-tls-bench`` and what each accepts."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import tpmtls
from tpmbench import __version__
from tpmbench.journal import default_state_directory
from tpmbench.request import ML_DSA
from tpmbench.scenarios import SUITES
from tpmtls.public import CURVES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OWNER_HANDLES = range(0x81000000, 0x81800000)
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_METADATA = "whether a cloud's metadata service is asked, where DMI names the cloud (auto)"


def parser(carriers: Mapping[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """Return the parser; the parsed ``command`` is what carries the command out.

    Args:
        carriers: by the name of the command.
    """
    whole = argparse.ArgumentParser(
        prog="tpm-tls-bench", description="What a TPM-held key costs TLS, measured on this host."
    )
    whole.add_argument("--version", action="version", version=__version__)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name, text, add_options in _COMMANDS:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=carriers[name])
        add_options(command)
    return whole


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tcti",
        action="append",
        help=f"way to the TPM ({tpmtls.DEFAULT_TCTI}); repeat for several ways to the same TPM, "
        "to have the suites device and messages, and raw-signing, measured over each",
    )
    _add_deadline(parser)
    _add_state(parser)
    parser.add_argument(
        "--curve",
        action="append",
        choices=[*(curve.name for curve in CURVES), ML_DSA],
        help="curve of the key; repeat for several (default: p256, p384, and mldsa65, an ML-DSA "
        "key, which handshake-new alone has)",
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
        metavar="NAME",
        help="only this scenario of the suites; repeat for several (see tpm-tls-bench list)",
    )
    parser.add_argument("--signatures", type=_count, default=100, help="per arm (100)")
    parser.add_argument("--connections", type=_count, default=50, help="per arm (50)")
    parser.add_argument(
        "--operations",
        type=_count,
        default=100,
        help="per arm of the device suite, fewer where one takes long (100)",
    )
    parser.add_argument(
        "--max-duration-ms",
        type=_count,
        metavar="MS",
        help="instead of --operations: go on so long with each, as wolfTPM's bench does (1000 "
        "there), key generation 15 times as long, without warm-up",
    )
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
    parser.add_argument(
        "--command-counter",
        metavar="PROGRAM",
        help="prints how many commands the TPM has been given, such as "
        "'grep -c SWTPM_IO_Read swtpm.log'; the result then says what a resource manager adds",
    )
    parser.add_argument("--output", type=Path, help="write the result document there")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    _add_tpm(parser)
    parser.add_argument("--handle", type=_handle, help="the key meant (default: every key)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--metadata", choices=("auto", "never"), default="auto", help=_METADATA)


def _add_provision(parser: argparse.ArgumentParser) -> None:
    _add_tpm(parser)
    _add_state(parser)
    parser.add_argument("--handle", type=_handle, required=True, help="where the key is put")
    parser.add_argument(
        "--curve", choices=[curve.name for curve in CURVES], default="p256", help="(p256)"
    )


def _add_evict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tcti", help="only over this transport (default: every one we used)")
    _add_state(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", type=Path, metavar="result.json")


def _add_tpm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tcti", default=tpmtls.DEFAULT_TCTI, help=f"way to the TPM ({tpmtls.DEFAULT_TCTI})"
    )
    _add_deadline(parser)


def _add_deadline(parser: argparse.ArgumentParser) -> None:
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


_COMMANDS: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None]], ...] = (
    ("run", "measure this host", _add_run),
    ("doctor", "check what TLS with a TPM key assumes; changes nothing", _add_doctor),
    ("provision", "make a key to try with, and leave it in the TPM", _add_provision),
    ("evict", "free what earlier runs of ours left in the TPM", _add_evict),
    ("list", "list the scenarios", lambda _: None),
    ("show", "print a result document as text", _add_show),
)
