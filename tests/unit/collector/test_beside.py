"""TPMs by model, beside imported results and published devices."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collector.beside import Beside, beside, place
from collector.importing import import_file
from collector.load import Imported, Loaded
from collector.models import model_rows
from collector.published import figures as published_figures
from collector.summarise import Host, summarise
from tests.fixtures import documents as made
from tests.support.page import Page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Collector = Callable[..., subprocess.CompletedProcess[str]]

PUBLISHED = published_figures()
IMPORTS = Path(__file__).resolve().parents[2] / "fixtures" / "imports"
CAPS = "TPM2: Caps 0x30000697, Did 0x001b, Vid 0x15d1, Mfg IFX (1), Vendor SLB9670, Fw 7.85"


def whole(name: str, speed: float = 1.0, **changes: Any) -> made.Document:
    document = made.document(name, curves=("p256",), **changes)
    document["scenarios"] += made.device_suite(random.Random(name), speed)
    return document


def host(document: made.Document) -> Host:
    return summarise(Loaded("x.json", document), keep_samples=False)


def imported(path: Path, device: str | None = None) -> Imported:
    return Imported(str(path), import_file(path, device).document)


def table(hosts: list[Host], documents: list[Imported] | None = None) -> Beside:
    found = beside(hosts, PUBLISHED, documents or [])
    return found[0]


def by_device(found: Beside) -> dict[str, dict[str, Any]]:
    return {row["device"]: row for row in found.rows}


def best(found: Beside) -> dict[str, list[str]]:
    return {
        name: [row["device"] for row in found.rows if row["cells"][name]["place"] == "best"]
        for name, _ in found.columns
    }


def test_the_fleet_stands_by_model_beside_the_published_devices() -> None:
    fleet = [host(whole(f"vm-{number}", speed)) for number, speed in ((1, 1), (2, 2), (3, 3))]
    found = table(fleet)
    assert len(found.rows) == 1 + 11
    rows = by_device(found)
    ours = rows["GOOG vTPM"]
    assert (ours["source"], ours["where"]) == ("measured", ["vm-1", "vm-2", "vm-3"])
    assert (ours["bus"], ours["firmware"]) == ("device:/dev/tpmrm0", "32.0.16.0")
    second = next(
        one["arms"][0]["samples_ns"]
        for one in whole("vm-2", 2)["scenarios"]
        if one["name"] == "device-ecdsa-p256-sign"
    )
    shown = float(ours["cells"]["ecdsa-256-sign"]["text"])
    assert shown == pytest.approx(statistics.fmean(second) / 1e6, rel=0.01), "median of three"
    slb = rows["Infineon OPTIGA SLB9672"]
    assert (slb["source"], slb["bus"]) == ("published", "SPI 43 MHz")
    assert [slb["cells"][name]["text"] for name, _ in found.columns] == [
        "1567.7", "77.0", "35.6", "24.1",
    ]  # fmt: skip
    assert best(found)["ecdsa-256-sign"] == ["GOOG vTPM"]


def test_every_figure_says_its_place() -> None:
    found = table([host(whole("vm-1"))])
    for name, _ in found.columns:
        shown = [
            (float(row["cells"][name]["text"]), row["cells"][name]["place"])
            for row in found.rows
            if row["cells"][name]["text"]
        ]
        assert [where for _, where in sorted(shown)][:4] == ["best", "2nd", "3rd", "4th"]
    assert place(1.0, [1.0]) == "", "alone it is the best of nothing"
    assert [place(n, range(1, 30)) for n in (1, 2, 3, 11, 12, 13, 21, 22)] == [
        "best", "2nd", "3rd", "11th", "12th", "13th", "21st", "22nd",
    ]  # fmt: skip


def test_a_published_device_may_be_the_best_and_a_software_tpm_never_is() -> None:
    slow = host(whole("vm-1", 1000))
    emulated = host(whole("soft-1", tpm_location="software"))
    slowed = whole("slow-1")
    slowed["tpm"]["simulated_device"] = True
    found = table([slow, emulated, host(slowed)])
    assert best(found) == {
        "rsa-2048-key-gen": ["NVIDIA Jetson Orin fTPM (OP-TEE)"],
        "rsa-2048-private": ["NVIDIA Jetson Orin fTPM (OP-TEE)"],
        "ecdsa-256-sign": ["Nations NS350"],
        "ecdsa-256-verify": ["Nations NS350"],
    }
    rows = by_device(found)
    for name in ("IBM SW TPM (software TPM)", "GOOG vTPM (slowed on purpose)"):
        assert {cell["place"] for cell in rows[name]["cells"].values()} == {""}


def test_an_imported_result_stands_beside_and_is_never_pooled() -> None:
    ours = host(whole("vm-1"))
    alone = by_device(table([ours]))["GOOG vTPM"]["cells"]
    import_of = imported(IMPORTS / "wolftpm-slb9672.txt", "Lab PC, SLB9672")
    found = table([ours], [import_of])
    row = by_device(found)["Lab PC, SLB9672"]
    assert (row["source"], row["where"]) == (
        "imported",
        ["imported from wolftpm-slb9672.txt"],
    )
    assert row["cells"]["ecdsa-256-sign"]["text"] == "35.621"
    assert row["cells"]["ecdsa-256-sign"]["place"] == "6th"
    assert {name: cell["text"] for name, cell in alone.items()} == {
        name: cell["text"] for name, cell in by_device(found)["GOOG vTPM"]["cells"].items()
    }
    # An import alone makes the table as well.
    assert table([], [import_of]).rows[0]["device"] == "Lab PC, SLB9672"


@pytest.mark.parametrize(
    ("words", "device", "firmware", "ranked"),
    [
        (CAPS, "SLB9670", "7.85", True),
        (CAPS.replace("IFX", "IBM").replace("SLB9670", "SW   TPM"), "SW TPM", "7.85", False),
        ("", "bench.txt", "", False),
    ],
)
def test_an_import_is_known_by_its_own_words(
    tmp_path: Path, words: str, device: str, firmware: str, ranked: bool
) -> None:
    path = tmp_path / "bench.txt"
    path.write_text(f"{words}\n{(IMPORTS / 'wolftpm-slb9672.txt').read_text()}")
    row = table([], [imported(path)]).rows[0]
    assert (row["device"], row["firmware"], row["ranked"]) == (device, firmware, ranked)


def test_the_post_quantum_part() -> None:
    document = made.document("vm-1", curves=("p256",))
    rng = random.Random(1)
    document["scenarios"] += [
        made.operation("device-ml-dsa-65-sign", "ML-DSA-65 sign", rng, 5e8, n=5),
        made.operation("device-ml-kem-768-encapsulate", "ML-KEM-768 encapsulate", rng, 9e8, n=5),
    ]
    (found,) = beside([host(document)], PUBLISHED, [])
    rows = by_device(found)
    assert list(rows) == ["GOOG vTPM", "SEALSQ QVault TPM"]
    assert rows["GOOG vTPM"]["cells"]["ml-dsa-65-sign"]["place"] == "best"
    seal = rows["SEALSQ QVault TPM"]
    assert (seal["bus"], seal["where"]) == ("SPI", ["Raspberry Pi 5"])
    assert seal["cells"]["ml-kem-768-encap"] == {"text": "211.8", "place": "best"}
    assert seal["cells"]["ml-kem-768-decap"] == {"text": "425.5", "place": ""}, "no rival"


def test_models_say_bus_firmware_and_hosts() -> None:
    chips = [made.document(f"pc-{n}", tee="none", tpm_location="discrete") for n in (1, 2)]
    for one in chips:
        one["tpm"].update(manufacturer="IFX", vendor_string="SLB9672", firmware_version="16.13")
        one["platform"]["evidence"].append(
            {"source": "kernel driver of the TPM", "value": "tpm_tis_spi", "says": "a chip"}
        )
    rows = model_rows([host(one) for one in (*chips, made.document("vm-1"), made.local("soft-1"))])
    assert [(row["model"], row["number"]) for row in rows] == [
        ("GOOG vTPM", "1"),
        ("IFX SLB9672", "2"),
        ("IBM SW TPM (software TPM)", "1"),
    ]
    chip = rows[1]
    assert (chip["firmware"], chip["interface"], chip["place"], chip["hosts"]) == (
        "16.13",
        "SPI (tpm_tis_spi), device:/dev/tpmrm0",
        "discrete chip",
        ["pc-1", "pc-2"],
    )
    assert rows[2]["interface"] == "swtpm", "ports differ from host to host"
    assert chip["signing"].startswith("P-256 2.")
    assert ", P-384 2." in chip["signing"]


def test_a_host_with_several_runs_counts_once() -> None:
    runs = [whole("vm-1", 10, run_id=f"run-{number}") for number in range(4)]
    found = table([*(host(one) for one in runs), host(whole("vm-2", 1))])
    shown = float(by_device(found)["GOOG vTPM"]["cells"]["ecdsa-256-sign"]["text"])
    assert shown == pytest.approx((20 + 2) / 2, rel=0.1)


def test_in_every_form_of_the_report(tmp_path: Path, inside: Collector) -> None:
    made.write(tmp_path / "results", whole("vm-1"))
    inside(
        "import", IMPORTS / "wolftpm-slb9672.txt", "--device", "Lab PC", "--output", tmp_path / "i"
    )
    out = tmp_path / "report"
    done = inside("report", tmp_path / "results", tmp_path / "i", "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    shown = Page(out / "index.html").rows
    (lab,) = (row for row in shown if row[0] == "Lab PC")
    assert lab[3:5] == ["imported from wolftpm-slb9672.txt", "imported"]
    assert lab[7] == "35.621 6th"
    assert any(row[0] == "GOOG vTPM" and row[7].endswith("best") for row in shown if len(row) > 8)
    for name in ("report.md", "report.txt"):
        content = (out / name).read_text().replace("**", "").replace("\\", "")
        for expected in ("imported from wolftpm-slb9672.txt", "6th", " best", "GOOG vTPM"):
            assert expected in content
    lines = [json.loads(line) for line in (out / "results.ndjson").read_text().splitlines()]
    assert not any("Lab PC" in json.dumps(line) for line in lines)
