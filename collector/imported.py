"""What an importer finds, and the document that is made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from collector import quantities
from collector.text import visible

if TYPE_CHECKING:
    from decimal import Decimal

SCHEMA = "tpm-fleet-bench/imported/1"
# Longer lines are shortened where they are listed as not understood.
LINE = 200


def slug(words: str) -> str:
    """A stable name out of printed words: ``RSA 2048 Pub  OAEP`` gives ``rsa-2048-pub-oaep``."""
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-") or "unnamed"


@dataclass
class Found:
    """What was found in one file, in its order.

    Attributes:
        format: Name of the format.
        about: Words about the device, the host and the settings, each with its name.
        figures: Members of the document's ``figures``.
        not_run: Operations that were not carried out, with the reason printed.
        unknown: Places that were not understood or hold nothing to import, with their text.
        missing: Operations that this program prints and that are not there: the run stopped.
    """

    format: str
    about: list[dict[str, str]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    not_run: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[dict[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        """Whether there is anything to import."""
        return bool(self.figures or self.not_run)

    def say(self, name: str, value: str) -> None:
        """Keeps words about what was measured."""
        self.about.append({"name": visible(name), "value": visible(value)})

    def add(
        self,
        at: Place,
        statistic: str,
        printed: str,
        unit: str,
        value: Decimal | None = None,
        samples: int | None = None,
    ) -> bool:
        """Adds a figure.

        Args:
            at: What it is a figure of.
            statistic: Which one.
            printed: The number as it stands in the file.
            unit: The unit as it stands there.
            value: The number; worked out of ``printed``, with a decimal point, by default.
            samples: How many samples it comes from, where stated.

        Returns:
            False where number or unit make no sense; nothing is added then.
        """
        number = quantities.exact(printed) if value is None else value
        converted = None if number is None else quantities.in_field(number, unit)
        if converted is None:
            return False
        figure = at.members() | {"statistic": statistic, "printed": printed, "unit": unit}
        self.figures.append(figure | {"samples": samples} | dict([converted]))
        return True

    def skip(self, at: Place, reason: str) -> None:
        """Notes an operation that was not carried out."""
        self.not_run.append(at.members() | {"reason": visible(reason)[:LINE] or "not stated"})

    def puzzle(self, where: str, text: str) -> None:
        """Lists a place that was not understood."""
        self.unknown.append({"where": visible(where), "text": visible(text)[:LINE]})


@dataclass(frozen=True)
class Place:
    """What a figure is of: section and name as printed, a stable name, and what it varies by."""

    section: str | None
    name: str
    operation: str
    parameters: tuple[tuple[str, str], ...] = ()

    def members(self) -> dict[str, Any]:
        """The members of an imported document's figure that say so."""
        return {
            "section": None if self.section is None else visible(self.section),
            "name": visible(self.name),
            "operation": visible(self.operation),
            "parameters": {visible(name): visible(value) for name, value in self.parameters},
        }


def document(
    found: Found, *, file: str, sha256: str, size_bytes: int, device: str | None
) -> dict[str, Any]:
    """Makes the document of ``schema/imported.schema.json``.

    Args:
        found: What the file holds.
        file: Its name.
        sha256: Its SHA-256, in hexadecimal.
        size_bytes: Its size.
        device: The user's own words for what was measured.
    """
    return {
        "schema": SCHEMA,
        "source": {"file": visible(file), "sha256": sha256, "size_bytes": size_bytes},
        "format": found.format,
        "device": None if device is None else visible(device),
        "about": found.about,
        "figures": found.figures,
        "not_run": found.not_run,
        "missing": found.missing,
        "unknown": found.unknown,
    }
