"""Imports what other benchmarks printed: recognises a file, and makes its document."""

from __future__ import annotations

import codecs
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import import_dotnet, import_go, import_tables, import_wolftpm
from collector.imported import document, slug
from collector.quantities import AmbiguousNumbersError

if TYPE_CHECKING:
    from pathlib import Path

    from collector.imported import Found

MAX_BYTES = 64 * 2**20
# PowerShell's redirection writes UTF-16; the others are told by their first bytes or by trying.
_MARKED = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class NotImportableError(ValueError):
    """A file that cannot be imported; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """A file that was imported, and its document."""

    path: Path
    document: dict[str, Any]

    @property
    def name(self) -> str:
        """Name for the document's file: the same for the same name and content."""
        return f"{slug(self.path.stem)[:80]}-{self.document['source']['sha256'][:12]}.json"


def _decode(content: bytes) -> str | None:
    for mark, encoding in _MARKED:
        if content.startswith(mark):
            encodings = [encoding]
            break
    else:
        encodings = ["utf-8", "cp1252"]
    for encoding in encodings:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return None


def recognise(content: bytes, mark: str | None = None) -> Found | None:
    """Finds out which program wrote this, and takes what it holds.

    Args:
        content: A file's bytes.
        mark: The decimal mark of BenchmarkDotNet's tables, ``.`` or ``,``; told from the
            numbers by default.

    Returns:
        None where it is none of the known formats, or holds no figure.

    Raises:
        AmbiguousNumbersError: The decimal mark cannot be told.
    """
    text = _decode(content)
    if text is None or "\0" in text:
        return None
    if text.lstrip()[:1] == "{":
        tried = import_dotnet.parse(text)
        return tried if tried is not None and tried.anything else None
    lines = text.splitlines()
    tried_all = (
        import_go.parse(lines),
        import_wolftpm.parse(lines),
        import_tables.parse_csv(lines, mark),
        import_tables.parse_markdown(lines, mark),
    )
    some = [found for found in tried_all if found is not None and found.anything]
    return max(some, key=lambda found: len(found.figures), default=None)


def import_file(path: Path, device: str | None = None, mark: str | None = None) -> Result:
    """Imports one file.

    Args:
        path: The file.
        device: The user's words for what was measured.
        mark: The decimal mark of BenchmarkDotNet's tables.

    Raises:
        NotImportableError: It cannot be read, or is in none of the known formats.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotImportableError(f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise NotImportableError(f"larger than {MAX_BYTES // 2**20} MiB")
    try:
        found = recognise(content, mark)
    except AmbiguousNumbersError as error:
        raise NotImportableError(f"{error}; say which with --decimal-mark") from None
    if found is None:
        raise NotImportableError(
            "holds no figures of go-tpm-tls-bench (text), wolfTPM's bench (text) or "
            "BenchmarkDotNet (JSON, CSV or Markdown)"
        )
    made = document(
        found,
        file=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        device=device,
    )
    return Result(path, made)


def text(result: Result) -> str:
    """The document as it is written to a file."""
    return json.dumps(result.document, indent=1, ensure_ascii=False) + "\n"
