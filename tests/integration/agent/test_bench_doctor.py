"""The doctor against swtpm: what it finds, and that it changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import tpm

if TYPE_CHECKING:
    from tests.support.agent import Agent
    from tests.support.swtpm import Swtpm

pytestmark = pytest.mark.swtpm

ASSUMPTIONS = 6


def everything_in(swtpm: Swtpm) -> list[str]:
    """Every handle of every kind, by another program."""
    kinds = ("persistent", "transient", "nv-index", "loaded-session", "saved-session")
    return [
        subprocess.run(
            ["tpm2_getcap", "--tcti", swtpm.tcti, f"handles-{kind}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kind in kinds
    ]


@pytest.mark.skipif(shutil.which("tpm2_getcap") is None, reason="needs tpm2-tools")
def test_doctor_finds_a_provisioned_key_and_changes_nothing(agent: Agent, swtpm: Swtpm) -> None:
    made = agent(
        "provision", "--tcti", swtpm.tcti, "--state-dir", str(agent.state),
        "--handle", "0x81000010",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    before = everything_in(swtpm)
    assert "0x81000010" in before[0]
    done = agent("doctor", "--json", "--metadata", "never")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["holds"] is True
    assert [item["holds"] for item in report["assumptions"]] == [True] * ASSUMPTIONS
    assert report["platform"]["tpm_location"] == "software"
    assert everything_in(swtpm) == before


def test_doctor_without_a_key_says_what_to_do(agent: Agent) -> None:
    done = agent("doctor", "--metadata", "never")
    assert done.returncode == 1
    assert "1. [NO] a signing key exists in the TPM: no persistent key" in done.stdout
    assert "remedy:" in done.stdout


def test_doctor_without_a_tpm_looks_at_the_platform_all_the_same(agent: Agent) -> None:
    agent.tcti = "device:/dev/no-such-tpm"
    done = agent("doctor", "--json", "--metadata", "never")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [item["holds"] for item in report["assumptions"]] == [None] * 5 + [False]
    assert "/dev/no-such-tpm" in report["assumptions"][-1]["found"]
    assert len(report["platform"]["evidence"]) > 10


CREDENTIAL = "the key needs no second credential"


@pytest.mark.parametrize(
    ("options", "holds", "found"),
    [
        ({}, True, "a signature with an empty auth value was tried, and is right"),
        ({"auth": b"secret"}, False, "tried and refused: it has an auth value"),
        ({"auth": b"secret", "attributes": tpm.LOCKABLE_KEY}, None, "was not tried, since"),
        ({"attributes": tpm.LOCKABLE_KEY}, None, "noDA is not set"),
        ({"attributes": tpm.POLICY_KEY}, False, "under a policy only"),
        ({"attributes": tpm.RESTRICTED_KEY}, None, "no signature was tried: "),
    ],
)
def test_doctor_says_what_it_tried_and_counts_as_no_attack(
    agent: Agent, swtpm: Swtpm, options: dict[str, Any], holds: bool | None, found: str
) -> None:
    tpm.put_key(swtpm.tcti, 0x81000010, **options)
    before = swtpm.handles()
    done = agent("doctor", "--json", "--metadata", "never")
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert len(report["assumptions"]) == ASSUMPTIONS
    (finding,) = [item for item in report["assumptions"] if item["assumption"] == CREDENTIAL]
    assert finding["holds"] is holds
    assert found in finding["found"]
    fails = any(item["holds"] is False for item in report["assumptions"])
    assert (report["holds"], done.returncode) == (not fails, 1 if fails else 0)
    assert tpm.lockout_counter(swtpm.tcti) == 0
    assert swtpm.handles() == before
