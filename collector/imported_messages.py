"""Message sizes in what BenchmarkDotNet printed: which operation, curve, key and size a row is of.

Its rows say so in free words: in the heading above the table, the method's name and its
parameters. What they do not say stays open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.load import Document, Imported

_FORMATS = "benchmarkdotnet"
# In this order: "TPM" is in "Non TPM" too.
_KEYS = (
    ("software", re.compile(r"\bnon[-_ ]?tpm|\bsoftware", re.IGNORECASE)),
    ("tpm", re.compile(r"tpm|platform crypto", re.IGNORECASE)),
)
_CURVE = re.compile(r"P[-_ ]?(256|384|521)(?![0-9])", re.IGNORECASE)
_OPERATIONS = (("message-size-verify", "verify"), ("message-size-sign", "sign"))
# BenchmarkDotNet shortens a long parameter and ends it in its length: High(...)ory. [1024]
_LENGTH = re.compile(r"\[([0-9]{1,9})\]")
_MESSAGE = re.compile("message|input|text|data|payload", re.IGNORECASE)
_SIZE = re.compile("size|length|bytes", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of an imported table.

    Attributes:
        scenario: Our name of what was done.
        curve: The curve; empty where the words do not say.
        key: ``tpm`` or ``software``; empty where the words do not say.
        size: Bytes of the message.
        figures: The document's figures, by statistic.
    """

    scenario: str
    curve: str
    key: str
    size: int
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)


def _size(parameters: dict[str, str]) -> int | None:
    for name, value in parameters.items():
        shortened = _LENGTH.search(value)
        if shortened is not None:
            return int(shortened[1])
        if _SIZE.search(name) and value.isascii() and value.isdigit():
            return int(value[:9])
        if _MESSAGE.search(name):
            return len(value.encode())
    return None


def _first(words: list[str], found: re.Pattern[str]) -> str:
    return next((match[1] for match in map(found.search, words) if match), "")


def _key(words: list[str]) -> str:
    """The first words that say anything of the key decide: the heading before the device."""
    for said in words:
        for key, pattern in _KEYS:
            if pattern.search(said):
                return key
    return ""


def message_rows(document: Document) -> list[Row]:
    """The rows on signing and verifying messages, in the document's order."""
    rows: dict[tuple[str, str, str, int], Row] = {}
    if not document["format"].startswith(_FORMATS):
        return []
    for figure in document["figures"]:
        method = f"{figure['name']} {figure['operation']}".lower()
        scenario = next((name for name, word in _OPERATIONS if word in method), None)
        size = _size(figure["parameters"])
        if scenario is None or size is None:
            continue
        words = [figure["section"] or "", figure["name"], *figure["parameters"].values()]
        words.append(document["device"] or "")
        bits = _first(words, _CURVE)
        at = (scenario, f"p{bits}" if bits else "", _key(words), size)
        rows.setdefault(at, Row(*at)).figures[figure["statistic"]] = figure
    return list(rows.values())


def title(one: Imported) -> str:
    """Whose figures these are: the user's words, or the file; always marked as imported."""
    file = one.document["source"]["file"]
    device = one.document["device"]
    return f"{device} (imported from {file})" if device else f"{file} (imported)"
