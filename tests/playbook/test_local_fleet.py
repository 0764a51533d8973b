"""The real playbooks on the local fleet: results, report, failures, resuming, teardown.

One run is taken through its life, since each pass costs most of a minute: first with a host whose
TPM is out of reach and a host that does not answer, then again when the former is mended, then once
more when a result has lost half of itself.
"""

import csv
import hashlib
import json
import socket
import statistics
from pathlib import Path

import pytest

from tests.support.playing import play

SIGNATURES, CONNECTIONS = 7, 5
RUN = "life-of-a-run"
REPORT = {
    "index.html",
    "report.md",
    "report.txt",
    "results.csv",
    "results.ndjson",
    "metrics.prom",
}
pytestmark = [pytest.mark.playbook, pytest.mark.swtpm, pytest.mark.timeout(900)]


class Fleet:
    """The local inventory with places and ports of its own, away from a user's fleet."""

    def __init__(self, root):
        self.root = root
        self.state = root / "var"
        self.results = root / "results"
        self.report = root / "report"
        self.first_port = free_ports()
        self.variables = {
            "local_fleet_dir": str(self.state),
            "local_first_port": self.first_port,
            "bench_run_results_dir": str(self.results),
            "bench_report_dir": str(self.report),
            "bench_run_curves": ["p256"],
            "bench_run_scenarios": ["raw-signing", "handshake-new"],
            "bench_run_signatures": SIGNATURES,
            "bench_run_connections": CONNECTIONS,
            "bench_run_poll": 1,
        }

    def play(self, name, *options, **variables):
        return play(
            "--inventory=inventory/local",
            *options,
            "--extra-vars",
            json.dumps({**self.variables, **variables}),
            f"playbooks/{name}.yml",
            timeout=600,
        )

    def document(self, host):
        return json.loads((self.results / RUN / f"{host}.json").read_text())

    def digest(self, host):
        return hashlib.sha256((self.results / RUN / f"{host}.json").read_bytes()).hexdigest()

    def failures(self):
        return json.loads((self.results / RUN / "failures.json").read_text())

    def software_tpms(self):
        """Command lines of the swtpm processes whose state is this fleet's."""
        lines = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = process.read_bytes().decode(errors="replace").replace("\0", " ")
            except OSError:
                continue
            if "swtpm" in line and str(self.state) in line:
                lines.append(line)
        return lines


def free_ports(count=12):
    """The first of a row of ports that nothing listens on."""
    for first in range(25010, 32000, 50):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    yield fleet
    fleet.play("teardown")


@pytest.fixture(scope="module")
def broken(fleet):
    """The first pass: tpm-b is sent to a port where no TPM is, and tpm-c does not exist."""
    nowhere = fleet.first_port + 5  # between the two TPMs' ports
    inventory = {
        "fleet": {
            "hosts": {
                "tpm-b": {"bench_run_tcti": f"swtpm:host=127.0.0.1,port={nowhere}"},
                "tpm-c": {"ansible_host": "127.0.0.1", "ansible_port": nowhere},
            }
        }
    }
    extra = fleet.root / "broken.json"
    extra.write_text(json.dumps(inventory))
    return fleet.play("run", f"--inventory={extra}", run_id=RUN)


@pytest.fixture(scope="module")
def mended(fleet, broken):
    """The second pass with the same run id, when tpm-b has its TPM again and tpm-c is not asked."""
    before = fleet.digest("tpm-a")
    done = fleet.play("run", run_id=RUN)
    return done, before


def flat(text):
    return " ".join(text.split())


def test_one_failing_host_does_not_stop_the_others(fleet, broken):
    assert broken.returncode != 0
    failures = {failure["host"]: failure for failure in fleet.failures()}
    assert set(failures) == {"tpm-b", "tpm-c"}, failures
    assert [scenario["status"] for scenario in fleet.document("tpm-a")["scenarios"]] == [
        "valid",
        "valid",
    ]
    assert failures["tpm-b"]["stage"] == "measure"
    assert "no software TPM answers" in failures["tpm-b"]["reason"]
    assert failures["tpm-c"]["stage"] == "connect"
    assert failures["tpm-c"]["reason"].startswith("unreachable: ")
    said = flat(broken.stdout)
    assert "measure: no software TPM answers" in said
    assert f"playbooks/run.yml -e run_id={RUN}" in said


def test_a_second_pass_measures_only_what_is_missing(fleet, mended):
    done, before = mended
    assert done.returncode != 0, "tpm-c belongs to the run and is not measured"
    assert "not measured, and not in this pass: tpm-c" in flat(done.stdout)
    assert {path.name for path in (fleet.results / RUN).glob("*.done.json")} == {
        "tpm-a.done.json",
        "tpm-b.done.json",
    }
    assert f"tpm-a was measured in run {RUN} already" in flat(done.stdout)
    assert f"tpm-b was measured in run {RUN} already" not in flat(done.stdout)
    assert fleet.digest("tpm-a") == before
    assert fleet.document("tpm-b")["host"] == "tpm-b"


def test_the_report_still_names_a_host_that_was_never_measured(fleet, mended):
    assert [failure["host"] for failure in fleet.failures()] == ["tpm-c"]
    assert "tpm-c" in (fleet.report / "report.txt").read_text()
    assert "tpm-c" in (fleet.report / "index.html").read_text()


