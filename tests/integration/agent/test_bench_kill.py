"""SIGKILL at many moments of a run; then the next run or ``evict`` clears up, and only ours.

Every killing happens beside objects of another program: a persistent key and a loaded one. What
is in the TPM is read with the TSS's ESAPI.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support import swtpm as software_tpm
from tests.support import tpm
from tests.support.agent import QUICK, Agent, sentence, wait_for_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.swtpm import Handles, Swtpm

pytestmark = [pytest.mark.swtpm, pytest.mark.timeout(900)]  # a busy machine may take long

SCENARIOS = ("--scenario", "raw-signing", "--scenario", "handshake-new")
RUN = ("run", *QUICK, *SCENARIOS)
# Long enough that most moments fall after the program's start.
KILLED = ("run", *QUICK, "--signatures", "24", "--connections", "6", *SCENARIOS)
SPREAD = 20
STRANGER = 0x81000005


@dataclass(frozen=True)
class Killing:
    """One run that was killed, and what became of it.

    Attributes:
        moment: when it was killed.
        journal: how many entries the journal had then.
        dirty: what was in the TPM then.
        remedy: the command that was to clear up.
        done: how that went.
        after: what was in the TPM at the end.
        litter: the journal's files at the end.
    """

    moment: str
    journal: int
    dirty: Handles
    remedy: str
    done: subprocess.CompletedProcess[str]
    after: Handles
    litter: list[Path]


class Killings:
    """Many of them, on one TPM."""

    def __init__(self, software: Swtpm, directory: Path) -> None:
        self.tpm = software
        tpm.put_key(self.tpm.tcti, STRANGER)
        with tpm.esapi(self.tpm.tcti) as esys:
            tpm.make_key(esys, seed=b"a stranger's")
        self.before = self.tpm.handles()
        self.agent = Agent(self.tpm.tcti, directory)
        self.all: list[Killing] = []
        duration = self._duration()
        for index in range(SPREAD):
            delay = duration * (index + 0.5) / SPREAD
            while not self._kill(f"after {delay * 1000:.0f} ms", _sleeping(delay)):
                delay *= 0.8  # this run was quicker than the one that was measured
        for extra in (0.0, 0.002, 0.004):
            for event in ("mark", "name"):
                for nth in (1, 2):
                    self._kill(
                        f"{extra * 1000:.0f} ms after {event} {nth} was written",
                        self._watching(event, nth, extra),
                    )

    def _duration(self) -> float:
        started = time.monotonic()
        done = self.agent(*KILLED)
        assert done.returncode == 0, done.stderr
        return time.monotonic() - started

    def _kill(self, moment: str, wait: Callable[[subprocess.Popen[str]], None]) -> bool:
        """Kill a run, clear up after it, and return whether it was killed in time."""
        process = self.agent.start(*KILLED, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(process)
        ended = process.poll() is not None
        process.kill()
        process.wait()
        if ended:
            return False
        journal = len(self.agent.journal_files())
        dirty = self.tpm.handles()
        remedy = ("run", "evict")[len(self.all) % 2]
        command = ("evict",) if remedy == "evict" else ("run", *QUICK, *SCENARIOS[:2])
        done = self.agent(*command)
        self.all.append(
            Killing(
                moment, journal, dirty, remedy, done,
                self.tpm.handles(), self.agent.journal_files(),
            )
        )  # fmt: skip
        return True

    def _watching(
        self, event: str, nth: int, extra: float
    ) -> Callable[[subprocess.Popen[str]], None]:
        """Return a wait until the n-th key's mark or Name is in the journal."""

        def wait(process: subprocess.Popen[str]) -> None:
            seen: set[str] = set()
            while len(seen) < nth and process.poll() is None:
                with contextlib.suppress(OSError, ValueError):  # it changes as we read
                    for entry in self.agent.journal():
                        # Transient keys never get a Name; the second key's mark does for them.
                        if event == "mark" or entry["name"] or (nth > 1 and seen):
                            seen.add(entry["mark"])
            time.sleep(extra)

        return wait


def _sleeping(seconds: float) -> Callable[[subprocess.Popen[str]], None]:
    return lambda _process: time.sleep(seconds)


@pytest.fixture(scope="module")
def killings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killings]:
    directory = tmp_path_factory.mktemp("killings")
    with software_tpm.running(directory / "tpm") as software:
        yield Killings(software, directory)


def test_there_were_at_least_30_and_they_did_harm(killings: Killings) -> None:
    """Otherwise the tests below would prove nothing."""
    assert len(killings.all) >= 30
    left = [killing.dirty for killing in killings.all if killing.dirty != killings.before]
    assert len(left) >= 10
    assert any(dirty.persistent != killings.before.persistent for dirty in left)
    assert any(dirty.transient != killings.before.transient for dirty in left)
    assert any(killing.journal == 0 for killing in killings.all), "none was early or late"


def test_the_next_command_leaves_exactly_what_was_there_before(killings: Killings) -> None:
    wrong = {
        killing.moment: (killing.remedy, killing.done.stderr, killing.after)
        for killing in killings.all
        if killing.after != killings.before or killing.done.returncode != 0
    }
    assert wrong == {}


def test_both_remedies_cleared_up(killings: Killings) -> None:
    for remedy in ("run", "evict"):
        assert any(
            killing.remedy == remedy and killing.dirty != killings.before
            for killing in killings.all
        )


def test_the_journal_is_empty_afterwards(killings: Killings) -> None:
    litter = {killing.moment: killing.litter for killing in killings.all if killing.litter}
    assert litter == {}


def test_no_process_outlives_the_agent(killings: Killings) -> None:
    assert killings.all
    listing = subprocess.run(
        ["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    assert killings.tpm.tcti not in listing


@pytest.mark.parametrize("remedy", ["run", "evict", "run --handle"])
def test_a_strangers_key_at_the_journals_handle_is_never_touched(
    swtpm: Swtpm, agent: Agent, remedy: str
) -> None:
    handle = _killed_with_its_key_named(agent)
    tpm.evict(swtpm.tcti, handle)
    tpm.flush_all(swtpm.tcti)
    name = tpm.put_key(swtpm.tcti, handle, seed=b"a stranger's")
    strangers = swtpm.handles()
    assert strangers == (frozenset({(handle, name)}), frozenset())

    if remedy == "evict":
        done = agent("evict")
    elif remedy == "run":
        done = agent(*RUN)
    else:
        done = agent(*RUN, "--handle", f"{handle:#010x}")
        assert f"{handle:#010x} is taken by a key that is not ours" in sentence(done)
    assert done.returncode == (3 if remedy == "run --handle" else 0), done.stderr
    assert swtpm.handles() == strangers
    assert agent.journal_files() == []


def _killed_with_its_key_named(agent: Agent) -> int:
    """Kill a run that has a persistent key, and return the handle that its journal names."""
    process = agent.start(*RUN, "--signatures", "2000")
    try:
        wait_for_line(process, "p256 raw-signing")
    finally:
        process.kill()
        process.communicate()
    (entry,) = [entry for entry in agent.journal() if entry["name"]]
    handle: int = entry["handle"]
    return handle
