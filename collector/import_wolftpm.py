"""Reads what wolfTPM's examples/bench/bench prints: its lines, old and new, and its table (--md).

Its formats are the printf calls of wolfTPM's bench.c, releases 2018 to 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from collector.imported import Found, Place, slug

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "wolftpm-bench"

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_SYMMETRIC = re.compile(
    rf"(?P<name>\S.*?)\s+(?P<done>[0-9]+) (?P<unit>bytes|[KkMm]B) took\s+(?P<elapsed>{_NUMBER}) "
    rf"seconds,\s+(?P<rate>{_NUMBER}) (?P=unit)/s"
)
_ASYMMETRIC = re.compile(
    rf"(?P<name>\S.*?)\s+(?P<done>[0-9]+) ops took\s+(?P<elapsed>{_NUMBER}) sec, "
    rf"avg\s+(?P<mean>{_NUMBER}) ms,\s+(?P<rate>{_NUMBER}) ops/sec"
)
_NOT_RUN = (
    re.compile(r"Benchmark symmetric (?P<name>\S.*?) (?P<reason>not supported)!?"),
    re.compile(r"(?P<name>\S.*?)\s+Skipped \((?P<reason>.+)\)"),
)
_UNAVAILABLE = "Encrypt/Decrypt unavailable"
_TABLE_HEAD = ["Algorithm", "Level", "Operation", "Avg latency", "Throughput"]
# Lines that carry no figure, and the name under which their words are kept.
_ABOUT = (
    (re.compile(r"TPM2 Benchmark using (Wrapper API's)"), "program"),
    (re.compile(r"Use Parameter Encryption: (.+)"), "parameter encryption"),
    (re.compile(r"Loading SRK: (.+)"), "storage key"),
    (re.compile(r"TPM2_StartAuthSession: (.+)"), "session"),
    (re.compile(r"TPM2: (Caps .+)"), "TPM"),
    (re.compile(r"(?:.*[$#] ?)?((?:sudo )?\S*bench/bench(?: .*)?)"), "command"),
    (re.compile(r"(Failure 0x[0-9a-fA-F]+: .*)"), "failure"),
    (re.compile(r"(wolfTPM2_Init failed)"), "failure"),
)
# In the order of printing; what follows the last one seen is missing where the run stopped.
_ORDER = (
    "rng",
    *(
        f"aes-{bits}-{mode}-{way}"
        for mode in ("cbc", "ctr", "cfb")
        for bits in (128, 256)
        for way in ("enc", "dec")
    ),
    *("sha1", "sha256", "sha384", "sha512"),
    *("rsa-2048-key-gen", "rsa-2048-public", "rsa-2048-private"),
    *("rsa-2048-pub-oaep", "rsa-2048-priv-oaep"),
    *("ecc-256-key-gen", "ecdsa-256-sign", "ecdsa-256-verify", "ecdhe-256-agree"),
)


def _place(name: str) -> Place:
    words = " ".join(name.split())
    return Place(None, words, slug(words))


def _symmetric(found: Found, row: re.Match[str], reason: str) -> bool:
    at = _place(row["name"])
    if int(row["done"][:16]) == 0:
        found.skip(at, reason)
        return True
    good = found.add(at, "rate", row["rate"], f"{row['unit']}/s")
    good &= found.add(at, "processed", row["done"], row["unit"])
    return found.add(at, "elapsed", row["elapsed"], "seconds") and good


def _asymmetric(found: Found, row: re.Match[str]) -> bool:
    at = _place(row["name"])
    if len(row["done"]) > 15 or int(row["done"]) == 0:
        return False
    samples = int(row["done"])
    good = found.add(at, "mean", row["mean"], "ms", samples=samples)
    good &= found.add(at, "rate", row["rate"], "ops/sec", samples=samples)
    return found.add(at, "elapsed", row["elapsed"], "sec", samples=samples) and good


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]


def _table_row(found: Found, cells: list[str]) -> bool:
    """A row of the table that --md prints: algorithm, level, operation, latency, throughput."""
    if cells == _TABLE_HEAD or set("".join(cells)) == {"-"}:
        return True
    if len(cells) != len(_TABLE_HEAD) or not cells[0]:
        return False
    at = _place(" ".join(part for part in cells[:3] if part))
    latency, rate = cells[3:]
    if latency == "N/A":
        found.skip(at, rate)
        return True
    good = True
    for statistic, cell in (("mean", latency), ("rate", rate)):
        if cell != "-":
            printed, _, unit = cell.partition(" ")
            good &= found.add(at, statistic, printed, unit)
    return good


def _words(found: Found, line: str) -> bool:
    for pattern, name in _ABOUT:
        kept = pattern.fullmatch(line)
        if kept is not None:
            found.say(name, kept[1])
            return True
    return False


def _line(found: Found, line: str, before: str, *, table: bool) -> bool:
    """Takes one line; says whether it was understood.

    Args:
        found: What the figures are added to.
        line: The line.
        before: The line before it.
        table: Whether the head of the table that --md prints was seen.
    """
    if table and line.startswith("|"):
        return _table_row(found, _cells(line))
    row = _SYMMETRIC.fullmatch(line)
    if row is not None:
        return _symmetric(found, row, before if before == _UNAVAILABLE else "no operation done")
    row = _ASYMMETRIC.fullmatch(line)
    if row is not None:
        return _asymmetric(found, row)
    for pattern in _NOT_RUN:
        skipped = pattern.fullmatch(line)
        if skipped is not None:
            found.skip(_place(skipped["name"]), skipped["reason"])
            return True
    return line == _UNAVAILABLE or _words(found, line)


def parse(lines: Sequence[str]) -> Found:
    """Takes what the lines hold. wolfCrypt's own benchmark prints MiB and is not taken for it."""
    found = Found(FORMAT)
    before, table = "", False
    for number, whole in enumerate(lines, 1):
        line = whole.strip()
        table = table or _cells(line) == _TABLE_HEAD
        if line and not _line(found, line, before, table=table):
            found.puzzle(f"line {number}", whole)
        before = line
    seen = [one["operation"] for one in (*found.figures, *found.not_run)]
    known = [_ORDER.index(name) for name in seen if name in _ORDER]
    # The newer programs can be told to run some post-quantum operations only after these.
    last = max(known, default=-1)
    found.missing.extend(_ORDER[last + 1 :])
    return found
