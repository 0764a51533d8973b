"""handshake-new with an ML-DSA-65 client certificate: measured, or who lacks what."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from tests.support import pqc_serving, pqc_tpm
from tests.support.agent import SOURCE, Agent, only
from tests.support.pythons import candidates, lacks

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm

SCHEMA = Path(__file__).parents[3] / "schema" / "result.schema.json"
ENDS = Path(__file__).parents[2] / "support" / "mldsa_ends.py"
CONNECTIONS = 4
SIGN = 0x1A4
RUN = (
    "--curve", "mldsa65", "--connections", str(CONNECTIONS), "--warmup", "1",
    "--metadata", "never", *only("handshake-new"),
)  # fmt: skip
NEEDS = """
import ssl, sys, tpm2_pytss
from cryptography.hazmat.primitives.asymmetric import mldsa
if ssl.OPENSSL_VERSION_INFO < (3, 5):
    sys.exit(f"{ssl.OPENSSL_VERSION} has no ML-DSA")
"""
old_openssl = pytest.mark.skipif(
    ssl.OPENSSL_VERSION_INFO >= (3, 5), reason=f"{ssl.OPENSSL_VERSION} has ML-DSA"
)


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with an OpenSSL that has ML-DSA, as Debian 13's is."""
    reasons = {item: lacks(item, NEEDS) for item in candidates()}
    found = next((item for item, reason in reasons.items() if reason is None), None)
    if found is None:
        told = "; ".join(f"{item}: {reason}" for item, reason in reasons.items())
        pytest.skip(f"no Python here has ML-DSA, name one in TPMTLS_PYTHONS ({told})")
    return found


def run(agent: Agent, *options: str) -> tuple[int, dict[str, Any]]:
    """Run, and return the exit status and the one scenario."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONMALLOC": "debug"}
    done = agent("run", *RUN, *options, "--output", str(agent.output), timeout=240, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    document = agent.document()
    validator = jsonschema_rs.validator_for(SCHEMA.read_text())
    assert [str(error) for error in validator.iter_errors(document)] == []
    assert document["settings"]["curves"] == ["mldsa65"]
    (found,) = document["scenarios"]
    assert (found["name"], found["curve"]) == ("handshake-new", "mldsa65")
    return done.returncode, found


@pytest.mark.swtpm
@old_openssl
def test_where_both_lack_it_both_are_named(swtpm: Swtpm, tmp_path: Path) -> None:
    status, found = run(Agent(swtpm.tcti, tmp_path))
    assert (status, found["status"]) == (0, "not-applicable")
    assert f"this Python's OpenSSL ({ssl.OPENSSL_VERSION}) has no ML-DSA" in found["reason"]
    assert "the TPM has no ML-DSA-65" in found["reason"]


@old_openssl
def test_where_the_tpm_has_it_the_python_alone_is_named(tmp_path: Path) -> None:
    with pqc_serving.serving(pqc_tpm.PqcTpm()) as tcti:
        status, found = run(Agent(tcti, tmp_path))
    assert (status, found["status"]) == (0, "not-applicable")
    assert "this Python's OpenSSL" in found["reason"]
    assert "the TPM" not in found["reason"]


def test_it_is_measured_and_counted_in_three_places(python: str, tmp_path: Path) -> None:
    peer = pqc_tpm.PqcTpm()
    with pqc_serving.serving(peer) as tcti:
        agent = Agent(tcti, tmp_path, python)
        status, found = run(agent)
    assert (status, found["status"], found["reason"]) == (0, "valid", None)
    arms = {arm["name"]: arm for arm in found["arms"]}
    assert set(arms) == {"tpm-transient", "software", "software-native"}
    assert arms["tpm-transient"]["signatures"] == dict.fromkeys(
        ("signer", "transport", "peer"), CONNECTIONS
    )
    assert arms["tpm-transient"]["tpm_commands"] == 2 * CONNECTIONS
    assert arms["software"]["signatures"]["signer"] == CONNECTIONS
    assert {arm["resumed"] for arm in arms.values()} == {0}
    # Warm-up, samples, and the pass in which they are counted.
    assert peer.seen.count(SIGN) == 1 + 2 * CONNECTIONS
    assert peer.objects == {}
    assert agent.journal_files() == []


def test_forged_signatures_are_refused_by_the_server(python: str, tmp_path: Path) -> None:
    peer = pqc_tpm.PqcTpm(forge=True)
    with pqc_serving.serving(peer) as tcti:
        status, found = run(Agent(tcti, tmp_path, python))
    assert (status, found["status"]) == (1, "invalid")
    assert "a sample failed" in found["reason"]
    assert peer.objects == {}


def test_a_tpm_without_it_is_named_by_a_python_that_has_it(python: str, tmp_path: Path) -> None:
    with pqc_serving.serving(pqc_tpm.PqcTpm(sets=0b0100111)) as tcti:
        status, found = run(Agent(tcti, tmp_path, python))
    assert (status, found["status"]) == (0, "not-applicable")
    assert found["reason"].startswith("the TPM has no ML-DSA-65")


def test_every_size_signs_at_both_ends(python: str) -> None:
    done = subprocess.run(
        [python, "-W", "ignore", "-X", "dev", str(ENDS), str(SOURCE)],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    once = {"client": 1, "server": 1}
    assert json.loads(done.stdout) == {"44": once, "65": once, "87": once}
