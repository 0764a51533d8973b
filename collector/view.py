"""What a report shows, as rows ready to be written; the templates add the words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import fleet, labels, text
from collector.commands import command_rows, counted_at_tpm
from collector.concurrency import Concurrency, concurrency
from collector.devices import Devices, devices
from collector.figures import Figure, distributions, forests
from collector.fleet import FleetRatio, Kind
from collector.imported_rows import imported_rows
from collector.matrix import Matrix, medians, unusable
from collector.message_table import MessageTable, message_table
from collector.messages import Messages, messages
from collector.models import model_rows
from collector.names import host_title, kind_title
from collector.ratios import MAIN
from collector.transports import SideBySide, side_by_side
from collector.verdict_rows import verdict_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from collector.load import Broken, Imported
    from collector.published import Published
    from collector.stats import Interval
    from collector.summarise import Arm, Host, Scenario

# Above these numbers of documents a report shows the fleet instead of each host.
SAMPLES_KEPT = 12
HOSTS_IN_FULL = 40

Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A host that the playbooks could not measure."""

    host: str
    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the templates need. Rows are dictionaries by column."""

    hosts: list[Cells]
    models: list[Cells]
    kinds: list[Cells]
    verdicts: list[Cells]
    medians: Matrix
    commands: list[Cells]
    commands_hosts: int
    unusable: list[Cells]
    fleet: list[Cells]
    per_host: list[Cells]
    hosts_in_full: bool
    ratios: list[Cells]
    forests: list[Figure]
    distributions: list[Figure]
    concurrency: list[Concurrency]
    devices: Devices
    transports: list[SideBySide]
    message_table: MessageTable
    messages: list[Messages]
    imported: list[Cells]
    warnings: list[Cells]
    shared_boots: list[list[str]]
    failures: list[Failure]
    broken: list[Broken]
    published: list[Published]
    emulated: str

    @property
    def complete(self) -> bool:
        """Whether every document was used and no host failed."""
        return not self.broken and not self.failures


def _host_row(host: Host) -> Cells:
    document = host.document
    system, tpm, agent = document["system"], document["tpm"], document["agent"]
    return {
        "host": host.host,
        "run": host.run_id,
        "emulated": host.emulated,
        "simulated": tpm["simulated_device"],
        "cpu": system["cpu_model"] or system["machine"],
        "cpus": system["cpus_usable"],
        "os": system["operating_system"] or "",
        "kernel": system["kernel"],
        "tee": labels.title(labels.TEES, host.tee),
        "tpm_location": labels.title(labels.TPM_LOCATIONS, host.tpm_location),
        "tpm": f"{tpm['manufacturer']} {tpm['vendor_string']}".strip(),
        "firmware": tpm["firmware_version"],
        "spec": tpm["spec_version"],
        "tcti": tpm["tcti"],
        "resource_manager": labels.title(labels.RESOURCE_MANAGERS, tpm["resource_manager"]),
        "agent": agent["version"],
        "python": agent["python"],
        "openssl": agent["openssl"],
        "pytss": agent["tpm2_pytss"],
        "started": document["started_at"],
        "signatures": document["settings"]["signatures"],
        "connections": document["settings"]["connections"],
        "evidence": document["platform"]["evidence"],
        "path": host.path,
    }


def _counts(arm: Arm) -> str:
    return " / ".join(text.count(number) for number in (arm.signer, arm.transport, arm.peer))


def _agreed(arm: Arm) -> str:
    """One number where all counts that are known agree."""
    known = {count for count in (arm.signer, arm.transport, arm.peer) if count is not None}
    return str(known.pop()) if len(known) == 1 else _counts(arm)


def _arm_row(scenario: Scenario, arm: Arm) -> Cells:
    row: Cells = {
        "scenario": labels.title(labels.SCENARIOS, scenario.name),
        "scenario_name": scenario.name,
        "curve": labels.curve_title(scenario.curve),
        "arm": labels.arm_title(arm.name),
        "status": scenario.status,
        "reason": scenario.reason,
        "unit": scenario.unit,
        "signatures": _counts(arm),
        "signed": _agreed(arm),
        "resumed": text.count(arm.resumed),
        "resubmitted": arm.resubmitted,
    }
    found = arm.durations
    if found is None:
        nothing = ("median", "p95", "p99", "mean", "stddev", "error", "rate", "q1", "q3", "max")
        return row | dict.fromkeys(nothing, text.ms(None)) | {"n": "0", "interval": "", "min": "-"}
    return row | {
        "n": str(found.n),
        "median": text.ms(found.median.value),
        "interval": text.span(found.median, 1e-6),
        "p95": text.ms(found.p95),
        "p99": text.ms(found.p99),
        "mean": text.ms(found.mean),
        "stddev": text.ms(found.stddev),
        "error": text.ms(found.error),
        "rate": text.rate(found.rate_per_s),
        "min": text.ms(found.minimum),
        "q1": text.ms(found.q1),
        "q3": text.ms(found.q3),
        "max": text.ms(found.maximum),
    }


def _per_host(host: Host) -> Cells:
    rows = [
        _arm_row(scenario, arm) | {"order": order}
        for order, scenario in enumerate(host.scenarios)
        for arm in scenario.arms
    ]
    return {"host": host.host, "run": host.run_id, "emulated": host.emulated, "rows": rows}


def _fleet_row(figure: fleet.Figure) -> Cells:
    return {
        "few": figure.hosts < fleet.FEW,
        "kind": kind_title(figure.kind),
        "scenario": labels.title(labels.SCENARIOS, figure.scenario),
        "curve": labels.curve_title(figure.curve),
        "arm": labels.arm_title(figure.arm),
        "hosts": str(figure.hosts),
        "median": text.ms(figure.median.value),
        "interval": text.span(figure.median, 1e-6),
        "p95": text.ms(figure.p95),
        "rate": text.rate(figure.rate_per_s),
        "between": text.percent(figure.between),
        "within": text.percent(figure.within),
    }


def _fleet_rows(figures: Iterable[fleet.Figure]) -> list[Cells]:
    """Rows of the figures that several hosts give; ``order`` numbers the scenarios on a curve."""
    order: dict[tuple[str, str | None], int] = {}
    return [
        _fleet_row(figure)
        | {"order": order.setdefault((figure.scenario, figure.curve), len(order))}
        for figure in figures
        if figure.hosts > 1
    ]


def _ratio_row(
    where: str, numerator: str, denominator: str, scenario: str, curve: str | None, ratio: Interval
) -> Cells:
    return {
        "where": where,
        "arms": " / ".join(labels.arm_title(arm) for arm in (numerator, denominator)),
        "scenario": labels.title(labels.SCENARIOS, scenario),
        "curve": labels.curve_title(curve),
        "ratio": text.ratio(ratio.value),
        "interval": text.span(ratio),
    }


def _ratio_rows(
    hosts: Sequence[Host], together: Iterable[FleetRatio], *, each_host: bool
) -> list[Cells]:
    rows = []
    for order, group in enumerate(together):
        arms = (group.comparison.numerator, group.comparison.denominator)
        name, curve = group.scenario, group.curve
        members = [host for host in hosts if Kind.of(host) == group.kind] if each_host else []
        for host in members:
            for scenario in host.scenarios:
                for found in scenario.ratios:
                    if (found.comparison, scenario.name, scenario.curve) == (
                        group.comparison,
                        name,
                        curve,
                    ):
                        row = _ratio_row(host_title(host), *arms, name, curve, found.ratio)
                        rows.append(row | {"basis": "host", "order": order})
        if group.hosts > 1 or not each_host:
            row = _ratio_row(kind_title(group.kind), *arms, name, curve, group.ratio)
            basis = {"hosts": group.hosts, "few": group.hosts < fleet.FEW}
            rows.append(row | basis | {"basis": "hosts", "order": order})
    return rows


def _kind_rows(
    hosts: Sequence[Host], figures: Sequence[fleet.Figure], ratios: Sequence[FleetRatio]
) -> list[Cells]:
    """The answer in brief: for each kind of host, its first curve's figures."""
    rows = []
    for kind in sorted({Kind.of(host) for host in hosts}):
        curves = [figure.curve for figure in figures if figure.kind == kind and figure.curve]
        curve = min(curves, key=lambda name: labels.rank(labels.CURVES, name), default=None)
        median = {
            f"{figure.scenario}/{figure.arm}": text.duration(figure.median.value)
            for figure in figures
            if figure.kind == kind and figure.curve == curve
        }
        times = {
            ratio.scenario: text.ratio(ratio.ratio.value)
            for ratio in ratios
            if ratio.kind == kind and ratio.curve == curve and ratio.comparison == MAIN
        }
        members = sorted({host.host for host in hosts if Kind.of(host) == kind})
        rows.append(
            {
                "title": kind_title(kind),
                "emulated": kind.emulated,
                "hosts": members,
                "curve": labels.curve_title(curve),
                "median": median,
                "ratio": times,
            }
        )
    return rows


