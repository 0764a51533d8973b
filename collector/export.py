"""Figures for other programs: CSV, NDJSON and the Prometheus text format.

CSV and NDJSON have PerfKitBenchmarker's flat shape (metric, value, unit, metadata,
timestamp), one row per figure. Samples are not in them; they stay in the result
documents, whose path is in each row's metadata.
"""

from __future__ import annotations

import calendar
import json
import time
from typing import TYPE_CHECKING, Any

from collector.text import label_value, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from collector.stats import Interval
    from collector.summarise import Arm, Host, Scenario
    from collector.view import Failure

CSV_HEADER = ("metric", "value", "unit", "metadata", "timestamp")

_Row = tuple[str, float | int, str]


def epoch(instant: str) -> int:
    """Seconds since 1970 of an instant written as in a result document.

    Raises:
        ValueError: The instant has the form of one but is none, such as the 31st of February.
    """
    return calendar.timegm(time.strptime(instant, "%Y-%m-%dT%H:%M:%SZ"))


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _figures(arm: Arm, unit: str) -> Iterator[_Row]:
    """Every known figure of an arm: its name, value and unit."""
    found = arm.durations
    if found is not None:
        times = {
            "median": found.median.value,
            "median_low": found.median.low,
            "median_high": found.median.high,
            "p95": found.p95,
            "p99": found.p99,
            "minimum": found.minimum,
            "maximum": found.maximum,
            "mean": found.mean,
            "stddev": found.stddev,
            "error": found.error,
        }
        for name, value in times.items():
            if value is not None:
                yield (name, _number(value), "ns")
        if found.rate_per_s is not None:
            yield ("rate", found.rate_per_s, f"{unit}/s")
        yield ("samples", found.n, f"{unit}s")
    counts = {
        "signatures_signer": arm.signer,
        "signatures_transport": arm.transport,
        "signatures_peer": arm.peer,
        "resumed": arm.resumed,
        "resubmitted": arm.resubmitted,
        "tpm_commands": arm.tpm_commands,
    }
    units = {"resumed": "connections", "resubmitted": f"{unit}s", "tpm_commands": "commands"}
    for name, number in counts.items():
        if number is not None:
            yield (name, number, units.get(name, "signatures"))


def _metadata(host: Host, scenario: Scenario, arm: str) -> str:
    about: dict[str, Any] = {
        "run_id": host.run_id,
        "host": host.host,
        "scenario": scenario.name,
        "curve": scenario.curve,
        "arm": arm,
        "status": scenario.status,
        "tee": host.tee,
        "tpm_location": host.tpm_location,
        "emulated": host.emulated,
        "document": visible(host.path),
    }
    return json.dumps(about)


def _arms(hosts: Iterable[Host]) -> Iterator[tuple[str, int, Iterator[_Row]]]:
    """Yields each arm's metadata as JSON, its timestamp, and its figures."""
    for host in hosts:
        when = epoch(host.finished_at)
        for scenario in host.scenarios:
            for arm in scenario.arms:
                yield _metadata(host, scenario, arm.name), when, _figures(arm, scenario.unit)


def csv_lines(hosts: Iterable[Host]) -> Iterator[str]:
    """Yields the CSV file, one arm at a time.

    Text from a host is only in the metadata, whose cell is a JSON object and always quoted,
    so that no spreadsheet takes it for a formula. Figures of an invalid scenario are there
    too, with ``"status": "invalid"`` in the metadata.
    """
    yield ",".join(CSV_HEADER) + "\n"
    for metadata, when, figures in _arms(hosts):
        quoted = metadata.replace('"', '""')
        tail = f',"{quoted}",{when}\n'
        yield "".join(f"{metric},{value!r},{unit}{tail}" for metric, value, unit in figures)


def ndjson_lines(hosts: Iterable[Host]) -> Iterator[str]:
    """Yields the NDJSON file, one arm at a time, with the same rows as the CSV file."""
    for metadata, when, figures in _arms(hosts):
        tail = f'", "metadata": {metadata}, "timestamp": {when}}}\n'
        yield "".join(
            f'{{"metric": "{metric}", "value": {value!r}, "unit": "{unit}{tail}'
            for metric, value, unit in figures
        )


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{label_value(value)}"' for name, value in values.items())


