"""Figures for other programs: CSV, NDJSON and the Prometheus text format.

CSV and NDJSON have PerfKitBenchmarker's flat shape (metric, value, unit, metadata,
timestamp), one row per figure. Samples are not in them; they stay in the result
documents, whose path is in each row's metadata.
"""

from __future__ import annotations

import calendar
import csv
import io
import json
import time
from typing import TYPE_CHECKING, Any

from collector.text import csv_cell, label_value, visible

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
    tpm = host.document["tpm"]
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
        "tpm_manufacturer": visible(tpm["manufacturer"]),
        "resource_manager": tpm["resource_manager"],
        "agent_version": visible(host.document["agent"]["version"]),
        "document": visible(host.path),
    }
    return json.dumps(about, sort_keys=True)


def rows(hosts: Iterable[Host]) -> Iterator[tuple[str, float | int, str, str, int]]:
    """Yields metric, value, unit, metadata (JSON) and timestamp (seconds since 1970).

    Figures of an invalid scenario are there too, with ``"status": "invalid"`` in the metadata.
    """
    for host in hosts:
        when = epoch(host.finished_at)
        for scenario in host.scenarios:
            for arm in scenario.arms:
                metadata = _metadata(host, scenario, arm.name)
                for metric, value, unit in _figures(arm, scenario.unit):
                    yield (metric, value, unit, metadata, when)


def csv_lines(hosts: Iterable[Host]) -> Iterator[str]:
    """Yields the CSV file in pieces; no cell starts as a formula would."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for metric, value, unit, metadata, when in rows(hosts):
        writer.writerow((csv_cell(metric), repr(value), csv_cell(unit), metadata, when))
        if buffer.tell() > 2**16:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def ndjson_lines(hosts: Iterable[Host]) -> Iterator[str]:
    """Yields the NDJSON file, one object per line."""
    for metric, value, unit, metadata, when in rows(hosts):
        yield (
            f'{{"metric": {json.dumps(metric)}, "value": {value!r}, "unit": {json.dumps(unit)}, '
            f'"metadata": {metadata}, "timestamp": {when}}}\n'
        )


class _Family:
    """One metric family of the Prometheus text format, with its samples."""

    def __init__(self, name: str, kind: str, about: str) -> None:
        self.name = name
        self.head = f"# TYPE {name} {kind}\n# HELP {name} {about}\n"
        self.lines: list[str] = []

    def add(self, value: float, suffix: str = "", **labels: str) -> None:
        inside = ",".join(f'{key}="{label_value(text)}"' for key, text in labels.items())
        shown = f"{{{inside}}}" if inside else ""
        self.lines.append(f"{self.name}{suffix}{shown} {value!r}\n")

    def text(self) -> str:
        return self.head + "".join(self.lines) if self.lines else ""


def _quantiles(family: _Family, arm: Arm, labels: dict[str, str]) -> None:
    found = arm.durations
    if found is None:
        return
    for quantile, value in (("0.5", found.median.value), ("0.95", found.p95), ("0.99", found.p99)):
        family.add(value / 1e9, **labels, quantile=quantile)
    family.add(found.mean * found.n / 1e9, "_sum", **labels)
    family.add(found.n, "_count", **labels)


def _ratio(family: _Family, ratio: Interval, labels: dict[str, str]) -> None:
    for name, value in (("median", ratio.value), ("low", ratio.low), ("high", ratio.high)):
        if value is not None:
            family.add(value, **labels, estimate=name)


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
        where = {"run": host.run_id, "host": host.host}
        tpm = host.document["tpm"]
        about.add(
            1,
            **where,
            tee=host.tee,
            tpm_location=host.tpm_location,
            emulated=str(host.emulated).lower(),
            tpm_manufacturer=tpm["manufacturer"],
            tpm_firmware=tpm["firmware_version"],
            kernel=host.document["system"]["kernel"],
        )
        finished.add(epoch(host.finished_at), **where)
        for scenario in host.scenarios:
            at = where | {"scenario": scenario.name, "curve": scenario.curve or ""}
            usable = scenario.status == "valid"
            valid.add(int(usable), **at)
            for arm in scenario.arms if usable else ():
                labels = at | {"arm": arm.name}
                _quantiles(samples, arm, labels)
                counts = {"signer": arm.signer, "transport": arm.transport, "peer": arm.peer}
                for counter, number in counts.items():
                    if number is not None:
                        signed.add(number, **labels, counter=counter)
                if arm.resumed is not None:
                    resumed.add(arm.resumed, **labels)
            for found in scenario.ratios:
                arms = {
                    "numerator": found.comparison.numerator,
                    "denominator": found.comparison.denominator,
                }
                _ratio(ratios, found.ratio, at | arms)
    for host_name, stage in sorted({(lost.host, lost.stage) for lost in failures}):
        failed.add(1, host=host_name, stage=stage)
    left_out.add(broken)
    families = (samples, signed, resumed, ratios, valid, about, finished, failed, left_out)
    return "".join(family.text() for family in families) + "# EOF\n"