def test_every_form_of_the_report_is_there_and_its_paths_are_printed(fleet, mended):
    done, _ = mended
    assert {path.name for path in fleet.report.iterdir()} >= REPORT
    for name in REPORT:
        assert (fleet.report / name).stat().st_size > 0
        assert str(fleet.report / name) in done.stdout


def test_the_medians_in_the_report_are_those_of_the_results(fleet, mended):
    with (fleet.report / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "median"]
    reported = {}
    for row in rows:
        about = json.loads(row["metadata"])
        assert row["unit"] == "ns"
        reported[about["host"], about["scenario"], about["curve"], about["arm"]] = float(
            row["value"]
        )
    expected = {
        (host, scenario["name"], scenario["curve"], arm["name"]): statistics.median(
            arm["samples_ns"]
        )
        for host in ("tpm-a", "tpm-b")
        for scenario in fleet.document(host)["scenarios"]
        for arm in scenario["arms"]
    }
    assert len(expected) >= 2 * (4 + 3)
    assert reported == pytest.approx(expected)


@pytest.mark.parametrize("host", ["tpm-a", "tpm-b"])
def test_what_was_asked_for_is_what_was_measured(fleet, mended, host):
    document = fleet.document(host)
    assert document["run_id"] == RUN
    assert document["host"] == host
    settings = document["settings"]
    assert settings["curves"] == ["p256"]
    assert settings["scenarios"] == ["raw-signing", "handshake-new"]
    assert (settings["signatures"], settings["connections"]) == (SIGNATURES, CONNECTIONS)
    for scenario in document["scenarios"]:
        wanted = SIGNATURES if scenario["unit"] == "signature" else CONNECTIONS
        assert [len(arm["samples_ns"]) for arm in scenario["arms"]] == [wanted] * len(
            scenario["arms"]
        )
    assert document["platform"]["tpm_location"] == "software"


def test_hosts_that_share_a_machine_are_measured_one_after_the_other(fleet, broken, tmp_path):
    """A fresh run of the two, so that both are measured in one pass."""
    done = fleet.play("run", run_id="both", bench_report_dir=str(tmp_path / "report"))
    assert done.returncode == 0, done.stdout[-3000:]
    documents = [
        json.loads((fleet.results / "both" / f"{host}.json").read_text())
        for host in ("tpm-a", "tpm-b")
    ]
    first, second = sorted(documents, key=lambda document: document["started_at"])
    assert first["finished_at"] <= second["started_at"]


def test_half_a_result_is_measured_again(fleet, mended):
    path = fleet.results / RUN / "tpm-b.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    done = fleet.play("run", "--limit=tpm-b", run_id=RUN)
    assert f"tpm-b was measured in run {RUN} already" not in flat(done.stdout)
    assert fleet.document("tpm-b")["host"] == "tpm-b"
    assert path.read_bytes() != whole
    assert "tpm-a" in (fleet.report / "results.csv").read_text(), "the report is over the whole run"


def test_the_host_keeps_no_result_and_no_secret(fleet, mended):
    for host in ("tpm-a", "tpm-b"):
        assert not list((fleet.state / host / "state" / "runs").iterdir())
        assert not list((fleet.state / host).rglob("owner-auth"))


def test_nothing_outside_its_folders_is_the_fleets(fleet, mended):
    """Without root: the agent, its journal and the TPM states are below the fleet's directory."""
    assert {path.name for path in (fleet.state / "tpm-a").iterdir()} == {"agent", "state", "tpm"}


def test_a_run_that_is_not_there_is_named(fleet):
    done = fleet.play("report", run_id="never-was")
    assert done.returncode != 0
    assert f"There is no run never-was in {fleet.results}." in flat(done.stdout)


def test_a_port_of_another_program_is_named(fleet, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = fleet.play(
            "run",
            "--limit=tpm-a",
            run_id="port",
            software_tpm_dir=str(tmp_path / "tpm"),
            software_tpm_port=port,
            bench_report_dir=str(tmp_path / "report"),
        )
    assert done.returncode != 0
    failures = json.loads((fleet.results / "port" / "failures.json").read_text())
    assert failures[0]["stage"] == "software TPM"
    assert failures[0]["reason"].startswith(
        f"Port {port} on 127.0.0.1 is in use by another program"
    )
    assert "local_first_port" in failures[0]["reason"]  # what a user of this inventory sets


def test_teardown_stops_the_software_tpms_and_only_asked_removes_the_agent(fleet, mended):
    assert len(fleet.software_tpms()) == 2
    done = fleet.play("teardown")
    assert done.returncode == 0, done.stdout[-3000:]
    assert fleet.software_tpms() == []
    assert (fleet.state / "tpm-a" / "agent" / "venv" / "bin" / "tpm-tls-bench").exists()

    done = fleet.play("teardown", bench_agent_state="absent")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "changed=1" in done.stdout
    assert not (fleet.state / "tpm-a" / "agent").exists()
    again = fleet.play("teardown", bench_agent_state="absent")
    assert again.returncode == 0
    assert "changed=1" not in again.stdout