class _Family:
    """One metric family of the Prometheus text format, with its samples."""

    def __init__(self, name: str, kind: str, about: str) -> None:
        self.name = name
        self.lines = [f"# TYPE {name} {kind}\n# HELP {name} {about}\n"]

    def add(self, value: float, *labels: str, suffix: str = "") -> None:
        """Adds a sample; each of ``labels`` is escaped already."""
        self.lines.append(f"{self.name}{suffix}{{{','.join(labels)}}} {value!r}\n")

    def text(self) -> str:
        return "".join(self.lines) if len(self.lines) > 1 else ""


def _quantiles(family: _Family, arm: Arm, labels: str) -> None:
    found = arm.durations
    if found is None:
        return
    for quantile, value in (("0.5", found.median.value), ("0.95", found.p95), ("0.99", found.p99)):
        family.add(value / 1e9, labels, f'quantile="{quantile}"')
    family.add(found.mean * found.n / 1e9, labels, suffix="_sum")
    family.add(found.n, labels, suffix="_count")


def _ratio(family: _Family, ratio: Interval, *labels: str) -> None:
    for name, value in (("median", ratio.value), ("low", ratio.low), ("high", ratio.high)):
        if value is not None:
            family.add(value, *labels, f'estimate="{name}"')


def prometheus(hosts: Sequence[Host], failures: Sequence[Failure], broken: int) -> str:
    """The report's figures as OpenMetrics text that node_exporter's textfile collector reads too.

    Only valid scenarios' figures are in it. Times are in seconds.
    """
    prefix = "tpm_tls_bench"
    samples = _Family(f"{prefix}_sample_seconds", "summary", "Durations of an arm's samples.")
    signed = _Family(f"{prefix}_signatures", "gauge", "Signatures during the samples, by counter.")
    resumed = _Family(f"{prefix}_resumed_connections", "gauge", "Connections seen resumed.")
    ratios = _Family(f"{prefix}_ratio", "gauge", "Ratio of two arms' medians, with its interval.")
    valid = _Family(f"{prefix}_scenario_valid", "gauge", "1 valid, 0 invalid or not applicable.")
    about = _Family(f"{prefix}_host", "gauge", "1; what was measured is in the labels.")
    finished = _Family(f"{prefix}_finished_seconds", "gauge", "End of the run, since 1970.")
    failed = _Family(f"{prefix}_host_failed", "gauge", "1 for a host that was not measured.")
    left_out = _Family(f"{prefix}_documents_left_out", "gauge", "Broken result documents.")
    for host in hosts:
        where = _labels(run=host.run_id, host=host.host)
        tpm = host.document["tpm"]
        about.add(
            1,
            where,
            _labels(
                tee=host.tee,
                tpm_location=host.tpm_location,
                emulated=str(host.emulated).lower(),
                tpm_manufacturer=tpm["manufacturer"],
                tpm_firmware=tpm["firmware_version"],
                kernel=host.document["system"]["kernel"],
            ),
        )
        finished.add(epoch(host.finished_at), where)
        for scenario in host.scenarios:
            at = f"{where},{_labels(scenario=scenario.name, curve=scenario.curve or '')}"
            usable = scenario.status == "valid"
            valid.add(int(usable), at)
            for arm in scenario.arms if usable else ():
                labels = f"{at},{_labels(arm=arm.name)}"
                _quantiles(samples, arm, labels)
                counts = {"signer": arm.signer, "transport": arm.transport, "peer": arm.peer}
                for counter, number in counts.items():
                    if number is not None:
                        signed.add(number, labels, f'counter="{counter}"')
                if arm.resumed is not None:
                    resumed.add(arm.resumed, labels)
            for found in scenario.ratios:
                arms = _labels(
                    numerator=found.comparison.numerator, denominator=found.comparison.denominator
                )
                _ratio(ratios, found.ratio, at, arms)
    for host_name, stage in sorted({(lost.host, lost.stage) for lost in failures}):
        failed.add(1, _labels(host=host_name, stage=stage))
    left_out.add(broken)
    families = (samples, signed, resumed, ratios, valid, about, finished, failed, left_out)
    return "".join(family.text() for family in families) + "# EOF\n"
