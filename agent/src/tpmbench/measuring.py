"""From arms to a scenario of the result document: timed, counted, checked."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tpmbench.counting import SIGNING, counted
from tpmbench.sampling import Arm, Plan, Watch, interleave
from tpmtls.errors import TpmError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence
    from random import Random

    from tpmbench.counting import CommandCounter
    from tpmtls import Transport


@dataclass(frozen=True)
class Settings:
    """What was asked for, as the result document's ``settings`` keep it.

    Attributes:
        signatures: per arm.
        connections: per arm.
        warmup: samples per arm, taken beforehand.
        block: samples in a row before it is another arm's turn.
        deadline: longest wait for the TPM, in seconds.
        operations: per arm of the device suite, the most.
        max_duration_ns: how long an operation of the device suite goes on, as wolfTPM's bench
            has it, in nanoseconds; None where ``operations`` counts instead.
        counter: counts the commands that reach the TPM itself; None where nothing can.
    """

    signatures: int
    connections: int
    warmup: int
    block: int
    deadline: float
    operations: int = 100
    max_duration_ns: int | None = None
    counter: CommandCounter | None = None


@dataclass(frozen=True)
class Crowd:
    """Several clients at once, as optional fields of the arm in the result document.

    Attributes:
        clients: how many.
        elapsed_ns: wall time of all samples, in nanoseconds.
        waited_ns: time that signatures queued for the TPM's transport, added up, in
            nanoseconds; None for a key that is not in the TPM.
    """

    clients: int
    elapsed_ns: int
    waited_ns: int | None


@dataclass(frozen=True)
class Counts:
    """What an arm did since it began, counted in two of the three places.

    Attributes:
        signer: calls of the key's sign operation; None where they cannot be seen.
        peer: signatures that verified with the arm's public key.
        resumed: connections resumed, by the server's word; None without connections.
        setup_ns: connections opened and not timed in a sample, in nanoseconds.
        fault: what must not have happened, or None.
        crowd: what is known where several clients were at it at once.
    """

    signer: int | None
    peer: int
    resumed: int | None = None
    setup_ns: tuple[int, ...] = ()
    fault: str | None = None
    crowd: Crowd | None = None


class CountedArm(Arm, Protocol):
    """An arm that knows what it did."""

    @property
    def transport(self) -> Transport | None:
        """What it signs over; None for a key that is not in the TPM."""

    def counts(self) -> Counts:
        """Return what was done since :meth:`begin`."""


@dataclass(frozen=True)
class Absent:
    """An arm that could not be measured here."""

    name: str
    reason: str


def measure(
    name: str,
    curve: str,
    unit: str,
    arms: Sequence[CountedArm],
    samples: int,
    settings: Settings,
    order: Random,
    watch: Watch,
    absent: Sequence[Absent] = (),
) -> dict[str, Any]:
    """Measure a scenario and return it for the result document.

    The arms are timed in turns. Then each arm with a TPM goes through the same once
    more, untimed, with its transport counted. A failed signature or connection makes the
    scenario invalid; a TPM that is gone ends the run.

    Raises:
        InterruptedRunError: a signal asked for the end.
        TransportError: the TPM cannot be reached any more.
    """
    plan = Plan(samples, settings.warmup, settings.block, order)
    try:
        series, turns = interleave(arms, plan, watch)
        counts = {arm.name: arm.counts() for arm in arms}
        seen = {arm.name: _commands(arm, samples, settings.counter, watch) for arm in arms}
    except (TpmError, OSError) as error:
        if _tpm_is_gone(error):
            raise
        return failed(name, curve, unit, f"a sample failed: {error}", absent)
    documents = []
    for arm in arms:
        taken, did = series[arm.name], counts[arm.name]
        commands, behind = seen[arm.name]
        documents.append(
            {
                "name": arm.name,
                "samples_ns": taken.samples_ns,
                "warmup_ns": taken.warmup_ns,
                "setup_ns": list(did.setup_ns),
                "signatures": {
                    "signer": did.signer,
                    "transport": _signatures(commands),
                    "peer": did.peer,
                },
                "resumed": did.resumed,
                "resubmitted": taken.resubmitted,
                "tpm_commands": None if commands is None else commands.total(),
                **({} if behind is None else {"tpm_commands_behind_manager": behind}),
                **(asdict(did.crowd) if did.crowd else {}),
            }
        )
    reason = _fault(documents, counts)
    return {
        "name": name,
        "curve": curve,
        "status": "invalid" if reason else "valid",
        "reason": reason,
        "unit": unit,
        "turns": turns,
        "arms": documents,
        "absent_arms": [{"name": item.name, "reason": item.reason} for item in absent],
    }


def not_applicable(name: str, curve: str, unit: str, reason: str) -> dict[str, Any]:
    """Return a scenario that cannot be asked here."""
    return _empty(name, curve, unit, "not-applicable", reason, ())


def failed(
    name: str, curve: str | None, unit: str, reason: str, absent: Sequence[Absent] = ()
) -> dict[str, Any]:
    """Return a scenario whose measurement failed."""
    return _empty(name, curve, unit, "invalid", reason, absent)


def _empty(
    name: str, curve: str | None, unit: str, status: str, reason: str, absent: Sequence[Absent]
) -> dict[str, Any]:
    return {
        "name": name,
        "curve": curve,
        "status": status,
        "reason": reason,
        "unit": unit,
        "turns": [],
        "arms": [],
        "absent_arms": [{"name": item.name, "reason": item.reason} for item in absent],
    }


def _tpm_is_gone(error: BaseException | None) -> bool:
    from tpmtls.errors import TransportError  # noqa: PLC0415

    while error is not None:
        if isinstance(error, TransportError):
            return True
        error = error.__cause__
    return False


def _commands(
    arm: CountedArm, samples: int, counter: CommandCounter | None, watch: Watch
) -> tuple[Counter[str] | None, int | None]:
    """Go through an arm's samples again, untimed, and count.

    Returns:
        The commands on the arm's transport, and how many the TPM was given meanwhile; None for
        each that cannot be counted.
    """
    if arm.transport is None:
        return None, None
    with contextlib.ExitStack() as stack:
        stack.enter_context(arm.ready())
        channel = stack.enter_context(counted(arm.transport))
        before = counter.settled() if counter else 0
        arm.begin()
        arm.block(samples, watch.stop)
        behind = counter.settled() - before if counter else None
        return channel.commands.copy(), behind


def _signatures(seen: Counter[str] | None) -> int | None:
    return None if seen is None else sum(seen[name] for name in SIGNING)


def _fault(documents: list[dict[str, Any]], counts: dict[str, Counts]) -> str | None:
    """Say what makes a scenario invalid, or None."""
    for document in documents:
        name = document["name"]
        told = {
            place: count for place, count in document["signatures"].items() if count is not None
        }
        if len(set(told.values())) > 1:
            places = ", ".join(f"{place} {count}" for place, count in told.items())
            return f"the signature counts of {name} disagree: {places}"
        fault = counts[name].fault
        if fault:
            return f"{name}: {fault}"
    return None
