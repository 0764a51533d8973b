"""The verdicts on the claims, over all hosts; emulated TPMs apart from the others."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.claims import CLAIMS, Claim
from collector.verdicts import Finding, Verdict, overall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.stats import Interval
    from collector.summarise import Host


def _write(value: float, unit: str, total: int | None) -> str:
    if unit == "of":
        return f"{value:.0f} of {total}"
    if unit == "yes":
        return "yes" if value else "no"
    scale, suffix = {"x": (1.0, "x"), "%": (100.0, " %"), "ns": (1e-6, " ms"), "/s": (1.0, "/s")}[
        unit
    ]
    return f"{text.significant(value * scale)}{suffix}"


def _scaled(figure: Interval, unit: str) -> str:
    return text.span(figure, {"%": 100.0, "ns": 1e-6}.get(unit, 1.0))


def _figure(found: Sequence[Finding]) -> tuple[str, str]:
    """The figure that decided, and its interval or its range over hosts and curves."""
    known = [(one, one.figure) for one in found if one.figure is not None]
    if not known:
        return ("-", "")
    first, figure = known[0]
    if len(known) == 1:
        return (_write(figure.value, first.unit, first.total), _scaled(figure, first.unit))
    if first.unit in {"of", "yes"}:
        distinct = sorted({_write(value.value, one.unit, one.total) for one, value in known})
        return (", ".join(distinct[:4]) + (", …" if len(distinct) > 4 else ""), "")
    values = [value.value for _, value in known]
    middle = _write(statistics.median(values), first.unit, None)
    ends = [_write(end, first.unit, None) for end in (min(values), max(values))]
    return (middle, " to ".join(ends))


def _row(claim: Claim, found: Sequence[tuple[Host, Finding]], *, emulated: bool) -> dict[str, Any]:
    findings = [finding for _, finding in found]
    # What decided, where something did; what could not, where nothing did.
    decided = [finding for finding in findings if finding.verdict is not Verdict.UNDECIDED]
    figure, spread = _figure(decided or findings)
    refuting = sorted(
        {
            f"{host.host} {labels.curve_title(finding.curve)}".strip()
            for host, finding in found
            if finding.verdict is Verdict.REFUTED
        }
    )
    return {
        "name": claim.name,
        "sentence": claim.sentence,
        "rule": claim.rule,
        "published": claim.published,
        "verdict": str(overall(claim, findings)),
        "figure": figure,
        "spread": spread,
        "emulated": emulated,
        "total": sum(finding.asked for finding in findings),
        "not_asked": sum(not finding.asked for finding in findings),
        "confirmed": sum(finding.verdict is Verdict.CONFIRMED for finding in findings),
        "refuted": sum(finding.verdict is Verdict.REFUTED for finding in findings),
        "refuting": refuting,
        "reasons": sorted({finding.reason for finding in findings if finding.reason}),
    }


def verdict_rows(hosts: Sequence[Host]) -> list[dict[str, Any]]:
    """One row for each claim and each of: hosts with a TPM, hosts with an emulated one."""
    rows = []
    for emulated in (False, True):
        for claim in CLAIMS:
            found = [
                (host, finding)
                for host in hosts
                if host.emulated == emulated
                for finding in host.findings
                if finding.claim == claim.name
            ]
            if found:
                rows.append(_row(claim, found, emulated=emulated))
    return rows
