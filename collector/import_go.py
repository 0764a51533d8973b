"""Reads the text that go-tpm-tls-bench prints, and that ``tpm-tls-bench show`` prints too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from collector import labels
from collector.imported import Found, Place, slug

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "go-tpm-tls-bench"

_HEADER = re.compile(
    r"TPM key at (?P<handle>0x[0-9a-fA-F]+) on (?P<transport>.+), curve (?P<curve>\S+), "
    r"non-exportable per the TPM: (?P<non_exportable>true|false)"
)
# Headings, each with its number of samples, and our names of the scenarios under them.
_SECTIONS = (
    (re.compile(r"Raw signing, (\d+) signatures"), "raw-signing"),
    (
        re.compile(r"Persistent key with an unrelated transient object loaded, (\d+) signatures"),
        "loaded-transport",
    ),
    (
        re.compile(r"One connection per request, (\d+) connections, no resumption"),
        "handshake-new",
    ),
    (
        re.compile(r"One connection per request, (\d+) connections, session resumption"),
        "handshake-resumed",
    ),
    (re.compile(r"One connection reused for (\d+) requests"), "connection-reused"),
)
_ROW = re.compile(
    r"\s*(?P<name>\S.*?)\s+median\s+(?P<median>[0-9.]+) ms\s+p95\s+(?P<p95>[0-9.]+) ms\s+"
    r"(?P<rate>[0-9.]+) (?P<per>signature/s|conn/s|req/s)"
    r"(?:\s+(?P<signatures>[0-9]+) signatures)?(?:\s+(?P<resumed>[0-9]+) resumed)?\s*"
)
_ARMS = {title: name for name, title in labels.ARMS.items()}


def _section(line: str) -> tuple[str, str, int] | None:
    """The heading, the scenario and the samples that a line announces."""
    for pattern, scenario in _SECTIONS:
        found = pattern.fullmatch(line.strip())
        if found is not None and len(found[1]) < 16:
            return line.strip(), scenario, int(found[1])
    return None


def _take(found: Found, row: re.Match[str], at: Place, samples: int) -> bool:
    """Adds the figures of one row; says whether all of them made sense."""
    good = found.add(at, "median", row["median"], "ms", samples=samples)
    good &= found.add(at, "p95", row["p95"], "ms", samples=samples)
    good &= found.add(at, "rate", row["rate"], row["per"], samples=samples)
    for count in ("signatures", "resumed"):
        if row[count] is not None:
            good &= found.add(at, count, row[count], count, samples=samples)
    return good


def parse(lines: Sequence[str]) -> Found:
    """Takes what the lines hold; one file may hold several runs, one after another."""
    found = Found(FORMAT)
    curve: tuple[tuple[str, str], ...] = ()
    section: tuple[str, str, int] | None = None
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        header, row = _HEADER.fullmatch(line.strip()), _ROW.fullmatch(line)
        if header is not None:
            curve, section = (("curve", header["curve"]),), None
            seen.clear()
            for name, value in header.groupdict().items():
                found.say(name.replace("_", " "), value)
        elif (announced := _section(line)) is not None:
            section = announced
            seen.add(section[1])
        elif row is not None and section is not None:
            heading, scenario, samples = section
            arm = _ARMS.get(row["name"], slug(row["name"]))
            at = Place(heading, row["name"], f"{scenario}/{arm}", curve)
            if not _take(found, row, at, samples):
                found.puzzle(f"line {number}", line)
        elif line.strip():
            found.puzzle(f"line {number}", line)
    found.missing.extend(name for _, name in _SECTIONS if name not in seen)
    return found
