"""The suite's run: every operation measured, or the reason why not."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from tpm2_pytss import TSS2_Exception

from tpmbench.device import codes, stack
from tpmbench.device.operation import Job, NotRunError, Operation, WrongAnswerError
from tpmbench.device.stage import Stage
from tpmbench.measuring import Absent
from tpmbench.outcome import BenchError
from tpmbench.sampling import OneByOne, Plan, Series, interleave
from tpmtls import commands
from tpmtls.errors import DeadlineExceeded, TpmError, TransportError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tpmbench.device.stack import Stack, StackArm
    from tpmbench.measuring import Settings
    from tpmbench.sampling import Arm, Watch
    from tpmbench.tpmkeys import Keyring
    from tpmtls.transport import Transport

FLOOR = "floor"
# For one arm of one operation, warm-up apart. Encrypted parameters tell less.
_BUDGET_NS = 2_000_000_000
_CODED_BUDGET_NS = 500_000_000
_FEWEST = 3
_SLOW_DEADLINE = 600.0  # seconds: RSA key generation has a long tail
_SLOW_FACTOR = 15  # wolfTPM's bench: TPM2_BENCH_DURATION_KEYGEN_SEC over _SEC


class FloorArm(OneByOne):
    """An operation's commands, marshalled beforehand, with nothing around their round trips."""

    name = FLOOR

    def __init__(self, stage: Stage, job: Job) -> None:
        self.ready = contextlib.nullcontext
        self._stage = stage
        self._job = job
        self.checked = 0
        self.commands = 0

    def begin(self) -> None:
        """Forget what was done so far."""
        self.checked = self.commands = 0

    def sample(self) -> int:
        """Do it once and return the time of its round trips, in nanoseconds."""
        self._stage.reset()
        self._job.once()
        self.checked += 1
        self.commands += self._stage.asked
        return self._stage.elapsed_ns

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self._stage.again


