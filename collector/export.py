"""Figures for other programs: CSV, NDJSON and the Prometheus text format.

CSV and NDJSON have PerfKitBenchmarker's flat shape (metric, value, unit, metadata,
timestamp), one row per figure. Samples are not in them; they stay in the result
documents, whose path is in each row's metadata.
"""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from collector.summarise import Host
from collector.text import label_value, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.summarise import Arm, Scenario
    from collector.view import Failure

CSV_HEADER = ("metric", "value", "unit", "metadata", "timestamp")

# A figure: metric, value, unit.
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
    """Every known figure of an arm."""
    found = arm.durations
    if found is not None:
        times = (
            ("median", found.median.value),
            ("median_low", found.median.low),
            ("median_high", found.median.high),
            ("p95", found.p95),
            ("p99", found.p99),
            ("minimum", found.minimum),
            ("maximum", found.maximum),
            ("mean", found.mean),
            ("stddev", found.stddev),
            ("error", found.error),
        )
        for name, value in times:
            if value is not None:
                yield (name, _number(value), "ns")
        if found.rate_per_s is not None:
            yield ("rate", found.rate_per_s, f"{unit}/s")
        yield ("samples", found.n, f"{unit}s")
    counts = (
        ("signatures_signer", arm.signer, "signatures"),
        ("signatures_transport", arm.transport, "signatures"),
        ("signatures_peer", arm.peer, "signatures"),
        ("resumed", arm.resumed, "connections"),
        ("resubmitted", arm.resubmitted, f"{unit}s"),
        ("tpm_commands", arm.tpm_commands, "commands"),
    )
    for name, number, of in counts:
        if number is not None:
            yield (name, number, of)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _about(host: Host) -> str:
    """A host's own metadata, as JSON: what would only be repeated in each of its rows."""
    tpm, system = host.document["tpm"], host.document["system"]
    return _json(
        {
            "run_id": host.run_id,
            "host": host.host,
            "tee": host.tee,
            "tpm_location": host.tpm_location,
            "emulated": host.emulated,
            "tpm_manufacturer": visible(tpm["manufacturer"]),
            "tpm_firmware": visible(tpm["firmware_version"]),
            "kernel": visible(system["kernel"]),
            "document": visible(host.path),
        }
    )


def _rows(hosts: Iterable[Host]) -> Iterator[tuple[str, int, Iterable[_Row]]]:
    """Yields metadata as JSON, its timestamp, and the figures it belongs to.

    First a figure of each host, with what is known of it; then those of its arms.
    """
    for host in hosts:
        when = epoch(host.finished_at)
        yield _about(host), when, (("host", 1, "hosts"),)
        for scenario in host.scenarios:
            about: dict[str, Any] = {
                "run_id": host.run_id,
                "host": host.host,
                "emulated": host.emulated,
                "scenario": scenario.name,
                "curve": scenario.curve,
                "status": scenario.status,
            }
            for arm in scenario.arms:
                yield _json(about | {"arm": arm.name}), when, _figures(arm, scenario.unit)


def flat_lines(hosts: Iterable[Host]) -> Iterator[tuple[str, str]]:
    """Yields the CSV file and the NDJSON file, side by side, one arm at a time.

    Both hold the same rows. In CSV, text from a host is only in the metadata, whose cell is
    a JSON object and always quoted, so that no spreadsheet takes it for a formula. Figures
    of an invalid scenario are there too, with ``"status": "invalid"`` in the metadata.
    """
    yield ",".join(CSV_HEADER) + "\n", ""
    for metadata, when, figures in _rows(hosts):
        quoted = metadata.replace('"', '""')
        # What ends every row of these stands between them and after the last one.
        of_csv = f',"{quoted}",{when}\n'
        of_json = f'","metadata":{metadata},"timestamp":{when}}}\n'
        csv, ndjson = [], []
        for metric, value, unit in figures:
            csv.append(f"{metric},{value!r},{unit}")
            ndjson.append(f'{{"metric":"{metric}","value":{value!r},"unit":"{unit}')
        yield of_csv.join([*csv, ""]), of_json.join([*ndjson, ""])


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{label_value(value)}"' for name, value in values.items())


# A sample of a metric family: what its name ends in, its labels, its value.
_Sample = tuple[str, str, float]


def _valid_arms(hosts: Iterable[Host]) -> Iterator[tuple[str, Arm]]:
    """Yields the labels of each arm of a valid scenario, and the arm."""
    for host in hosts:
        for scenario in host.scenarios:
            if scenario.status == "valid":
                where = _labels(**_where(host, scenario))
                for arm in scenario.arms:
                    yield f'{where},arm="{label_value(arm.name)}"', arm


