"""One TPM over several transports, side by side in the report."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from collector.commands import command_rows
from collector.load import BrokenDocumentError, Loaded, parse
from collector.summarise import Host, summarise
from collector.transports import side_by_side
from tests.fixtures import documents as made
from tests.fixtures.hostile import HOSTILE
from tests.support.page import Page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]


def several(host: str = "vm-1", **changes: object) -> made.Document:
    """A document over /dev/tpmrm0, and over /dev/tpm0 in half the time."""
    rng = random.Random(host)
    document = made.document(host, curves=("p256",))
    document["scenarios"] += [*made.device_suite(rng), *made.message_suite("p256", rng)]
    raw = made.other_transport("device:/dev/tpm0", rng, speed=0.5)
    document["other_transports"] = [raw | changes]
    return document


def host(document: made.Document) -> Host:
    return summarise(Loaded("x.json", document), keep_samples=False)


def test_the_fixture_is_a_valid_document() -> None:
    assert parse(json.dumps(several()).encode()) == several()


def test_the_same_operation_over_each_transport() -> None:
    (found,) = side_by_side([host(several())])
    assert found.columns == [
        "device:/dev/tpmrm0, resource manager: kernel",
        "device:/dev/tpm0, resource manager: none",
    ]
    rows = {(row["operation"], row["curve"]): row["cells"] for row in found.rows}
    managed, raw = rows["ECDSA 256 sign", ""]
    assert float(raw["text"]) == pytest.approx(float(managed["text"]) / 2, rel=0.1)
    assert (managed["lowest"], raw["lowest"]) == (False, True)
    # Message sizes take as long over both, and so neither is the lowest beyond doubt.
    alike = rows["Signing a message, TPM, 1024 bytes", "P-256"]
    assert [cell["lowest"] for cell in alike] == [False, False]
    assert ("Signing alone, no TLS, TPM key", "P-256") in rows
    sizes = [name.split()[-2] for name, _ in rows if name.startswith("Signing a message, TPM, ")]
    assert [size for size in sizes if size.isdigit()][:3] == ["17", "93", "1024"]
    # What only the first transport was asked is not here, nor what goes over no transport.
    assert not any("connection" in operation for operation, _ in rows)
    assert not any("software" in operation for operation, _ in rows)


def test_an_operation_that_one_transport_lacks_leaves_its_cell_empty() -> None:
    document = several()
    document["other_transports"][0]["device"] = document["other_transports"][0]["device"][:1]
    (found,) = side_by_side([host(document)])
    rows = {row["operation"]: [cell["text"] for cell in row["cells"]] for row in found.rows}
    assert all(rows["RNG"])
    assert "ECDSA 256 sign" not in rows
    document["scenarios"] = [one for one in document["scenarios"] if one["name"] != "device-rng"]
    (found,) = side_by_side([host(document)])
    rows = {row["operation"]: [cell["text"] for cell in row["cells"]] for row in found.rows}
    assert rows["RNG"][0] == ""
    assert rows["RNG"][1]


def test_figures_of_another_transport_enter_nothing_else() -> None:
    plain = several()
    del plain["other_transports"]
    with_it, without = host(several()), host(plain)
    assert with_it.scenarios == without.scenarios
    assert with_it.findings == without.findings


def test_a_host_with_one_transport_has_no_table() -> None:
    assert side_by_side([host(made.document())]) == []


def test_a_second_entry_for_one_scenario_is_broken() -> None:
    document = several()
    document["other_transports"][0]["tls"] *= 2
    with pytest.raises(BrokenDocumentError) as caught:
        parse(json.dumps(document).encode())
    assert caught.value.pointer == "/other_transports/0/tls/1"


def test_commands_counted_over_another_transport_say_so() -> None:
    document = made.counted_at_tpm(several())
    arm = document["other_transports"][0]["tls"][0]["arms"][0]
    arm["tpm_commands_behind_manager"] = arm["signatures"]["transport"]
    rows = [row for row in command_rows([host(document)]) if "tpm0" in row["where"]]
    assert [(row["where"], row["manager"], row["behind"]) for row in rows] == [
        ("vm-1, device:/dev/tpm0", "none", "1")
    ]


def test_in_every_form_of_the_report(tmp_path: Path, inside: Collector) -> None:
    made.write(tmp_path / "results", several("vm-1"))
    failed = several("vm-2", tcti=f"tabrmd: {HOSTILE}", status="invalid", reason=HOSTILE)
    failed["other_transports"][0].update(device=[], messages=[], tls=[], same_tpm=None)
    made.write(tmp_path / "results", failed)
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    page = Page(out / "index.html")
    assert "script" not in [tag for tag, _ in page.tags]
    assert any(row[0] == "ECDSA 256 sign" and row[-1].endswith("lowest") for row in page.rows)
    for name in ("report.md", "report.txt"):
        content = (out / name).read_text()
        assert "One TPM over several transports" in content
        assert "\x1b" not in content
        assert "lowest" in content
    long = [line for line in (out / "report.txt").read_text().splitlines() if len(line) > 100]
    assert [line for line in long if str(tmp_path) not in line] == []
    rows = [json.loads(line) for line in (out / "results.ndjson").read_text().splitlines()]
    over = {row["metadata"].get("tcti") for row in rows if row["metadata"]["host"] == "vm-1"}
    assert over == {None, "device:/dev/tpm0"}
    assert "/dev/tpm0" not in (out / "metrics.prom").read_text()
