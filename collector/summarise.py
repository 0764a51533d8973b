"""One document in, one host's summary out; the samples are let go.

What needs the samples themselves (intervals of ratios, verdicts on claims) is worked
out here, so that a fleet of any size fits in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from collector import labels, verdicts
from collector.ratios import Ratio, ratios
from collector.sample import Sample
from collector.stats import Distribution, Floats, order_and_describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.load import Document, Loaded


class Arm(NamedTuple):
    """One way of holding the key within a scenario.

    Attributes:
        name: Its name in the document.
        durations: Statistics of its samples; None where it has none.
        samples: The samples in nanoseconds, ascending; None in a large fleet, or without any.
        warmup: How many samples were taken beforehand and kept apart.
        signer: Signatures, as the signer counted them; None where it could not see them.
        transport: Signatures, as counted on the TPM's transport.
        peer: Signatures, as the peer counted them.
        resumed: Connections that the server saw resumed.
        resubmitted: Samples in which the TPM asked for a command again.
        tpm_commands: All commands on our transport in the untimed pass.
        behind_manager: All commands that the TPM itself was given in it, by its own log; None
            where nobody counted them.
        clients: Clients at once, where the arm says so.
        waited_share: Share of the samples' time (0 to 1) that commands queued for the TPM.
    """

    name: str
    durations: Distribution | None
    samples: Floats | None
    warmup: int
    signer: int | None
    transport: int | None
    peer: int | None
    resumed: int | None
    resubmitted: int
    tpm_commands: int | None
    behind_manager: int | None
    clients: int | None
    waited_share: float | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question on one curve, with the arms that answered it and those that could not.

    ``operation`` is the document's member of that name, which only the device suite has.
    """

    name: str
    curve: str | None
    status: str
    reason: str | None
    unit: str
    arms: tuple[Arm, ...]
    absent: tuple[tuple[str, str], ...]
    ratios: tuple[Ratio, ...]
    operation: dict[str, Any] | None = None

    @property
    def suite(self) -> str:
        """The part of the report it belongs to: ``tls``, ``device`` or ``messages``."""
        if self.operation or (self.status != "valid" and self.name.startswith("device-")):
            return "device"
        return "messages" if self.name.startswith("message-size-") else "tls"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of the agent: its code, what was seen, and what to do."""

    code: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Transport:
    """A further way to a host's TPM, and what was measured over it.

    Attributes:
        tcti: The way, as given to the agent.
        resource_manager: The document's word for what swaps objects on it.
        status: ``valid`` or ``invalid``.
        reason: Why it is invalid; None otherwise.
        same_tpm: Whether it leads to the TPM that the first way leads to; None: not known.
        told_by: By what that was told; None where the TPM could not be asked.
        scenarios: Raw signing, message sizes and operations.
    """

    tcti: str
    resource_manager: str
    status: str
    reason: str | None
    same_tpm: bool | None
    told_by: str | None
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """What is kept of one document.

    ``document`` holds everything but the scenarios, the warnings and the other transports.
    """

    run_id: str
    host: str
    path: str
    finished_at: str
    document: Document
    scenarios: tuple[Scenario, ...]
    warnings: tuple[Warned, ...]
    findings: tuple[verdicts.Finding, ...]
    other_transports: tuple[Transport, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The host and the run, which together are unique in a report."""
        return (self.host, self.run_id)

    def of_suite(self, suite: str) -> Host:
        """The same host with one suite's scenarios only."""
        return replace(
            self, scenarios=tuple(found for found in self.scenarios if found.suite == suite)
        )

    @property
    def tee(self) -> str:
        """The trusted execution environment, as the document names it."""
        return str(self.document["platform"]["tee"])

    @property
    def tpm_location(self) -> str:
        """Where the TPM lives, as the document names it."""
        return str(self.document["platform"]["tpm_location"])

    @property
    def emulated(self) -> bool:
        """True where the figures say nothing about hardware: a software TPM, or a slowed device."""
        return self.tpm_location == "software" or bool(self.document["tpm"]["simulated_device"])


def _arm(
    arm: dict[str, Any], sample: Sample, durations: Distribution | None, *, keep_samples: bool
) -> Arm:
    # Clients at once overlap, so that their samples add up to more than the time they took.
    if durations is not None and arm.get("elapsed_ns"):
        durations = durations._replace(rate_per_s=durations.n * 1e9 / arm["elapsed_ns"])
    waited = arm.get("waited_ns")
    total = 0.0 if waited is None else float(sample.ordered.sum())
    return Arm(
        name=arm["name"],
        durations=durations,
        samples=None if durations is None or not keep_samples else sample.ordered,
        warmup=len(arm["warmup_ns"]),
        signer=arm["signatures"]["signer"],
        transport=arm["signatures"]["transport"],
        peer=arm["signatures"]["peer"],
        resumed=arm["resumed"],
        resubmitted=len(arm["resubmitted"]),
        tpm_commands=arm["tpm_commands"],
        behind_manager=arm.get("tpm_commands_behind_manager"),
        clients=arm.get("clients"),
        waited_share=None if waited is None or not total else waited / total,
    )


