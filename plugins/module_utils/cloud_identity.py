"""SSH host keys in what a VM prints on its console, the same in every cloud: cloud-init's block."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HOST_KEY = re.compile(
    r"^((?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,2})(?:\s.*)?$"
)
# What cloud-init prints at the end of the first boot.
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"


def keys_in(lines: Iterable[str]) -> list[str]:
    """The host keys among lines, as ``type base64``."""
    return [found[1] for line in lines if (found := HOST_KEY.match(line.strip()))]


def keys_on_console(text: str) -> list[str]:
    """The host keys in the last whole block on a console; none until the block is whole."""
    lines = [line.strip() for line in text.splitlines()]
    if END not in lines or BEGIN not in lines:
        return []
    # A VM that was made anew under the same name begins a new console; the last block counts.
    end = len(lines) - 1 - lines[::-1].index(END)
    begin = max((place for place in range(end) if lines[place] == BEGIN), default=end)
    return keys_in(lines[begin:end])


def silent(name: str, state: str) -> str:
    """Why no host keys are waited for any longer: the VM does not run.

    Args:
        name: of the VM.
        state: in the cloud's words.
    """
    return (
        f"{name} is {state} and has published no SSH host keys; it was stopped or removed by "
        "someone, or its deadline passed. Run again."
    )
