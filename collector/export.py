"""Figures for other programs: CSV, NDJSON and the Prometheus text format.

CSV and NDJSON have PerfKitBenchmarker's flat shape (metric, value, unit, metadata,
timestamp), one row per figure. Samples are not in them; they stay in the result
documents, whose path is in each row's metadata.
"""

from __future__ import annotations

import calendar
import functools
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from collector.commands import per_signature
from collector.summarise import Host
from collector.text import label_value, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collector.summarise import Arm, Scenario
    from collector.view import Failure

CSV_HEADER = ("metric", "value", "unit", "metadata", "timestamp")


def epoch(instant: str) -> int:
    """Seconds since 1970 of an instant written as in a result document.

    Raises:
        ValueError: The instant has the form of one but is none, such as the 31st of February.
    """
    return calendar.timegm(time.strptime(instant, "%Y-%m-%dT%H:%M:%SZ"))


# The metrics of an arm in the order of their rows, with their units; %s is the arm's own unit.
_METRICS = (
    *((name, "ns") for name in ("median", "median_low", "median_high", "p95", "p99")),
    *((name, "ns") for name in ("minimum", "maximum", "mean", "stddev", "error")),
    ("rate", "%s/s"),
    ("samples", "%ss"),
    ("signatures_signer", "signatures"),
    ("signatures_transport", "signatures"),
    ("signatures_peer", "signatures"),
    ("resumed", "connections"),
    ("resubmitted", "%ss"),
    ("tpm_commands", "commands"),
    ("tpm_commands_behind_manager", "commands"),
)
_DURATIONS = 12


def _figures(arm: Arm) -> list[str | None]:
    """An arm's figures in the order of ``_METRICS``, as they are written; None: not known."""
    found = arm.durations
    if found is None:
        figures: list[str | None] = [None] * _DURATIONS
    else:
        times = (
            *found.median,
            *(found.p95, found.p99, found.minimum, found.maximum),
            *(found.mean, found.stddev, found.error),
        )
        figures = [None if time is None else repr(time).removesuffix(".0") for time in times]
        figures += [None if found.rate_per_s is None else repr(found.rate_per_s), repr(found.n)]
    counts = (
        *(arm.signer, arm.transport, arm.peer, arm.resumed, arm.resubmitted),
        *(arm.tpm_commands, arm.behind_manager),
    )
    return figures + [None if count is None else repr(count) for count in counts]


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


@functools.lru_cache(maxsize=4096)
def _name(word: str) -> str:
    return _json(word)


# Rows with places for the numbers and for what ends each of them: four pieces a row.
_Rows = list[str]


@functools.lru_cache(maxsize=1024)
def _templates(unit: str, known: tuple[bool, ...]) -> tuple[_Rows, _Rows]:
    """Rows of CSV and of NDJSON for an arm's known figures.

    A fleet has millions of rows and a few dozens of these, so the work on each row is done here.
    """
    metrics = [
        (name, of.replace("%s", unit))
        for (name, of), there in zip(_METRICS, known, strict=True)
        if there
    ]
    csv = [(f"{name},", "", f",{of}", "") for name, of in metrics]
    ndjson = [(f'{{"metric":"{name}","value":', "", f',"unit":"{of}', "") for name, of in metrics]
    return list(itertools.chain(*csv)), list(itertools.chain(*ndjson))


def _filled(template: _Rows, numbers: list[str], end: str) -> str:
    pieces = template.copy()
    pieces[1::4] = numbers
    pieces[3::4] = [end] * len(numbers)
    return "".join(pieces)


def _ends(metadata: str, when: int) -> tuple[str, str]:
    """What ends a row of CSV and of NDJSON."""
    quoted = metadata.replace('"', '""')
    return f',"{quoted}",{when}\n', f'","metadata":{metadata},"timestamp":{when}}}\n'


def _of_host(host: Host) -> Iterator[tuple[str, str]]:
    """Yields a figure of the host, with what is known of it; then those of its arms."""
    when = epoch(host.finished_at)
    of_csv, of_json = _ends(_about(host), when)
    yield f"host,1,hosts{of_csv}", f'{{"metric":"host","value":1,"unit":"hosts{of_json}'
    yield from _of_scenarios(host, host.scenarios, when, {})
    for other in host.other_transports:
        yield from _of_scenarios(host, other.scenarios, when, {"tcti": visible(other.tcti)})


def _of_scenarios(
    host: Host, scenarios: Iterable[Scenario], when: int, more: dict[str, str]
) -> Iterator[tuple[str, str]]:
    for scenario in scenarios:
        about: dict[str, Any] = {
            "run_id": host.run_id,
            "host": host.host,
            "emulated": host.emulated,
            "scenario": scenario.name,
            "curve": scenario.curve,
            "status": scenario.status,
        }
        start = _json(about | more).removesuffix("}")
        for arm in scenario.arms:
            of_csv, of_json = _ends(f'{start},"arm":{_name(arm.name)}}}', when)
            figures = _figures(arm)
            numbers = [figure for figure in figures if figure is not None]
            known = tuple([figure is not None for figure in figures])
            csv, ndjson = _templates(scenario.unit, known)
            yield _filled(csv, numbers, of_csv), _filled(ndjson, numbers, of_json)


