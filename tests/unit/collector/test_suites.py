"""The parts of the report beside TLS: many clients, operations, message sizes."""

from __future__ import annotations

import json
import random
import statistics
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats as scipy_stats

from collector.concurrency import concurrency
from collector.devices import devices
from collector.load import Loaded, parse
from collector.messages import messages, slope
from collector.plots import Curve, lines
from collector.published import figures as published_figures
from collector.stats import describe
from collector.summarise import Host, summarise
from collector.view import Report, build
from tests.fixtures import documents as made
from tests.fixtures.hostile import HOSTILE
from tests.support.page import Page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]

PUBLISHED = published_figures()


def whole(host: str = "vm-1", **changes: object) -> made.Document:
    """A document with every suite; P-256 only."""
    rng = random.Random(host)
    document = made.document(host, curves=("p256",), **changes)  # type: ignore[arg-type]
    document["scenarios"] += [
        made.crowd("p256", rng),
        *made.device_suite(rng),
        *made.message_suite("p256", rng),
    ]
    return document


def host(document: made.Document) -> Host:
    return summarise(Loaded("x.json", document), keep_samples=True)


def report(*documents: made.Document) -> Report:
    return build([host(document) for document in documents], [], [], PUBLISHED)


def test_the_fixtures_are_valid_documents() -> None:
    assert parse(json.dumps(whole()).encode()) == whole()


def test_the_rate_of_many_clients_is_over_wall_time() -> None:
    document = whole()
    (found,) = concurrency([host(document)])
    rows = {(row["arm"], row["clients"]): row for row in found.rows}
    assert [row["clients"] for row in found.rows if row["arm"] == "TPM key"] == [
        "1", "2", "4", "8", "16",
    ]  # fmt: skip
    assert rows["TPM key", "1"]["rate"] == "270"
    assert rows["TPM key", "16"]["rate"] == "500"
    crowd = next(one for one in document["scenarios"] if one["name"] == "handshake-concurrent")
    sixteen = next(one for one in crowd["arms"] if one["name"] == "tpm-persistent-16")
    share = sixteen["waited_ns"] / sum(sixteen["samples_ns"])
    assert rows["TPM key", "16"]["waited"] == f"{share * 100:.1f} %"
    assert rows["software key", "16"]["waited"] == "-"
    raw = document["scenarios"][0]["arms"][0]["samples_ns"]
    ceiling = 1e9 / statistics.median(raw)
    assert found.ceiling == f"{ceiling:.0f}"
    assert rows["TPM key", "16"]["of_ceiling"] == f"{500 / ceiling * 100:.1f} %"
    assert rows["software key", "16"]["of_ceiling"] == "-"
    assert found.plot is not None
    assert [len(curve.marks) for curve in found.plot.curves] == [5, 5]
    assert found.plot.limit is not None


def test_without_raw_signing_there_is_no_ceiling() -> None:
    document = whole()
    document["scenarios"] = [
        one for one in document["scenarios"] if one["name"] == "handshake-concurrent"
    ]
    (found,) = concurrency([host(document)])
    assert found.ceiling == ""
    assert {row["of_ceiling"] for row in found.rows} == {"-"}
    assert found.plot is not None
    assert found.plot.limit is None


def test_more_is_higher_and_doublings_are_equally_far_apart() -> None:
    plot = lines([Curve("a", [(1, 100), (2, 150), (4, 300)], 0)], limit=600)
    assert plot is not None
    (first, second, third) = plot.curves[0].marks
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.2)
    assert first[1] > second[1] > third[1] > (plot.limit or 0)
    # 300 lies halfway between the axis and the limit of 600.
    assert plot.bottom - third[1] == pytest.approx(third[1] - (plot.limit or 0), abs=0.2)
    assert lines([]) is None
    assert lines([Curve("a", [(1, 0.0)], 0)]) is None


def test_every_operation_with_its_figures_or_why_not() -> None:
    document = whole()
    found = devices([host(document)], PUBLISHED, in_full=True)
    rows = {row["operation"]: row for row in found.hosts[0]["rows"]}
    assert list(rows)[:3] == ["RNG", "AES-128-CBC-enc", "RSA 2048 key gen"], "in their order"
    sign = next(one for one in document["scenarios"] if one["name"] == "device-ecdsa-p256-sign")
    floor = sign["arms"][0]["samples_ns"]
    row = rows["ECDSA 256 sign"]
    assert row["median"] == f"{statistics.median(floor) / 1e6:.2f}"
    assert row["rate"] == f"{len(floor) / sum(floor) * 1e9:.0f} ops/s"
    assert row["esapi"] == f"{statistics.median(sign['arms'][1]['samples_ns']) / 1e6:.2f}"
    assert row["esapi-aes-128-cfb"] == ""
    assert row["published"] == "35.621 ms; 28.073 ops/s"
    assert rows["RNG"]["rate"].endswith(" KB/s")
    assert (rows["Quote"]["status"], rows["Quote"]["reason"], rows["Quote"]["code"]) == (
        "blocked",
        "the hierarchy is disabled",
        "TPM_RC_COMMAND_CODE 0x143",
    )
    assert rows["AES-128-CBC-enc"]["status"] == "unsupported"