def _where(host: Host, scenario: Scenario) -> dict[str, str]:
    return {
        "run": host.run_id,
        "host": host.host,
        "scenario": scenario.name,
        "curve": scenario.curve or "",
    }


def _durations(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for labels, arm in _valid_arms(hosts):
        found = arm.durations
        if found is not None:
            quantiles = {"0.5": found.median.value, "0.95": found.p95, "0.99": found.p99}
            for share, value in quantiles.items():
                yield ("", f'{labels},quantile="{share}"', value / 1e9)
            yield ("_sum", labels, found.mean * found.n / 1e9)
            yield ("_count", labels, found.n)


def _signatures(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for labels, arm in _valid_arms(hosts):
        counts = {"signer": arm.signer, "transport": arm.transport, "peer": arm.peer}
        for counter, number in counts.items():
            if number is not None:
                yield ("", f'{labels},counter="{counter}"', number)


def _resumed(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for labels, arm in _valid_arms(hosts):
        if arm.resumed is not None:
            yield ("", labels, arm.resumed)


def _ratios(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for host in hosts:
        for scenario in host.scenarios:
            where = _labels(**_where(host, scenario))
            for found in scenario.ratios:
                arms = found.comparison
                labels = f'{where},numerator="{arms.numerator}",denominator="{arms.denominator}"'
                ends = {
                    "median": found.ratio.value,
                    "low": found.ratio.low,
                    "high": found.ratio.high,
                }
                for name, value in ends.items():
                    if value is not None:
                        yield ("", f'{labels},estimate="{name}"', value)


def _validity(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for host in hosts:
        for scenario in host.scenarios:
            yield ("", _labels(**_where(host, scenario)), int(scenario.status == "valid"))


def _platforms(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for host in hosts:
        tpm = host.document["tpm"]
        labels = _labels(
            run=host.run_id,
            host=host.host,
            tee=host.tee,
            tpm_location=host.tpm_location,
            emulated=str(host.emulated).lower(),
            tpm_manufacturer=tpm["manufacturer"],
            tpm_firmware=tpm["firmware_version"],
            kernel=host.document["system"]["kernel"],
        )
        yield ("", labels, 1)


def _finished(hosts: Iterable[Host]) -> Iterator[_Sample]:
    for host in hosts:
        yield ("", _labels(run=host.run_id, host=host.host), epoch(host.finished_at))


_Family = tuple[str, str, str, Callable[[Iterable[Host]], Iterator[_Sample]]]

_FAMILIES: tuple[_Family, ...] = (
    ("sample_seconds", "summary", "Durations of an arm's samples.", _durations),
    ("signatures", "gauge", "Signatures during the samples, by counter.", _signatures),
    ("resumed_connections", "gauge", "Connections seen resumed.", _resumed),
    ("ratio", "gauge", "Ratio of two arms' medians, with its 95 % interval.", _ratios),
    ("scenario_valid", "gauge", "1 valid, 0 invalid or not applicable.", _validity),
    ("host", "gauge", "1; what was measured is in the labels.", _platforms),
    ("finished_seconds", "gauge", "End of the run, since 1970.", _finished),
)


def prometheus(hosts: Sequence[Host], failures: Sequence[Failure], broken: int) -> Iterator[str]:
    """Yields the figures as OpenMetrics text that node_exporter's textfile collector reads too.

    Only valid scenarios' figures are in it. Times are in seconds.

    Args:
        hosts: What was measured.
        failures: Hosts that were not.
        broken: How many documents were left out.
    """
    lost = sorted({(one.host, one.stage) for one in failures})
    whole: tuple[_Family, ...] = (
        *_FAMILIES,
        (
            "host_failed",
            "gauge",
            "1 for a host that was not measured.",
            lambda _: (("", _labels(host=host, stage=stage), 1) for host, stage in lost),
        ),
        (
            "documents_left_out",
            "gauge",
            "Broken result documents.",
            lambda _: iter((("", "", broken),)),
        ),
    )
    for short, kind, about, samples in whole:
        name = f"tpm_tls_bench_{short}"
        yield f"# TYPE {name} {kind}\n# HELP {name} {about}\n"
        for suffix, labels, value in samples(hosts):
            yield f"{name}{suffix}{{{labels}}} {value!r}\n"
    yield "# EOF\n"
