"""Which arms of a scenario are set against each other, within one host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector.sample import Sample, ratio_of_medians

if TYPE_CHECKING:
    from collections.abc import Mapping

    from collector.stats import Interval


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms of one scenario: the first arm's median over the second's."""

    numerator: str
    denominator: str

    @property
    def name(self) -> str:
        """Both arms' names."""
        return f"{self.numerator}/{self.denominator}"


MAIN = Comparison("tpm-persistent", "software")

COMPARISONS = (
    MAIN,
    Comparison("tpm-transient", "tpm-persistent"),
    Comparison("same-transport", "nothing-loaded"),
    Comparison("other-transport", "nothing-loaded"),
    Comparison("tpm-persistent", "floor"),
    Comparison("software", "software-native"),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A comparison's ratio on one host, with its within-host interval."""

    comparison: Comparison
    ratio: Interval


def ratios(samples: Mapping[str, Sample]) -> tuple[Ratio, ...]:
    """Works out every comparison whose two arms are among one scenario's samples, by arm name."""
    found = []
    for comparison in COMPARISONS:
        if comparison.numerator in samples and comparison.denominator in samples:
            ratio = ratio_of_medians(samples[comparison.numerator], samples[comparison.denominator])
            if ratio is not None:
                found.append(Ratio(comparison, ratio))
    return tuple(found)
