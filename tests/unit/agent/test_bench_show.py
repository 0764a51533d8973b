"""A result document as text: the published output of go-tpm-tls-bench, line by line."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fixtures import documents
from tpmbench import show

# What go-tpm-tls-bench's README shows, from a Google Cloud n2d-standard-2 with SEV-SNP.
PUBLISHED = """\
TPM key at 0x81000004 on /dev/tpmrm0, curve p256, non-exportable per the TPM: true

Raw signing, 100 signatures
  TPM key            median    2.16 ms   p95    2.50 ms       456 signature/s
  software key       median    0.04 ms   p95    0.07 ms     21530 signature/s
  TPM key, transient median   21.70 ms   p95   22.19 ms        46 signature/s

Persistent key with an unrelated transient object loaded, 100 signatures
  nothing loaded     median    2.11 ms   p95    2.48 ms       472 signature/s
  same transport     median   21.37 ms   p95   21.88 ms        48 signature/s
  other transport    median    2.20 ms   p95    2.52 ms       453 signature/s

One connection per request, 50 connections, no resumption
  TPM key            median    3.65 ms   p95    4.91 ms       258 conn/s    50 signatures
  software key       median    1.52 ms   p95    1.83 ms       635 conn/s    50 signatures

One connection per request, 50 connections, session resumption
  TPM key            median    1.02 ms   p95    1.17 ms       906 conn/s     1 signatures   49 resumed
  software key       median    1.01 ms   p95    1.56 ms       945 conn/s     1 signatures   49 resumed

One connection reused for 50 requests
  TPM key            median    0.03 ms   p95    0.04 ms     31936 req/s     1 signatures
  software key       median    0.03 ms   p95    0.04 ms     31725 req/s     1 signatures
