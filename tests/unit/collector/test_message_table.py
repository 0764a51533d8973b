"""Message sizes beside each other: measured, imported and published."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collector.imported_messages import message_rows
from collector.importing import import_file
from collector.load import Imported, Loaded
from collector.message_table import MessageTable, message_table
from collector.messages import messages
from collector.published import figures as published_figures
from collector.summarise import Host, summarise
from tests.fixtures import documents as made
from tests.support.page import Page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Collector = Callable[..., subprocess.CompletedProcess[str]]

PUBLISHED = published_figures()
STUDY = Path(__file__).resolve().parents[2] / "fixtures" / "imports" / "benchmarkdotnet-cng.md"


def measured(name: str, **changes: Any) -> made.Document:
    document = made.document(name, curves=("p256",), **changes)
    document["scenarios"] += made.message_suite("p256", random.Random(name))
    return document


def host(document: made.Document) -> Host:
    return summarise(Loaded("x.json", document), keep_samples=False)


def study(device: str | None = None) -> Imported:
    return Imported("study.json", import_file(STUDY, device).document)


def rows(
    found: MessageTable, operation: str, key: str, curve: str = "P-256"
) -> dict[str, list[tuple[str, str]]]:
    return {
        f"{row['device']}/{row['source']}": [(cell["text"], cell["place"]) for cell in row["cells"]]
        for row in found.rows
        if (row["operation"], row["key"], row["curve"]) == (operation, key, curve)
    }


def test_an_imported_row_says_what_it_is_of() -> None:
    found = {(row.scenario, row.curve, row.key, row.size) for row in message_rows(study().document)}
    assert found == {
        (f"message-size-{operation}", curve, key, size)
        for operation in ("sign", "verify")
        for curve in ("p256", "p384")
        for key in ("tpm", "software")
        for size in (17, 93, 1024)
    }


@pytest.mark.parametrize(
    ("section", "method", "parameter", "value", "expected"),
    [
        ("", "SignTpmP256", "Size", "64", ("message-size-sign", "p256", "tpm", 64)),
        ("", "Verify", "Payload", "abc", ("message-size-verify", "", "", 3)),
        ("Non TPM, P521", "Sign", "Text", "a.b [5]", ("message-size-sign", "p521", "software", 5)),
        ("", "Hash", "Size", "64", None),
        ("", "Sign", "Threads", "4", None),
    ],
)  # fmt: skip
def test_what_the_words_do_not_say_stays_open(
    tmp_path: Path, section: str, method: str, parameter: str, value: str, expected: object
) -> None:
    path = tmp_path / "x.md"
    path.write_text(
        f"### {section}\n\n| Method | {parameter} | Mean |\n|---|---|---|\n"
        f"| {method} | {value} | 1.5 us |\n"
    )
    found = message_rows(import_file(path).document)
    shown = [(row.scenario, row.curve, row.key, row.size) for row in found]
    assert shown == ([expected] if expected else [])


def test_sources_stand_beside_each_other_and_are_never_pooled() -> None:
    ours = host(measured("vm-1"))
    found = message_table([ours], PUBLISHED, [study("Windows PC")])
    assert found.sizes == [17, 93, 1024]
    signing = rows(found, "Signing a message", "TPM")
    assert list(signing) == [
        "GOOG vTPM/measured", "Windows PC/imported", "ECDsaCng, Windows/published",
    ]  # fmt: skip
    assert signing["Windows PC/imported"] == [
        ("33,021.76", "2nd"), ("33,016.29", "2nd"), ("32,980.28", "2nd"),
    ]  # fmt: skip
    assert {place for _, place in signing["GOOG vTPM/measured"]} == {"best"}
    alone = rows(message_table([ours], PUBLISHED, []), "Signing a message", "TPM")
    assert alone["GOOG vTPM/measured"] == signing["GOOG vTPM/measured"]


def test_where_nobody_knows_what_was_timed_there_is_no_place() -> None:
    ours = host(measured("vm-1"))
    found = message_table([ours], PUBLISHED, [study("Windows PC")])
    verifying = rows(found, "Verifying a message", "TPM")
    assert {place for _, place in verifying["Windows PC/imported"]} == {""}
    assert {place for _, place in verifying["ECDsaCng, Windows/published"]} == {""}
    assert {place for _, place in verifying["GOOG vTPM/measured"]} == {""}, "no rival is left"
    software = rows(found, "Verifying a message", "software")
    assert software["Windows PC/imported"][0] == ("104.8", "2nd")


def test_software_tpms_and_imports_without_a_device_have_no_place() -> None:
    emulated = host(measured("soft-1", tpm_location="software"))
    found = message_table([emulated], PUBLISHED, [study()])
    signing = rows(found, "Signing a message", "TPM")
    assert {place for _, place in signing["IBM SW TPM (software TPM)/measured"]} == {""}
    assert {place for _, place in signing[f"{STUDY.name}/imported"]} == {""}
    assert {place for _, place in signing["ECDsaCng, Windows/published"]} == {""}, (
        "no rival is left"
    )


def test_nothing_measured_or_imported_is_no_table() -> None:
    assert not message_table([host(made.document())], PUBLISHED, [])


def test_an_import_is_drawn_by_itself() -> None:
    found = messages([host(measured("vm-1"))], PUBLISHED, [study("Windows PC")])
    assert [one.where for one in found] == [
        "vm-1 P-256",
        f"Windows PC (imported from {STUDY.name}) P-256",
        f"Windows PC (imported from {STUDY.name}) P-384",
    ]
    theirs = found[1]
    assert [title for title, _ in theirs.plots] == ["Signing a message", "Verifying a message"]
    assert [curve.label for curve in theirs.plots[0][1].curves] == ["TPM", "software"]
    row = theirs.rows[-1]
    assert (row["size"], row["mean"], row["error"], row["n"]) == ("1024", "105.7", "0.16", "-")


def test_in_every_form_of_the_report(tmp_path: Path, inside: Collector) -> None:
    made.write(tmp_path / "results", measured("vm-1"))
    inside("import", STUDY, "--device", "Windows PC", "--output", tmp_path / "imported")
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", tmp_path / "imported", "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    page = Page(out / "index.html")
    assert any(
        row[3:6] == ["Windows PC", f"imported from {STUDY.name}", "imported"] for row in page.rows
    )
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert "TPM" in page.text
    for name in ("report.md", "report.txt"):
        content = (out / name).read_text()
        assert "33,016.29 2nd" in content.replace("\\", "")
        assert "nobody knows whether it ran in the TPM" in " ".join(content.split())
    long = [line for line in (out / "report.txt").read_text().splitlines() if len(line) > 100]
    assert [line for line in long if str(tmp_path) not in line] == []
