"""Memory after thousands of handshakes, in a process of its own, both ends joined by memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tpmtls

if TYPE_CHECKING:
    from tests.support.identities import Identity
    from tests.support.swtpm import Swtpm

SOURCES = str(Path(tpmtls.__file__).parents[1])
# Loading and renewing a certificate take far more than this, if they are lost a thousand times.
ALLOWED = 512 * 1024

SCRIPT = """
import gc, json, ssl, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
way, count, certificate, tcti = sys.argv[3], int(sys.argv[4]), *sys.argv[5:]
import tpmtls
from tests.support.tls import Authority, Pair, SoftwareSigner
from tpmtls import ec_method, provider

if way == "provider":
    def lacking(*_):
        raise tpmtls.BridgeUnavailable("without EC_KEY_METHOD")
    ec_method.private_key = lacking

authority = Authority()
server = authority.bare_server(mutual=False)
server.num_tickets = 0
client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
if tcti:
    key = tpmtls.load_cert_chain(server, certificate, tcti=tcti)
    chain = certificate
else:
    signer = SoftwareSigner(None, ("sha256",))
    chain = [authority.issue(signer.public_key), authority.certificate]
    tpmtls.load_signer(server, signer, chain)

def handshakes(number):
    for index in range(number):
        if index % 10 == 0:
            tpmtls.renew(server, chain)
        assert Pair(client, server).talk() == b"pong"
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

seen = [handshakes(count // 4) for _ in range(4)]
held = len(ec_method._signers) + len(provider._keys) + len(provider._signings)
print(json.dumps({"resident": seen, "held": held}))
"""


def run(way: str, count: int, identity: Identity | None = None) -> dict[str, object]:
    of_tpm = [str(identity.path), identity.tcti] if identity else ["", ""]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, SOURCES, ".", way, str(count), *of_tpm],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    measured: dict[str, object] = json.loads(result.stdout)
    return measured


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("way", "count"), [("method", 10_000), ("provider", 1_000)])
def test_no_growth_with_a_software_signer(way: str, count: int) -> None:
    """The first quarter warms caches up; from there to the end memory stays as it is."""
    measured = run(way, count)
    first, *_, last = measured["resident"]  # type: ignore[misc]
    assert last - first < ALLOWED, measured
    assert measured["held"] <= 2  # type: ignore[operator]  # the key, and its certificate's half


@pytest.mark.usefixtures("swtpm")
def test_no_growth_with_a_key_in_a_tpm(identity: Identity, swtpm: Swtpm) -> None:
    measured = run("method", 400, identity)
    first, *_, last = measured["resident"]  # type: ignore[misc]
    assert last - first < ALLOWED, measured
    assert len(swtpm.handles().persistent) == 1
    assert not swtpm.handles().transient