def flat_lines(hosts: Iterable[Host]) -> Iterator[tuple[str, str]]:
    """Yields the CSV file and the NDJSON file, side by side, one arm at a time.

    Both hold the same rows. In CSV, text from a host is only in the metadata, whose cell is
    a JSON object and always quoted, so that no spreadsheet takes it for a formula. Figures
    of an invalid scenario are there too, with ``"status": "invalid"`` in the metadata.
    """
    yield ",".join(CSV_HEADER) + "\n", ""
    for host in hosts:
        yield from _of_host(host)


# The same words come again with every arm.
_label = functools.lru_cache(maxsize=4096)(label_value)


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{label_value(value)}"' for name, value in values.items())


def _valid_arms(hosts: Iterable[Host]) -> Iterator[tuple[str, Arm]]:
    """Yields the labels of each arm of a valid scenario, and the arm."""
    for host in hosts:
        for scenario in host.scenarios:
            if scenario.status == "valid":
                where = _where(host, scenario)
                for arm in scenario.arms:
                    yield f'{where},arm="{_label(arm.name)}"', arm


def _where(host: Host, scenario: Scenario) -> str:
    """Labels of a scenario on a host."""
    return (
        f'run="{_label(host.run_id)}",host="{_label(host.host)}",'
        f'scenario="{_label(scenario.name)}",curve="{scenario.curve or ""}"'
    )


# What follows yields the lines of one metric family; ``name`` is its name.


def _durations(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for labels, arm in _valid_arms(hosts):
        found = arm.durations
        if found is not None:
            start = f'{name}{{{labels},quantile="'
            yield (
                f'{start}0.5"}} {found.median.value / 1e9!r}\n'
                f'{start}0.95"}} {found.p95 / 1e9!r}\n'
                f'{start}0.99"}} {found.p99 / 1e9!r}\n'
                f"{name}_sum{{{labels}}} {found.mean * found.n / 1e9!r}\n"
                f"{name}_count{{{labels}}} {found.n}\n"
            )


def _signatures(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for labels, arm in _valid_arms(hosts):
        counts = (("signer", arm.signer), ("transport", arm.transport), ("peer", arm.peer))
        for counter, number in counts:
            if number is not None:
                yield f'{name}{{{labels},counter="{counter}"}} {number}\n'


def _resumed(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for labels, arm in _valid_arms(hosts):
        if arm.resumed is not None:
            yield f"{name}{{{labels}}} {arm.resumed}\n"


def _commands(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for labels, arm in _valid_arms(hosts):
        each = per_signature(arm)
        if each is not None:
            yield f"{name}{{{labels}}} {each!r}\n"


def _ratios(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for host in hosts:
        for scenario in host.scenarios:
            where = _where(host, scenario)
            for found in scenario.ratios:
                arms = found.comparison
                labels = f'{where},numerator="{arms.numerator}",denominator="{arms.denominator}"'
                ratio = found.ratio
                ends = (("median", ratio.value), ("low", ratio.low), ("high", ratio.high))
                for estimate, value in ends:
                    if value is not None:
                        yield f'{name}{{{labels},estimate="{estimate}"}} {value!r}\n'


def _validity(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for host in hosts:
        for scenario in host.scenarios:
            valid = int(scenario.status == "valid")
            yield f"{name}{{{_where(host, scenario)}}} {valid}\n"


def _platforms(name: str, hosts: Iterable[Host]) -> Iterator[str]:
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
        yield f"{name}{{{labels}}} 1\n"


def _finished(name: str, hosts: Iterable[Host]) -> Iterator[str]:
    for host in hosts:
        yield f"{name}{{{_labels(run=host.run_id, host=host.host)}}} {epoch(host.finished_at)}\n"


_Family = tuple[str, str, str, Callable[[str, Iterable[Host]], Iterator[str]]]

_FAMILIES: tuple[_Family, ...] = (
    ("sample_seconds", "summary", "Durations of an arm's samples.", _durations),
    ("signatures", "gauge", "Signatures during the samples, by counter.", _signatures),
    ("resumed_connections", "gauge", "Connections seen resumed.", _resumed),
    ("commands_per_signature", "gauge", "Commands the TPM was given, by its log.", _commands),
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
            lambda name, _: (
                f"{name}{{{_labels(host=host, stage=stage)}}} 1\n" for host, stage in lost
            ),
        ),
        (
            "documents_left_out",
            "gauge",
            "Broken result documents.",
            lambda name, _: iter((f"{name}{{}} {broken}\n",)),
        ),
    )
    for short, kind, about, lines in whole:
        name = f"tpm_tls_bench_{short}"
        yield f"# TYPE {name} {kind}\n# HELP {name} {about}\n"
        yield from lines(name, hosts)
    yield "# EOF\n"
