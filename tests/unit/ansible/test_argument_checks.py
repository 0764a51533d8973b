"""Wrong values are refused on the control node, before a host is touched."""

import json

import pytest

from tests.support.playing import play

pytestmark = pytest.mark.playbook


@pytest.fixture
def fleet(tmp_path):
    """Two hosts behind an ssh client that only writes down that it was called."""
    calls = tmp_path / "calls"
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >>{calls}\necho "no route" >&2\nexit 255\n')
    ssh.chmod(0o755)
    host = {"ansible_ssh_executable": str(ssh), "ansible_ssh_retries": 0}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"fleet": {"hosts": {"one": host, "two": host}}}))

    def measure(**variables):
        given = {"bench_run_results_dir": str(tmp_path / "results"), **variables}
        done = play(
            f"--inventory={inventory}", "playbooks/run.yml", "--extra-vars", json.dumps(given)
        )
        return done, calls.read_text() if calls.exists() else ""

    measure.results = tmp_path / "results"
    return measure


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("bench_run_curves", ["p256", "p255"], "p255"),
        ("bench_run_suites", ["tsl"], "tsl"),
        ("bench_run_signatures", 0, "bench_run_signatures must be 1 or more, not 0"),
        ("bench_run_connections", "many", "bench_run_connections"),
        ("bench_run_handle", "0x01000000", "bench_run_handle must be auto or a persistent handle"),
        ("bench_run_tcti", "/dev/tpm0", "as in device:/dev/tpmrm0, not /dev/tpm0."),
        ("bench_run_other_tctis", ["device:/dev/tpmrm0"], "must name each way to the TPM once"),
        ("bench_agent_source", "pip", "bench_agent_source must be one of"),
        ("bench_agent_dir", "/opt", "below a top-level directory"),
        ("run_id", "../elsewhere", "bench_run_id (run_id) must be"),
        ("bench_run_signature", 5, "No role has a variable bench_run_signature; "),
    ],
)
def test_a_wrong_value_stops_the_play_and_no_host_is_asked(fleet, name, value, words):
    done, calls = fleet(**{name: value})
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert words in said
    assert calls == ""
    assert not fleet.results.exists()


def test_right_values_do_reach_the_hosts_and_an_unreachable_one_is_recorded(fleet):
    """The same fleet, so that the silence above means something."""
    done, calls = fleet(run_id="right")
    assert calls != ""
    assert done.returncode != 0
    failures = json.loads((fleet.results / "right" / "failures.json").read_text())
    assert [(failure["host"], failure["stage"]) for failure in failures] == [
        ("one", "connect"),
        ("two", "connect"),
    ]
    assert all(failure["reason"].startswith("unreachable: ") for failure in failures)
    assert all("no route" in failure["reason"] for failure in failures)
