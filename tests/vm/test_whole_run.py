"""`make run INVENTORY=vm` and its teardown: SSH, sudo, a kernel's device, a result, a report."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from collector import labels
from tests.support.vm import TREE

if TYPE_CHECKING:
    from tests.support.vm import Machine
    from tests.vm.conftest import WholeRun


def test_it_ends_well_and_says_where_the_report_is(whole_run: WholeRun) -> None:
    (recap,) = re.findall(r"^vm-a +: (.*)$", whole_run.played.stdout, re.MULTILINE)
    assert {"unreachable=0", "failed=0", "rescued=0"} <= set(recap.split())
    assert str(whole_run.report / "index.html") in whole_run.played.stdout
    assert json.loads((whole_run.results / "failures.json").read_text()) == []


def test_the_result_is_the_hosts_own(document: dict[str, Any]) -> None:
    schema = json.loads((TREE / "schema" / "result.schema.json").read_text())
    jsonschema_rs.validator_for(schema).validate(document)
    assert (document["host"], document["run_id"]) == ("vm-a", "whole-run")
    assert [(item["name"], item["status"]) for item in document["scenarios"]] == [
        ("raw-signing", "valid"),
        ("loaded-transport", "valid"),
        ("handshake-new", "valid"),
    ]


def test_the_report_has_it(whole_run: WholeRun) -> None:
    for name in ("index.html", "report.md", "report.txt"):
        text = (whole_run.report / name).read_text()
        assert "vm-a" in text, name
        assert "software TPM" in text, name
    table = (whole_run.report / "results.csv").read_text()
    for scenario in ("raw-signing", "loaded-transport", "handshake-new"):
        assert scenario in table


@pytest.mark.parametrize(
    ("scenario", "arm", "commands"),
    [
        ("raw-signing", "tpm-persistent", "1"),
        ("raw-signing", "tpm-transient", "4"),
        ("loaded-transport", "nothing-loaded", "1"),
        ("loaded-transport", "same-transport", "4"),
        ("loaded-transport", "same-transport-2-objects", "7"),
        ("loaded-transport", "same-transport-hmac-session", "3"),
        ("loaded-transport", "other-transport", "1"),
        ("handshake-new", "tpm-persistent", "1"),
    ],
)
def test_the_report_shows_the_commands_behind_a_signature(
    whole_run: WholeRun, scenario: str, arm: str, commands: str
) -> None:
    text = (whole_run.report / "report.md").read_text()
    assert "TPM commands behind one signature" in (whole_run.report / "index.html").read_text()
    section = text.partition("TPM commands behind one signature")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    column = rows[0].index("Commands at the TPM")
    wanted = [labels.title(labels.SCENARIOS, scenario), labels.arm_title(arm)]
    assert [row[column] for row in rows if row[:2] == wanted] == [commands]


def test_its_tpm_is_left_as_it_was(whole_run: WholeRun) -> None:
    before, after = whole_run.handles
    assert after == before


def test_what_is_left_on_the_host_is_roots(whole_run: WholeRun) -> None:
    left = [line.split() for line in whole_run.owners.splitlines()]
    assert [path for _, _, path in left] == [
        "/opt/tpm-tls-bench",
        "/var/lib/tpm-tls-bench",
        "/var/lib/tpm-tls-bench/journal",
    ]
    for owner, mode, path in left:
        assert owner == "root:root", path
        assert not int(mode, 8) & 0o022, path  # nobody else may write there
    assert left[2][1] == "700"
    # The result went with the fetch, and no key is left that the journal would have to name.
    assert whole_run.files.split() == ["/var/lib/tpm-tls-bench/lock"]


def test_teardown_leaves_no_process(vm: Machine, whole_run: WholeRun) -> None:
    vm.close_connections()
    assert vm.programs() == ["qemu-system-x86_64", "swtpm"]
    (port,) = re.findall(r"Port (\d+)", (vm.directory / "ssh_config").read_text())
    played = vm.play(Path("playbooks/teardown.yml"))
    assert played.returncode == 0, played.stdout + played.stderr
    assert vm.processes() == []
    with socket.socket() as probe:  # nobody listens there any more
        assert probe.connect_ex(("127.0.0.1", int(port))) != 0
    # The state of its TPM is kept for the next start.
    assert list((vm.directory / "tpm").iterdir())
