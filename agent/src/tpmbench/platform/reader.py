"""What a reader of evidence is: a source, a way to read it, and what its values mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpmbench.platform.model import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpmbench.platform.host import Host


@dataclass(frozen=True)
class Reader:
    """One source of evidence.

    Attributes:
        source: Its name.
        read: Reads its value; None where it is absent or unreadable.
        meanings: Pairs of a regular expression and what a value that it finds says; first wins.
        absent: What it says when there is no value.
    """

    source: str
    read: Callable[[Host], str | None]
    meanings: tuple[tuple[str, str], ...]
    absent: str

    def observe(self, host: Host) -> Evidence:
        """Reads the source on ``host`` and says what was found."""
        value = self.read(host)
        if value is None:
            return Evidence(self.source, None, self.absent)
        for pattern, says in self.meanings:
            if re.search(pattern, value):
                return Evidence(self.source, value, says)
        return Evidence(self.source, value, "nothing that this version knows how to read")