def _warnings(hosts: Iterable[Host]) -> list[Cells]:
    """The same warning on several hosts is shown once."""
    where: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for host in hosts:
        for seen in host.warnings:
            where[seen.code, seen.message, seen.remedy].append(host.host)
    return [
        {"code": key[0], "message": key[1], "remedy": key[2], "hosts": sorted(set(where[key]))}
        for key in sorted(where)
    ]


def _shared_boots(hosts: Iterable[Host]) -> list[list[str]]:
    """Hosts with one kernel boot between them are one machine under several names."""
    by_boot: dict[str, set[str]] = defaultdict(set)
    for host in hosts:
        if boot := host.document["system"]["boot_id"]:
            by_boot[boot].add(host.host)
    return sorted(sorted(names) for names in by_boot.values() if len(names) > 1)


def _emulated(hosts: Sequence[Host]) -> str:
    number = sum(host.emulated for host in hosts)
    return "none" if not number else "all" if number == len(hosts) else "some"


def build(
    hosts: Sequence[Host],
    broken: Sequence[Broken],
    failures: Sequence[Failure],
    published: Sequence[Published],
    imported: Sequence[Imported] = (),
) -> Report:
    """Works out every table and plot of the report.

    The order of ``hosts``, ``broken``, ``failures`` and ``imported`` does not matter.
    """
    hosts = sorted(hosts, key=lambda host: host.key)
    # The suites on a TPM's operations and on message sizes have sections of their own.
    tls = [host.of_suite("tls") for host in hosts]
    figures = fleet.figures(tls)
    together = fleet.ratios(tls)
    in_full = len(hosts) <= HOSTS_IN_FULL
    few = len(hosts) <= SAMPLES_KEPT
    return Report(
        hosts=[_host_row(host) for host in hosts],
        models=model_rows(tls),
        kinds=_kind_rows(tls, figures, together),
        verdicts=verdict_rows(hosts),
        medians=medians(tls, figures, published, imported),
        commands=command_rows(tls if in_full else ()),
        commands_hosts=sum(counted_at_tpm(host) for host in tls),
        unusable=unusable(tls),
        fleet=_fleet_rows(figures),
        per_host=[_per_host(host) for host in tls] if in_full else [],
        hosts_in_full=in_full,
        ratios=_ratio_rows(tls, together, each_host=few),
        forests=forests(tls, together, each_host=few),
        distributions=distributions(tls, figures, each_host=few),
        concurrency=concurrency(hosts) if few else [],
        devices=devices(hosts, published, imported, in_full=in_full),
        transports=side_by_side(hosts) if in_full else [],
        message_table=message_table(
            [host.of_suite("messages") for host in hosts], published, imported
        ),
        messages=messages(hosts if in_full else (), published, imported),
        imported=imported_rows(imported),
        warnings=_warnings(hosts),
        shared_boots=_shared_boots(hosts),
        failures=sorted(failures, key=lambda lost: (lost.host, lost.stage, lost.reason)),
        broken=sorted(broken, key=lambda left: left.path),
        published=list(published),
        emulated=_emulated(hosts),
    )
