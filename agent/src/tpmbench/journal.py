"""Which keys in the TPM are ours, written down before they exist.

One small file per key in the state directory. A key is known by its mark, a random
policy digest in its public area, from before the TPM makes it, and by its Name from
before it becomes persistent. Nothing that the journal cannot prove ours is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpmbench.outcome import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Entry:
    """One key.

    Attributes:
        mark: its policy digest, in hexadecimal.
        tcti: the transport it was made over.
        handle: the persistent handle it is meant for, or None for a transient key.
        name: its Name in hexadecimal, or None until the TPM has made it.
        boot_id: the kernel's identifier of the boot it was made in.
    """

    mark: str
    tcti: str
    handle: int | None
    name: str | None
    boot_id: str | None


class Journal:
    """The entries under a state directory.

    Raises:
        BenchError: the directory cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "journal"
        self._lock_path = directory / "lock"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(_unusable(directory, error)) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs on this host out; what the journal then holds is of dead runs.

        Raises:
            BenchError: another run is under way.
        """
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BenchError(_unusable(self._lock_path.parent, error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BenchError(
                f"another tpm-tls-bench is at work with {self._lock_path.parent}; "
                "wait for it to end"
            ) from None
        try:
            for draft in self._directory.glob("*.new"):  # of a run that was killed as it wrote
                draft.unlink()
            yield
        finally:
            os.close(descriptor)

    def entries(self) -> list[Entry]:
        """Read every entry.

        Raises:
            BenchError: an entry cannot be read.
        """
        return [self._read(path) for path in sorted(self._directory.glob("*.json"))]

    def _read(self, path: Path) -> Entry:
        try:
            entry = Entry(**json.loads(path.read_text()))
            _check(entry, path.stem)
        except (OSError, ValueError, TypeError) as error:
            raise BenchError(
                f"the journal entry {path} cannot be read ({error}); look at the TPM's persistent "
                "handles yourself and remove the file"
            ) from error
        return entry

    def write(self, entry: Entry) -> None:
        """Write an entry so that it survives a power cut.

        Raises:
            BenchError: the disk does not take it.
        """
        path = self._path(entry)
        draft = path.with_suffix(".new")
        try:
            with draft.open("w") as file:
                json.dump(asdict(entry), file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            self._sync()
        except OSError as error:
            raise BenchError(_unusable(self._directory, error)) from error

    def name(self, entry: Entry, name: bytes) -> Entry:
        """Note the Name of a key that the TPM has made."""
        named = replace(entry, name=name.hex())
        self.write(named)
        return named

    def remove(self, entry: Entry) -> None:
        """Forget a key that is gone from the TPM."""
        self._path(entry).unlink(missing_ok=True)
        self._sync()

    def _path(self, entry: Entry) -> Path:
        return self._directory / f"{entry.mark}.json"

    def _sync(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check(entry: Entry, mark: str) -> None:
    """Refuse an entry that this program did not write: it would prove too much.

    A transient object is ours by its mark, and an empty mark is every ordinary key's.
    """
    texts = (entry.tcti, entry.name or "", entry.boot_id or "")
    if not all(isinstance(text, str) for text in (entry.mark, *texts)):
        raise TypeError("a text is missing")
    if entry.mark != mark or not re.fullmatch(r"[0-9a-f]{64}", mark):
        raise ValueError("its mark is not that of its file")
    if entry.handle is not None and not isinstance(entry.handle, int):
        raise TypeError("its handle is no number")


def default_state_directory() -> Path:
    """Return /var/lib/tpm-tls-bench for root, else the user's state directory (XDG)."""
    if os.geteuid() == 0:
        return Path("/var/lib/tpm-tls-bench")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tpm-tls-bench"


def _unusable(directory: Path, error: OSError) -> str:
    return (
        f"the state directory {directory} cannot be used ({error.strerror}); "
        "name another one with --state-dir"
    )
