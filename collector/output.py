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


class UsageError(ValueError):
    """What the user asked for cannot be done; the message says why and what to do."""


def _same(part: Path, path: Path) -> bool:
    return path.is_file() and filecmp.cmp(part, path, shallow=False)


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
    parts = [path.with_name(f".{path.name}.part") for path in paths]
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(part.open("w", encoding="utf-8", newline="\n")) for part in parts
        ]
        for piece in pieces:
            for file, text in zip(files, piece, strict=True):
                file.write(text)
    changed = []
    for part, path in zip(parts, paths, strict=True):
        if _same(part, path):
            part.unlink()
        else:
            part.replace(path)
            changed.append(path)
    return changed


def write(path: Path, pieces: Iterable[str]) -> bool:
    """Writes one file, and says whether that changed it.

    Raises:
        OSError: It cannot be written.
    """
    return bool(write_together((path,), ((piece,) for piece in pieces)))


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
