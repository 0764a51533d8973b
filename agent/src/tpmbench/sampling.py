"""Samples taken in turns, so that a drift of the machine meets every arm alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from tpmbench.progress import Progress
    from tpmbench.stopping import Stop


@dataclass(frozen=True)
class Plan:
    """How many samples are taken, and in which order.

    Attributes:
        samples: per arm.
        warmup: per arm, beforehand, kept apart.
        block: in a row before it is another arm's turn.
        order: draws whose turn it is.
    """

    samples: int
    warmup: int
    block: int
    order: random.Random


@dataclass
class Series:
    """What one arm's samples were.

    Attributes:
        warmup_ns: taken beforehand, in order, in nanoseconds.
        samples_ns: in order, in nanoseconds.
        resubmitted: indices of samples in which the TPM asked for a command again.
    """

    warmup_ns: list[int] = field(default_factory=list)
    samples_ns: list[int] = field(default_factory=list)
    resubmitted: list[int] = field(default_factory=list)


class Arm(Protocol):
    """One way to hold the key, ready to be sampled."""

    @property
    def name(self) -> str:
        """Its name in the result document."""

    def ready(self) -> AbstractContextManager[object]:
        """Bring about what must hold during a block, untimed."""

    def begin(self) -> None:
        """Set the counters to zero and start afresh: measuring follows."""

    def block(self, count: int, stop: Stop) -> Series:
        """Do it ``count`` times and return the samples; may end early only by an exception."""


class OneByOne(ABC):
    """An arm that does one thing after the other; the subclass says what."""

    @abstractmethod
    def sample(self) -> int:
        """Do it once and return how long it took, in nanoseconds."""

    @abstractmethod
    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again so far."""

    def block(self, count: int, stop: Stop) -> Series:
        """Take samples one after the other.

        Raises:
            InterruptedRunError: a signal asked for the end.
        """
        taken = Series()
        for index in range(count):
            stop.check()
            before = self.resubmissions()
            taken.samples_ns.append(self.sample())
            if self.resubmissions() != before:
                taken.resubmitted.append(index)
        return taken


@dataclass
class Watch:
    """Who is told of each sample, and who may end the run."""

    stop: Stop
    progress: Progress


def interleave(
    arms: Sequence[Arm], plan: Plan, watch: Watch
) -> tuple[dict[str, Series], list[str]]:
    """Sample every arm in turns.

    Args:
        arms: what is sampled.
        plan: how many samples, and in which order.
        watch: who is told.

    Returns:
        The series by arm, and the arms in the order in which they took a block.

    Raises:
        InterruptedRunError: a signal asked for the end.
    """
    series = {arm.name: Series() for arm in arms}
    for arm in arms:
        with arm.ready():
            series[arm.name].warmup_ns = arm.block(plan.warmup, watch.stop).samples_ns
        arm.begin()
    turns: list[str] = []
    total = plan.samples * len(arms)
    for done in range(0, plan.samples, plan.block):
        count = min(plan.block, plan.samples - done)
        for arm in plan.order.sample(list(arms), len(arms)):
            turns.append(arm.name)
            taken = series[arm.name]
            with arm.ready():
                block = arm.block(count, watch.stop)
            first = len(taken.samples_ns)
            taken.samples_ns += block.samples_ns
            taken.resubmitted += [first + index for index in block.resubmitted]
            watch.progress.step(sum(len(item.samples_ns) for item in series.values()), total)
    return series, turns