class Suite:
    """Measures operations over one transport.

    Args:
        transport: without objects of ours on it.
        keyring: notes what is made, and removes it.
        settings: how many samples, and how.
        order: draws the order of turns.
        watch: is told of progress, and may end the run.
    """

    def __init__(
        self,
        transport: Transport,
        keyring: Keyring,
        settings: Settings,
        order: Random,
        watch: Watch,
    ) -> None:
        self._transport = transport
        self._keyring = keyring
        self._settings = settings
        self._order = order
        self._watch = watch

    def measure(self, operations: Sequence[Operation], into: list[dict[str, Any]]) -> None:
        """Measure operations and append a scenario each; none ends the suite.

        Args:
            operations: in the order in which they are measured.
            into: where the scenarios go, also where a later one is not reached.

        Raises:
            InterruptedRunError: a signal asked for the end.
            TransportError: the TPM cannot be reached any more.
            LeftBehindError: something of ours could not be removed.
        """
        with contextlib.ExitStack() as ours:
            keyring = self._keyring
            mark = ours.enter_context(keyring.noted())
            stage = Stage(self._transport, mark, keyring.owner, keyring.noted)
            ours.callback(stage.close)
            esapi = self._stack(stage, ours)
            for operation in operations:
                self._watch.stop.check()
                self._watch.progress.begin(operation.name)
                into.append(self._one(stage, esapi, operation))
                self._watch.progress.end()

    def _stack(self, stage: Stage, ours: contextlib.ExitStack) -> Stack | Absent:
        try:
            found = ours.enter_context(stack.opened(stage))
        except (TpmError, BenchError, TSS2_Exception) as error:
            return Absent(stack.ARM, f"ESAPI cannot be opened: {error}")
        return found or Absent(stack.ARM, stack.NO_STACK)

    def _one(self, stage: Stage, esapi: Stack | Absent, operation: Operation) -> dict[str, Any]:
        try:
            with contextlib.ExitStack() as wait:
                if operation.slow:
                    wait.enter_context(stage.long_wait(_SLOW_DEADLINE))
                return self._measured(stage, esapi, operation)
        except DeadlineExceeded:
            raise
        except TransportError as error:
            # A TPM that answers the next command has only not taken this one.
            commands.properties(self._transport, 0x100, 1)
            return not_run(operation, "transport-limit", str(error), None)
        except _FAILURES as error:
            return not_run(operation, *_meaning(error))

    def _measured(
        self, stage: Stage, esapi: Stack | Absent, operation: Operation
    ) -> dict[str, Any]:
        stage.require(operation.commands, operation.algorithms)
        with operation.prepare(stage) as job:
            floor = FloorArm(stage, job)
            plain = self._settings.max_duration_ns is None
            others, absent = _others(esapi, job, encrypted=plain and not operation.slow)
            try:
                if plain:
                    series, turns = self._by_samples(floor, others, absent, slow=operation.slow)
                else:
                    series, turns = self._by_duration(floor, others, absent, slow=operation.slow)
            finally:
                if not isinstance(esapi, Absent):
                    esapi.esys.let_go()
        return measured(operation, job, floor, series, turns, absent)

    def _by_samples(
        self, floor: FloorArm, others: list[StackArm], absent: list[Absent], *, slow: bool
    ) -> tuple[dict[str, Series], list[str]]:
        """Take so many samples of each arm, in turns, after a warm-up; fewer where it is slow."""
        trials = {floor.name: floor.sample()} | _tried(others, absent)
        settings = self._settings
        series: dict[str, Series] = {}
        turns: list[str] = []
        # Encryption may take the host far longer than the TPM: apart, so that the first arms
        # keep their number of samples.
        plain: list[Arm] = [floor, *(arm for arm in others if arm.name == stack.ARM)]
        coded: list[Arm] = [arm for arm in others if arm.name != stack.ARM]
        for arms, budget in ((plain, _BUDGET_NS), (coded, _CODED_BUDGET_NS)):
            slowest = max((trials[arm.name] for arm in arms), default=1)
            count = max(_FEWEST, min(settings.operations, budget // max(1, slowest)))
            warmup = 0 if slow else max(0, min(settings.warmup, count) - 1)  # the trial is one
            plan = Plan(count, warmup, settings.block, self._order)
            taken, order = interleave(arms, plan, self._watch)
            series |= taken
            turns += order
        for name, trial in trials.items():
            series[name].warmup_ns.insert(0, trial)
        return series, turns

    def _by_duration(
        self, floor: FloorArm, others: list[StackArm], absent: list[Absent], *, slow: bool
    ) -> tuple[dict[str, Series], list[str]]:
        """Go on until the time is up, once at the least, without warm-up: wolfTPM's rule."""
        until = (self._settings.max_duration_ns or 0) * (_SLOW_FACTOR if slow else 1)
        series: dict[str, Series] = {}
        arms: list[FloorArm | StackArm] = [floor, *others]
        for arm in arms:
            taken, total = Series(), 0
            try:
                while not taken.samples_ns or total < until:
                    self._watch.stop.check()
                    taken.samples_ns.append(arm.sample())
                    total += taken.samples_ns[-1]
            except TSS2_Exception as error:
                absent.append(Absent(arm.name, stack.said(error)))
                continue
            series[arm.name] = taken
        return series, list(series)


# UnsupportedAlgorithm: this host's software cannot check. The last ones: an answer that cannot
# be taken apart.
_FAILURES = (
    NotRunError, WrongAnswerError, TpmError, BenchError, UnsupportedAlgorithm,
    ValueError, IndexError, struct.error,
)  # fmt: skip


def _meaning(error: Exception) -> tuple[codes.Status, str, int | None]:
    """Return the status, reason and response code of an operation that failed."""
    if isinstance(error, NotRunError):
        return error.status, str(error), error.code
    told = error.__cause__ if isinstance(error, BenchError) else error  # a key was not made
    if isinstance(told, TpmError):
        return codes.status(told.code), str(error), told.code
    if isinstance(error, BenchError | UnsupportedAlgorithm):
        return "error", str(error), None
    return "error", f"wrong answer: {error}", None


def _others(
    esapi: Stack | Absent, job: Job, *, encrypted: bool
) -> tuple[list[StackArm], list[Absent]]:
    if isinstance(esapi, Absent):
        return [], [esapi]
    try:
        arms = stack.arms(esapi, job, encrypted=encrypted)
    except TSS2_Exception as error:
        return [], [Absent(stack.ARM, stack.said(error))]
    refused = esapi.refused if encrypted and len(arms) > 1 else ()
    return arms, list(refused)


def _tried(arms: list[StackArm], absent: list[Absent]) -> dict[str, int]:
    """Try each arm once; those that fail go from ``arms`` to ``absent``."""
    trials = {}
    for arm in list(arms):
        try:
            trials[arm.name] = arm.sample()
        except TSS2_Exception as error:
            arms.remove(arm)
            absent.append(Absent(arm.name, stack.said(error)))
    return trials


def measured(
    operation: Operation,
    job: Job,
    floor: FloorArm,
    series: dict[str, Series],
    turns: list[str],
    absent: list[Absent],
) -> dict[str, Any]:
    """Return an operation that was measured, as a scenario of the result document."""
    return {
        "name": operation.name,
        "curve": None,
        "status": "valid",
        "reason": None,
        "unit": "operation",
        "turns": turns,
        "arms": [
            {
                "name": name,
                "samples_ns": taken.samples_ns,
                "warmup_ns": taken.warmup_ns,
                "setup_ns": [],
                "signatures": {"signer": None, "transport": None, "peer": None},
                "resumed": None,
                "resubmitted": taken.resubmitted,
                "tpm_commands": floor.commands if name == FLOOR else None,
            }
            for name, taken in series.items()
        ],
        "absent_arms": [{"name": item.name, "reason": item.reason} for item in absent],
        "operation": {
            "title": operation.title,
            "status": "run",
            "response_code": None,
            "response_name": None,
            "bytes": job.bytes,
            "checked": floor.checked,
        },
    }


def not_run(
    operation: Operation, status: codes.Status, reason: str, code: int | None
) -> dict[str, Any]:
    """Return an operation that was not carried out, as a scenario of the result document."""
    return {
        "name": operation.name,
        "curve": None,
        "status": "invalid" if status == "error" else "not-applicable",
        "reason": reason,
        "unit": "operation",
        "turns": [],
        "arms": [],
        "absent_arms": [],
        "operation": {
            "title": operation.title,
            "status": status,
            "response_code": f"{code:#x}" if code else None,
            "response_name": codes.name(code) if code else None,
            "bytes": 0,
            "checked": 0,
        },
    }