def _scenario(
    scenario: dict[str, Any],
    samples: Sequence[Sample],
    durations: Sequence[Distribution | None],
    *,
    keep_samples: bool,
) -> Scenario:
    arms = [
        _arm(*of, keep_samples=keep_samples)
        for of in zip(scenario["arms"], samples, durations, strict=True)
    ]
    # Only a valid scenario's figures may be compared with one another.
    usable = {sample.arm: sample for sample in samples} if scenario["status"] == "valid" else {}
    return Scenario(
        name=scenario["name"],
        curve=scenario["curve"],
        status=scenario["status"],
        reason=scenario["reason"],
        unit=scenario["unit"],
        arms=tuple(sorted(arms, key=lambda arm: labels.arm_rank(arm.name))),
        absent=tuple(sorted((gone["name"], gone["reason"]) for gone in scenario["absent_arms"])),
        ratios=ratios(usable),
        operation=scenario.get("operation"),
    )


def _rank(scenario: Scenario) -> tuple[object, ...]:
    """Sort key in order of presentation; operations come last and stay in their own order."""
    if scenario.suite == "device":
        return (True,)
    return (False, *labels.scenario_rank(scenario.name, scenario.curve))


def _summaries(
    found: Sequence[dict[str, Any]], *, keep_samples: bool, stream: str = ""
) -> tuple[tuple[Scenario, ...], verdicts.Samples, verdicts.Reasons]:
    """Summarises scenarios, and says which arms can be used and why others cannot."""
    scenarios = []
    at_hand: verdicts.Samples = {}
    not_valid: verdicts.Reasons = {}
    described = iter(
        order_and_describe([arm["samples_ns"] for scenario in found for arm in scenario["arms"]])
    )
    for scenario in found:
        name, curve = scenario["name"], scenario["curve"]
        samples, durations = [], []
        for arm in scenario["arms"]:
            ordered, one = next(described)
            samples.append(Sample.of(arm, f"{stream}{name}/{curve}/{arm['name']}", ordered))
            durations.append(one)
        scenarios.append(_scenario(scenario, samples, durations, keep_samples=keep_samples))
        if scenario["status"] == "valid":
            at_hand.update({(name, sample.arm, curve): sample for sample in samples})
            for gone in scenario["absent_arms"]:
                not_valid[name, gone["name"], curve] = gone["reason"]
        else:
            not_valid[name, None, curve] = f"{scenario['status']}: {scenario['reason']}"
    return tuple(sorted(scenarios, key=_rank)), at_hand, not_valid


def _other(transport: dict[str, Any]) -> Transport:
    parts = [scenario for suite in ("tls", "messages", "device") for scenario in transport[suite]]
    scenarios, _, _ = _summaries(parts, keep_samples=False, stream=f"{transport['tcti']}/")
    return Transport(
        tcti=transport["tcti"],
        resource_manager=transport["resource_manager"],
        status=transport["status"],
        reason=transport["reason"],
        same_tpm=transport["same_tpm"],
        told_by=transport["same_tpm_told_by"],
        scenarios=scenarios,
    )


def summarise(loaded: Loaded, *, keep_samples: bool) -> Host:
    """Summarises an accepted document.

    Args:
        loaded: The document and the file it came from.
        keep_samples: Whether to keep the samples too, to draw each of them.
    """
    document = loaded.document
    scenarios, at_hand, not_valid = _summaries(document["scenarios"], keep_samples=keep_samples)
    aside = {"scenarios", "warnings", "other_transports"}
    return Host(
        run_id=document["run_id"],
        host=document["host"],
        path=loaded.path,
        finished_at=document["finished_at"],
        document={name: of for name, of in document.items() if name not in aside},
        scenarios=scenarios,
        warnings=tuple(
            Warned(seen["code"], seen["message"], seen["remedy"]) for seen in document["warnings"]
        ),
        findings=verdicts.findings(
            at_hand, not_valid, document["keys"], document["tpm"]["resource_manager"]
        ),
        other_transports=tuple(map(_other, document.get("other_transports", ()))),
    )
