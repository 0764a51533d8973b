"""What is known of each host of a run, from the files that the roles leave."""

import hashlib
import json

import pytest

from scripts import run_state


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"run_id": "r", "hosts": ["b", "a"]}))
    return tmp_path


def measured(run, host, text='{"schema": "x"}'):
    (run / f"{host}.json").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (run / f"{host}.done.json").write_text(json.dumps({"host": host, "sha256": digest}))


def failed(run, host, reason):
    failure = {"host": host, "stage": "measure", "reason": reason}
    (run / f"{host}.failed.json").write_text(json.dumps(failure))
    return failure


def test_measured_hosts_are_documents_in_order(run):
    measured(run, "b")
    measured(run, "a")
    assert run_state.run_state(run) == {
        "documents": [str(run / "a.json"), str(run / "b.json")],
        "failures": [],
    }


def test_a_failed_host_keeps_its_reason(run):
    measured(run, "a")
    failure = failed(run, "b", "handle 0x81000001 is occupied")
    assert run_state.run_state(run) == {
        "documents": [str(run / "a.json")],
        "failures": [failure],
    }


def test_a_failure_of_an_earlier_attempt_is_forgotten_once_the_host_is_measured(run):
    failed(run, "a", "connection refused")
    measured(run, "a")
    assert run_state.host_state(run, "a") is None


def test_half_a_document_is_not_a_result(run):
    measured(run, "a")
    whole = (run / "a.json").read_text()
    (run / "a.json").write_text(whole[: len(whole) // 2])
    state = run_state.host_state(run, "a")
    assert state is not None
    assert "SHA-256 differs" in state["reason"]


def test_a_document_without_a_marker_is_not_a_result(run):
    (run / "a.json").write_text("{}")
    state = run_state.host_state(run, "a")
    assert state is not None
    assert state["reason"] == run_state.NOTHING


def test_the_failures_are_written_for_the_collector(run, capsys):
    failure = failed(run, "a", "no TPM")
    measured(run, "b")
    assert run_state.main([str(run)]) == 0
    assert json.loads((run / "failures.json").read_text()) == [failure]
    assert json.loads(capsys.readouterr().out)["documents"] == [str(run / "b.json")]


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_what_is_not_a_run_is_named(tmp_path, capsys, content):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    assert run_state.main([str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert str(tmp_path) in error
    assert error.count("\n") == 1
