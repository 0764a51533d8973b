"""Writes files whole, and only where they differ from what is there.

A reader sees either the old file or all of the new one. A file that would be the same is left
alone, its time stamp included, so that what watches a report sees a change only where one is.
"""

from __future__ import annotations

import contextlib
import filecmp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


# Bytes. A fleet's files take gigabytes, which Python's own buffer hands over in 8 KiB.
_BUFFER = 2**20


class UsageError(ValueError):
    """What the user asked for cannot be done; the message says why and what to do."""


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _put(path: Path) -> bool:
    """Puts what was written in the file's place; says whether that changed it."""
    part = _part(path)
    if path.is_file() and filecmp.cmp(part, path, shallow=False):
        part.unlink()
        return False
    part.replace(path)
    return True


def write_together(paths: Sequence[Path], pieces: Iterable[Sequence[str]]) -> list[Path]:
    """Writes several files that come out of one pass.

    Args:
        paths: The files.
        pieces: What to append next to each of them, in their order.

    Returns:
        Those of the files that were not there, or were other than they are now.

    Raises:
        OSError: One of them cannot be written.
    """
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(_part(path).open("w", _BUFFER, encoding="utf-8", newline="\n"))
            for path in paths
        ]
        for piece in pieces:
            for file, text in zip(files, piece, strict=True):
                file.write(text)
    return [path for path in paths if _put(path)]


def write(path: Path, pieces: Iterable[str]) -> bool:
    """Writes one file, and says whether that changed it.

    Raises:
        OSError: It cannot be written.
    """
    with _part(path).open("w", _BUFFER, encoding="utf-8", newline="\n") as file:
        file.writelines(pieces)
    return _put(path)


@contextlib.contextmanager
def into(folder: Path) -> Iterator[None]:
    """Makes the folder that ``--output`` names, and says so where it cannot be written to.

    Raises:
        UsageError: It cannot be made, or a file in it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(
            f"--output {folder}: cannot be written: {error.strerror}. Name a folder of yours."
        ) from None