"""  # noqa: E501  # as published

SCENARIOS = {
    "Raw signing": "raw-signing",
    "Persistent key with an unrelated transient object loaded": "loaded-transport",
    "no resumption": "handshake-new",
    "session resumption": "handshake-resumed",
    "One connection reused": "connection-reused",
}
ARMS = {
    "TPM key": "tpm-persistent",
    "software key": "software",
    "TPM key, transient": "tpm-transient",
    "nothing loaded": "nothing-loaded",
    "same transport": "same-transport",
    "other transport": "other-transport",
}
UNITS = {"signature/s": "signature", "conn/s": "connection", "req/s": "request"}
LINE = re.compile(
    r"  (?P<label>.+?) +median +(?P<median>[\d.]+) ms +p95 +(?P<p95>[\d.]+) ms +(?P<rate>\d+) "
    r"(?P<unit>\S+)(?: +(?P<signatures>\d+) signatures)?(?: +(?P<resumed>\d+) resumed)?"
)


def samples(count: int, median: float, p95: float, rate: float) -> list[int]:
    """Make up samples (ns) with a median and a 95th percentile (ms) and a rate (per second)."""
    middle, tail = count // 2, int(0.95 * (count - 1))
    made = [median] * tail + [p95] * (count - tail)
    rest = 1000 * count / rate - sum(made)
    if rest < 0:  # the mean is below the median: quicker ones below it
        for index in range(middle - 1):
            made[index] += rest / (middle - 1)
    else:  # above: slower ones between the two, and what is left on the slowest
        between = range(middle + 1, tail)
        step = min(p95 - median, rest / len(between))
        for index in between:
            made[index] += step
        made[-1] += rest - step * len(between)
    return [round(value * 1e6) for value in made]


def published_document() -> dict[str, Any]:
    """Build a document that has the published numbers."""
    scenarios = []
    for block in PUBLISHED.split("\n\n")[1:]:
        title, *lines = block.splitlines()
        name = next(name for part, name in SCENARIOS.items() if part in title)
        count = int(re.findall(r"\d+", title)[0])
        arms = []
        unit = ""
        for line in lines:
            match = LINE.fullmatch(line)
            assert match, line
            unit = UNITS[match["unit"]]
            numbers = [float(match[key]) for key in ("median", "p95", "rate")]
            arms.append(
                documents.arm(
                    ARMS[match["label"]],
                    samples(count, *numbers),
                    signatures=int(match["signatures"] or count),
                    resumed=None if unit == "signature" else int(match["resumed"] or 0),
                )
            )
        scenarios.append(
            {
                "name": name,
                "curve": "p256",
                "status": "valid",
                "reason": None,
                "unit": unit,
                "turns": [],
                "arms": arms,
                "absent_arms": [],
            }
        )
    return {
        "host": "snp",
        "tpm": {
            "tcti": "device:/dev/tpmrm0",
            "manufacturer": "GOOG",
            "vendor_string": "vTPM",
            "firmware_version": "1.2.3.4",
            "simulated_device": False,
        },
        "platform": {"tpm_location": "hypervisor", "tee": "sev-snp"},
        "settings": {"curves": ["p256"]},
        "keys": [{"curve": "p256", "handle": "0x81000004", "non_exportable": True}],
        "scenarios": scenarios,
        "warnings": [],
    }


def test_the_published_numbers_are_printed_as_published() -> None:
    shown = show.text(published_document())
    head, text = shown.split("\n\n", 1)
    assert text == PUBLISHED
    assert head == "snp: TPM GOOG vTPM 1.2.3.4, lives in: hypervisor, TEE: sev-snp"


def test_arms_come_in_the_published_order_whatever_the_documents() -> None:
    document = published_document()
    for scenario in document["scenarios"]:
        scenario["arms"].reverse()
    assert show.text(document).split("\n\n", 1)[1] == PUBLISHED


def test_arms_of_ours_follow_with_the_same_columns() -> None:
    document = published_document()
    new = document["scenarios"][2]
    new["arms"].insert(0, documents.arm("software-native", samples(50, 1.5, 1.6, 640), resumed=0))
    lines = show.text(document).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("  software, native"))
    assert lines[at - 1].startswith("  software key")
    assert lines[at].index("median") == lines[at - 1].index("median")
    assert lines[at].index("conn/s") == lines[at - 1].index("conn/s")


def test_one_sample_is_its_own_median_and_percentile() -> None:
    document = published_document()
    document["scenarios"] = [document["scenarios"][0]]
    document["scenarios"][0]["arms"] = [documents.arm("tpm-persistent", [2_000_000])]
    assert "median    2.00 ms   p95    2.00 ms       500 signature/s" in show.text(document)


@pytest.mark.parametrize(
    ("tcti", "where"),
    [
        ("device:/dev/tpm0", "/dev/tpm0"),
        ("device", "device"),
        ("swtpm:host=127.0.0.1,port=2321", "swtpm:host=127.0.0.1,port=2321"),
    ],
)
def test_the_transport_is_named_as_published_where_it_is_a_device(tcti: str, where: str) -> None:
    document = published_document()
    document["tpm"]["tcti"] = tcti
    assert f"TPM key at 0x81000004 on {where}, curve p256" in show.text(document)


def test_what_could_not_be_measured_says_why() -> None:
    document = published_document()
    raw, loaded, new, *_ = document["scenarios"]
    raw["absent_arms"] = [{"name": "tpm-transient", "reason": "no slot"}]
    loaded.update(status="not-applicable", reason="no resource manager", arms=[])
    new.update(status="invalid", reason="the counts disagree")
    document["settings"]["curves"].append("p384")
    lines = show.text(document).splitlines()
    assert "  TPM key, transient not measured: no slot" in lines
    assert "  not applicable: no resource manager" in lines
    assert "  invalid: the counts disagree" in lines
    assert "no TPM key on curve p384" in lines


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"tpm_location": "software"},
            "This is a software TPM: its times say nothing about hardware.",
        ),
        ({"simulated_device": True}, "This is a simulated device: its times are not a TPM's."),
    ],
)
def test_times_that_are_no_tpms_are_marked(change: dict[str, Any], line: str) -> None:
    document = published_document()
    assert line not in show.text(document)
    for part in ("tpm", "platform"):
        document[part] |= {key: value for key, value in change.items() if key in document[part]}
    assert line in show.text(document).splitlines()


def test_warnings_come_last_with_their_remedies() -> None:
    document = published_document()
    document["warnings"] = [{"code": "load", "message": "Load is 3.1.", "remedy": "Stop it."}]
    assert show.text(document).endswith("\nWarnings\n  Load is 3.1. Stop it.\n")
