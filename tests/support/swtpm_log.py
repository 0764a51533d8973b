"""The TPM commands in swtpm's log (``--log level=20``): what the TPM itself was given."""

from __future__ import annotations

import re
from collections import Counter

_NAMES = {
    0x131: "CreatePrimary",
    0x144: "Startup",
    0x15D: "Sign",
    0x161: "ContextLoad",
    0x162: "ContextSave",
    0x165: "FlushContext",
    0x173: "ReadPublic",
    0x176: "StartAuthSession",
    0x17A: "GetCapability",
    0x17B: "GetRandom",
}
_GET_RANDOM = 0x17B
_BYTES = re.compile(r" ?(?:[0-9A-F]{2} )+")

BEGIN, END = 20, 40
"""A test marks its n-th stretch by asking for BEGIN + n and END + n random bytes."""


def commands(log: str) -> list[bytes]:
    """Return every command, in order."""
    found = []
    lines = iter([*log.splitlines(), ""])
    line = next(lines)
    while True:
        if "SWTPM_IO_Read: length" in line:
            body = ""
            line = next(lines)
            while _BYTES.fullmatch(line):
                body += line
                line = next(lines)
            found.append(bytes.fromhex(body))
            continue
        following = next(lines, None)
        if following is None:
            return found
        line = following


def name(command: bytes) -> str:
    """Return a command's name, or its code in hexadecimal."""
    code = int.from_bytes(command[6:10])
    return _NAMES.get(code, f"{code:#x}")


def marked(log: str, number: int) -> Counter[str]:
    """Count the commands of a marked stretch, by name."""
    counting, counts = False, Counter[str]()
    for command in commands(log):
        mark = _random_bytes_asked(command)
        if mark == BEGIN + number:
            counting, counts = True, Counter()
        elif mark == END + number and counting:
            return counts
        elif counting:
            counts[name(command)] += 1
    raise AssertionError(f"stretch {number} is not in the log")


def _random_bytes_asked(command: bytes) -> int | None:
    if int.from_bytes(command[6:10]) != _GET_RANDOM or len(command) != 12:
        return None
    return int.from_bytes(command[10:12])
