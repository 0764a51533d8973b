"""A comparison as rows ready to be written, and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collector import labels, text
from collector.compare import MIN_DELTA, MIN_RATIO, P_LIMIT, Change
from collector.names import kind_title

if TYPE_CHECKING:
    from collections.abc import Iterable

    from collector.compare import Compared, Comparison, Together
    from collector.sides import Key, Side
    from collector.stats import Interval

# With more hosts than this only the arms that changed are shown one by one.
HOSTS_IN_FULL = 12

Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Everything that the templates need. Rows are dictionaries by column."""

    counts: dict[str, int]
    hosts: int
    in_full: bool
    arms: list[Cells]
    together: list[Cells]
    unmatched: list[Cells]
    differing: list[Cells]
    older: list[Cells]
    broken: list[Cells]
    imported: list[str]
    emulated: bool
    limits: dict[str, str]


def _titles(key: Key) -> Cells:
    name, curve, arm = key
    return {
        "scenario": labels.title(labels.SCENARIOS, name),
        "curve": labels.curve_title(curve),
        "arm": labels.arm_title(arm) if arm else "",
    }


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _interval(ratio: Interval | None) -> Cells:
    if ratio is None:
        return {"ratio": "-", "interval": ""}
    return {"ratio": f"{ratio.value:.3f}", "interval": _span(ratio)}


def _span(ratio: Interval) -> str:
    if ratio.low is None or ratio.high is None:
        return ""
    return f"[{ratio.low:.3f}, {ratio.high:.3f}]"


def _arm_row(one: Compared) -> Cells:
    return {
        "host": one.host,
        "emulated": one.kind.emulated,
        **_titles(one.key),
        "base": text.ms(one.base_ns),
        "new": text.ms(one.new_ns),
        **_interval(one.ratio),
        "p": _p(one.p_holm),
        "delta": f"{one.delta:+.2f}",
        "change": str(one.change),
    }


def _together_row(one: Together) -> Cells:
    return {
        "kind": kind_title(one.kind),
        **_titles(one.key),
        "hosts": str(one.hosts),
        **_interval(one.ratio),
        "few": one.few,
        "change": str(one.change),
    }


def _sides(sides: Iterable[Side]) -> tuple[list[Cells], list[Cells], list[str]]:
    older, broken, imported = [], [], []
    for side in sides:
        older += [{"side": side.name, "host": host, "run": run} for host, run in side.older]
        broken += [
            {"side": side.name, "path": one.path, "pointer": one.pointer, "problem": one.problem}
            for one in side.broken
        ]
        imported += side.imported
    return older, broken, imported


def view(comparison: Comparison) -> ComparisonView:
    """Works out what is shown of a comparison."""
    hosts = len({one.host for one in comparison.arms})
    in_full = hosts <= HOSTS_IN_FULL
    changed = {Change.FASTER, Change.SLOWER}
    older, broken, imported = _sides((comparison.base, comparison.new))
    return ComparisonView(
        counts={str(change): comparison.count(change) for change in Change},
        hosts=hosts,
        in_full=in_full,
        arms=[_arm_row(one) for one in comparison.arms if in_full or one.change in changed],
        together=[_together_row(one) for one in comparison.together],
        unmatched=[
            {
                "side": one.side,
                "host": one.host,
                **(_titles(one.key) if one.key else {"scenario": "", "curve": "", "arm": ""}),
                "status": one.status,
                "reason": one.reason,
            }
            for one in comparison.unmatched
        ],
        differing=[
            {"host": host, "place": place, "base": was, "new": now}
            for host, place, was, now in comparison.differing
        ],
        older=older,
        broken=broken,
        imported=imported,
        emulated=any(one.kind.emulated for one in comparison.arms),
        limits={
            "p": f"{P_LIMIT:g}",
            "change": f"{(MIN_RATIO - 1) * 100:.0f} %",
            "delta": f"{MIN_DELTA:g}",
        },
    )


def _ends(ratio: Interval | None) -> Cells:
    return {
        "ratio": None if ratio is None else ratio.value,
        "ratio_low": None if ratio is None else ratio.low,
        "ratio_high": None if ratio is None else ratio.high,
    }


def _names(key: Key) -> Cells:
    return dict(zip(("scenario", "curve", "arm"), key, strict=True))


def as_json(comparison: Comparison) -> str:
    """Every comparison as JSON, also those that the text leaves out."""
    shown = view(comparison)
    whole = {
        "limits": {"p": P_LIMIT, "ratio": MIN_RATIO, "cliffs_delta": MIN_DELTA},
        "counts": shown.counts,
        "arms": [
            {
                "host": one.host,
                "emulated": one.kind.emulated,
                **_names(one.key),
                "base_samples": one.base_n,
                "new_samples": one.new_n,
                "base_median_ns": one.base_ns,
                "new_median_ns": one.new_ns,
                **_ends(one.ratio),
                "p": one.p,
                "p_holm": one.p_holm,
                "cliffs_delta": one.delta,
                "verdict": str(one.change),
            }
            for one in comparison.arms
        ],
        "across_hosts": [
            {
                "tee": one.kind.tee,
                "tpm_location": one.kind.tpm_location,
                "emulated": one.kind.emulated,
                **_names(one.key),
                "hosts": one.hosts,
                **_ends(one.ratio),
                "interval_is_range": one.few,
                "verdict": str(one.change),
            }
            for one in comparison.together
        ],
        "not_compared": [
            {"side": one.side, "host": one.host, "status": one.status, "reason": one.reason}
            | (_names(one.key) if one.key else {})
            for one in comparison.unmatched
        ],
        "differing": shown.differing,
        "older_runs": shown.older,
        "left_out": shown.broken,
        "imported": shown.imported,
    }
    return json.dumps(whole, indent=1) + "\n"