def test_too_many_hosts_to_show_are_said() -> None:
    found = devices([host(whole())], PUBLISHED, in_full=False)
    assert found
    assert (found.having, found.hosts) == (1, [])
    assert len(found.beside) == 1, "models of TPMs are few, however many hosts there are"


def test_without_the_suite_there_is_no_section() -> None:
    plain = host(made.document())
    assert not devices([plain], PUBLISHED, in_full=True)
    assert messages([plain], PUBLISHED) == []
    assert concurrency([plain]) == []


def test_operations_stay_out_of_the_tables_about_tls() -> None:
    both, plain = report(whole()), report(made.document(curves=("p256",)))
    assert {line.scenario for line in both.medians.lines} - {
        line.scenario for line in plain.medians.lines
    } == {"New connections, many clients at once"}
    assert both.ratios == plain.ratios
    assert both.unusable == plain.unusable


def test_the_slope_agrees_with_a_regression_over_the_samples() -> None:
    rng = random.Random(5)
    by_size = {size: made.samples(rng, 2e6 + 30 * size, 40) for size in (17, 93, 1024)}
    found = slope(
        {size: describe(np.sort(np.array(of, dtype=float))) for size, of in by_size.items()}
    )
    assert found is not None
    x = [size for size, of in by_size.items() for _ in of]
    y = [value for of in by_size.values() for value in of]
    theirs = scipy_stats.linregress(x, y)
    assert found.ns_per_kib == pytest.approx(theirs.slope * 1024)
    assert found.error_ns_per_kib == pytest.approx(theirs.stderr * 1024)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)


def test_a_slope_needs_two_sizes_and_spread() -> None:
    flat = describe(np.array([5.0, 5.0, 5.0]))
    more = describe(np.array([6.0, 6.0, 6.0]))
    assert slope({17: flat}) is None
    same = slope({17: flat, 93: flat})
    assert same is not None
    assert same.p == 1.0
    grown = slope({17: flat, 93: more})
    assert grown is not None
    assert grown.p == 0.0


@pytest.mark.parametrize(("ns_per_byte", "matters"), [(0.0, False), (1000.0, True)])
def test_whether_size_matters(ns_per_byte: float, matters: bool) -> None:
    document = made.document(curves=("p256",))
    document["scenarios"] += made.message_suite("p256", random.Random(3), ns_per_byte)
    (found,) = messages([host(document)], PUBLISHED)
    tpm = [row for row in found.slopes if row["key"] == "TPM"]
    assert [row["matters"] for row in tpm] == [matters, matters]


def test_message_sizes_with_benchmarkdotnets_figures_and_the_published_ones() -> None:
    document = whole()
    (found,) = messages([host(document)], PUBLISHED)
    row = next(
        row
        for row in found.rows
        if (row["scenario"], row["key"], row["size"]) == ("Signing a message", "TPM", "1024")
    )
    sign = next(one for one in document["scenarios"] if one["name"] == "message-size-sign")
    taken = next(arm["samples_ns"] for arm in sign["arms"] if arm["name"] == "tpm-1024")
    assert row["mean"] == f"{statistics.fmean(taken) / 1e3:.0f}"
    assert row["published"] == "32980.28 us"
    error = scipy_stats.t.ppf(0.9995, 39) * statistics.stdev(taken) / 40**0.5
    assert float(row["error"]) == pytest.approx(error / 1e3, rel=0.01)
    assert [title for title, _ in found.plots] == ["Signing a message", "Verifying a message"]


def test_all_of_it_in_every_form_of_the_report(tmp_path: Path, inside: Collector) -> None:
    document = whole()
    for one in document["scenarios"]:
        if one["name"] == "device-quote":
            one["reason"] = HOSTILE
            one["operation"]["response_name"] = HOSTILE
        if one["name"] == "device-rng":
            one["operation"]["title"] = "RNG <b>|*\x1b[31m"
    made.write(tmp_path / "results", document)
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    page = Page(out / "index.html")
    names = [tag for tag, _ in page.tags]
    assert "script" not in names
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert names.count("caption") == names.count("table")
    text = " ".join("".join(page.text).split())
    assert "Nations NS350" in text
    assert any(row[0] == "TPM key" and row[1] == "16" and row[3] == "500" for row in page.rows)
    for name in ("report.md", "report.txt"):
        content = (out / name).read_text()
        assert "\x1b" not in content
        for expected in ("Many clients at once", "operation by operation", "Message sizes"):
            assert expected in content
        assert "Nations NS350" in content
        assert "32980.28 us" in content
    plain = (out / "report.txt").read_text().splitlines()
    assert [line for line in plain if len(line) > 100 and str(tmp_path) not in line] == []
