"""The result document: put together, and written so that a reader never sees half of it."""

from __future__ import annotations

import datetime as dt
import json
import os
import ssl
import stat
from importlib import metadata
from typing import TYPE_CHECKING, Any

from tpmbench import __version__
from tpmbench.outcome import BenchError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "tpm-fleet-bench/result/1"


def agent() -> dict[str, str]:
    """Return the versions of what measured."""
    import platform  # noqa: PLC0415

    return {
        "version": __version__,
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "cryptography": metadata.version("cryptography"),
        "tpm2_pytss": metadata.version("tpm2-pytss"),
    }


def now() -> str:
    """Return the present instant, UTC, to the second."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write(document: dict[str, Any], path: Path) -> None:
    """Write a result document: wholly, or not at all.

    Raises:
        BenchError: it could not be written.
    """
    path = path.resolve()  # what a symbolic link points to is replaced, not the link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise BenchError(
            f"the result cannot be written to {path} ({error.strerror}); name another --output"
        ) from error


def check_writable(path: Path) -> None:
    """Check, before anything is measured, that a result can be written there.

    Raises:
        BenchError: it cannot.
    """
    place = path.resolve()
    try:
        special = stat.S_IFMT(place.stat().st_mode) != stat.S_IFREG
    except OSError:  # nothing is there, or its directory cannot be entered
        special = False
    if special:
        raise BenchError(
            f"the result cannot be written to {path}, which is no regular file; "
            "name another --output"
        )
    if not os.access(place.parent, os.W_OK | os.X_OK) or not place.parent.is_dir():
        raise BenchError(
            f"the result cannot be written to {path} (no such directory, or not writable); "
            "name another --output"
        )
