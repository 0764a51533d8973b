"""Signers inside ssl.SSLContexts over time: lifetimes, threads, renewals."""

from __future__ import annotations

import gc
import ssl
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

import tpmtls
from tests.support.tls import KEYS, Authority, Failing, Pair, SoftwareSigner, load_software, pem
from tpmtls import ec_method, provider

if TYPE_CHECKING:
    from typing import Any

SOURCES = str(Path(tpmtls.__file__).parents[1])


# Lifetimes.


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("first", ["signer", "context", "connection"])
def test_context_and_signer_may_be_dropped_in_any_order(authority: Authority, first: str) -> None:
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # only what is made from here on is gone through, but very often
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(10):
            signer: Any = SoftwareSigner()
            client: Any = authority.client()
            tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
            kept = weakref.ref(signer)
            if first == "signer":
                del signer
                gc.collect()
                assert kept() is not None  # the context needs it
            pair: Any = Pair(client, authority.server())
            if first == "context":
                del client
                gc.collect()
            elif first == "connection":
                del pair
                gc.collect()
                pair = Pair(client, authority.server())
            assert pair.talk() == b"pong"
            signer = client = pair = None
            gc.collect()
            assert kept() is None, "the signer is still held"
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def test_nothing_is_left_of_keys_that_are_gone(authority: Authority) -> None:
    gc.collect()
    before = len(ec_method._signers), len(provider._keys), len(provider._signings)
    for kind in ("p256", "rsa2048"):
        signer = SoftwareSigner(KEYS[kind]())
        client = authority.client()
        tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
        Pair(client, authority.server())
    del client, signer
    gc.collect()
    assert (len(ec_method._signers), len(provider._keys), len(provider._signings)) == before


def test_key_outlives_its_context_in_open_connections(authority: Authority) -> None:
    """A connection holds the key; a renegotiation in TLS 1.2 could still ask for it."""
    signer = SoftwareSigner()
    client = authority.client()
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    pair = Pair(client, authority.server())
    tpmtls.load_signer(client, other := SoftwareSigner(), [authority.issue(other.public_key)])
    assert pair.talk() == b"pong"


SCRIPT = """
import gc, ssl, sys
sys.path[:0] = sys.argv[1:]
gc.set_threshold(1, 1, 1)
import tpmtls
from tests.support.tls import *
authority = Authority()
for key in (None, rsa.generate_private_key(65537, 2048)):
    for _ in range(8):
        signer = SoftwareSigner(key)
        context = authority.client()
        tpmtls.load_signer(context, signer, [authority.issue(signer.public_key)])
        del signer
        pair = Pair(context, authority.server())
        del context
        assert pair.talk() == b"pong"
print("done")
"""


def test_debugging_allocator_finds_nothing_and_the_interpreter_ends_in_peace() -> None:
    """Freed and overrun memory is noticed; keys still alive at the end do no harm."""
    result = subprocess.run(
        [sys.executable, "-X", "dev", "-c", SCRIPT, SOURCES, "."],
        env={"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165", "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


# Threads.


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["p256", "rsa2048"])
def test_sixteen_handshakes_at_once(authority: Authority, kind: str) -> None:
    signer = SoftwareSigner(KEYS[kind]())
    client, server = authority.client(), authority.bare_server()
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    tpmtls.load_signer(server, signer, [authority.issue(signer.public_key, "server")])
    together = threading.Barrier(16)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            together.wait(10)
            for _ in range(4):
                assert Pair(client, server).talk() == b"pong"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(signer.digest_sizes) == 2 * 16 * 4


def test_errors_are_told_to_the_thread_that_they_belong_to(authority: Authority) -> None:
    good, bad = SoftwareSigner(), Failing()
    contexts = {}
    for name, signer in (("good", good), ("bad", bad)):
        contexts[name] = authority.client()
        tpmtls.load_signer(contexts[name], signer, [authority.issue(signer.public_key)])
    server = authority.server()
    outcomes: dict[str, list[str]] = {"good": [], "bad": []}

    def work(name: str) -> None:
        for _ in range(20):
            try:
                outcomes[name].append(Pair(contexts[name], server).talk().decode())
            except tpmtls.SignatureFailed as error:
                outcomes[name].append(type(error.__cause__).__name__)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("good", "bad") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes["good"]) == {"pong"}
    assert set(outcomes["bad"]) == {"DeadlineExceeded"}


# Renewals.


def test_renewal_is_taken_up_by_the_next_connection(authority: Authority) -> None:
    signer = SoftwareSigner()
    first, second = (authority.issue(signer.public_key, name) for name in ("first", "second"))
    client = authority.client()
    tpmtls.load_signer(client, signer, [first])
    old = Pair(client, authority.server())
    tpmtls.renew(client, pem(second))
    assert Pair(client, authority.server()).client_seen() == second
    assert old.client_seen() == first
    assert old.talk() == b"pong"


def test_renewal_over_another_key_is_refused_and_changes_nothing(authority: Authority) -> None:
    signer, other = SoftwareSigner(), SoftwareSigner()
    certificate = authority.issue(signer.public_key)
    client = authority.client()
    tpmtls.load_signer(client, signer, [certificate])
    with pytest.raises(tpmtls.CertificateMismatch, match="must be over the same key"):
        tpmtls.renew(client, [authority.issue(other.public_key, "stray")])
    assert Pair(client, authority.server()).client_seen() == certificate


def test_loading_another_key_replaces_the_first_as_load_cert_chain_does(
    authority: Authority,
) -> None:
    one, other = SoftwareSigner(), SoftwareSigner()
    client = authority.client()
    tpmtls.load_signer(client, one, [authority.issue(one.public_key)])
    certificate = authority.issue(other.public_key, "other")
    tpmtls.load_signer(client, other, [certificate])
    assert Pair(client, authority.server()).client_seen() == certificate
    assert one.digest_sizes == []
    tpmtls.renew(client, [authority.issue(other.public_key, "renewed")])


def test_renewal_needs_a_key(authority: Authority) -> None:
    with pytest.raises(ValueError, match=r"use tpmtls\.load_cert_chain first"):
        tpmtls.renew(authority.client(), [authority.certificate])


def test_renewals_while_other_threads_connect(authority: Authority) -> None:
    signer = SoftwareSigner()
    client, server = authority.client(), authority.server()
    chains = [
        [authority.issue(signer.public_key, f"n{n}"), authority.certificate] for n in range(4)
    ]
    tpmtls.load_signer(client, signer, chains[0])
    stop = threading.Event()
    failures: list[BaseException] = []

    def connect() -> None:
        try:
            while not stop.is_set():
                assert Pair(client, server).client_seen() in [chain[0] for chain in chains]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=connect) for _ in range(2)]
    for thread in threads:
        thread.start()
    for index in range(100):
        tpmtls.renew(client, chains[index % 4])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_rsa_and_ecdsa_keys_live_side_by_side(authority: Authority) -> None:
    """As with files: a server shows the one that its client can verify."""
    signer = SoftwareSigner()
    server = authority.bare_server(mutual=False)
    load_software(server, authority, KEYS["rsa2048"]())
    certificate = authority.issue(signer.public_key, "elliptic")
    tpmtls.load_signer(server, signer, [certificate])
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    assert isinstance(Pair(client, server).server_seen().public_key(), rsa.RSAPublicKey)
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    assert Pair(client, server).server_seen() == certificate
