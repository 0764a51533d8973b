"""Samples taken in turns: how many, in which order, and who may end it."""

from __future__ import annotations

import contextlib
import io
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpmbench.outcome import InterruptedRunError
from tpmbench.progress import Progress
from tpmbench.sampling import OneByOne, Plan, Series, Watch, interleave

if TYPE_CHECKING:
    from collections.abc import Iterator


class Never:
    """Nobody ends the run."""

    def check(self) -> None:
        pass


class After:
    """The run is ended at a check."""

    def __init__(self, checks: int) -> None:
        self.left = checks

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise InterruptedRunError(15)


class Recorded(OneByOne):
    """An arm that writes down what is done with it; its samples number themselves."""

    def __init__(self, name: str, log: list[str], again: frozenset[int] = frozenset()) -> None:
        self.name = name
        self._log = log
        self._again = again
        self._taken = 0
        self._asked_again = 0

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        self._log.append(f"+{self.name}")
        yield
        self._log.append(f"-{self.name}")

    def begin(self) -> None:
        self._log.append(f"0{self.name}")
        self._taken = 0

    def sample(self) -> int:
        self._log.append(self.name)
        self._asked_again += self._taken in self._again
        self._taken += 1
        return self._taken

    def resubmissions(self) -> int:
        return self._asked_again


def watch(stop: object = None) -> Watch:
    return Watch(stop or Never(), Progress(io.StringIO()))  # type: ignore[arg-type]


def plan(samples: int, warmup: int, block: int, seed: int) -> Plan:
    return Plan(samples, warmup, block, random.Random(seed))


@given(
    arms=st.integers(1, 5),
    samples=st.integers(1, 60),
    warmup=st.integers(0, 7),
    block=st.integers(1, 20),
    seed=st.integers(0, 2**32),
)
def test_every_arm_gets_exactly_its_samples_in_blocks(
    arms: int, samples: int, warmup: int, block: int, seed: int
) -> None:
    log: list[str] = []
    names = "abcde"[:arms]
    series, turns = interleave(
        [Recorded(name, log) for name in names], plan(samples, warmup, block, seed), watch()
    )
    for name in names:
        assert series[name] == Series(list(range(1, warmup + 1)), list(range(1, samples + 1)), [])
    rounds = -(-samples // block)
    assert len(turns) == rounds * arms
    for first in range(0, len(turns), arms):  # each arm once before any comes again
        assert sorted(turns[first : first + arms]) == list(names)
    # What was done is what was said: between an arm's + and - only its samples, a block at most.
    done = "".join(log[log.index("0" + names[-1]) + 1 :]).split("-")
    assert [turn[1] for turn in log if turn[0] == "+"][arms:] == turns
    assert all(len(part.lstrip("+abcde")) == 0 for part in done)
    blocks = [part.split("+")[-1][1:] for part in "".join(log).split("-") if "+" in part][arms:]
    assert all(set(part) == {turn} for part, turn in zip(blocks, turns, strict=True))
    assert {len(part) for part in blocks} <= {block, samples % block or block, samples}


def test_the_order_comes_from_the_seed_and_from_nothing_else() -> None:
    def turns(seed: int) -> list[str]:
        arms = [Recorded(name, []) for name in "abc"]
        return interleave(arms, plan(100, 0, 10, seed), watch())[1]

    assert turns(1) == turns(1)
    assert len({tuple(turns(seed)) for seed in range(20)}) == 20


def test_no_arm_is_always_first() -> None:
    arms = [Recorded(name, []) for name in "abc"]
    _, turns = interleave(arms, plan(300, 0, 1, 5), watch())
    firsts = turns[::3]
    assert all(60 < firsts.count(name) < 140 for name in "abc")


def test_counting_begins_after_the_warm_up() -> None:
    log: list[str] = []
    interleave([Recorded("a", log), Recorded("b", log)], plan(1, 2, 1, 0), watch())
    assert log[:10] == ["+a", "a", "a", "-a", "0a", "+b", "b", "b", "-b", "0b"]


def test_samples_in_which_the_tpm_asked_again_are_flagged() -> None:
    arm = Recorded("a", [], again=frozenset({0, 4, 5}))
    series, _ = interleave([arm], plan(6, 3, 2, 0), watch())
    # The warm-up's resubmission (its sample 0) is not the measurement's.
    assert series["a"].resubmitted == [0, 4, 5]


@pytest.mark.parametrize("checks", [0, 1, 3, 4, 7])
def test_the_end_comes_between_two_samples_and_leaves_nothing_ready(checks: int) -> None:
    log: list[str] = []

    class Closing(Recorded):
        @contextlib.contextmanager
        def ready(self) -> Iterator[None]:
            log.append("+")
            try:
                yield
            finally:
                log.append("-")

    arms = [Closing(name, log) for name in "ab"]
    with pytest.raises(InterruptedRunError) as caught:
        interleave(arms, plan(4, 2, 2, 0), watch(After(checks)))
    assert caught.value.number == 15
    assert log.count("+") == log.count("-")
    assert sum(item in "ab" for item in log) == checks


def test_progress_counts_up_to_the_whole() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    progress = Progress(stream)
    progress._EVERY = 0.0  # type: ignore[misc]
    progress.begin("p256 raw-signing")
    arms = [Recorded(name, []) for name in "ab"]
    interleave(arms, plan(20, 0, 10, 0), Watch(Never(), progress))  # type: ignore[arg-type]
    shown = [line.split()[-1] for line in stream.getvalue().split("\r") if line]
    assert shown == ["10/40", "20/40", "30/40", "40/40"]
