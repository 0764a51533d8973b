"""A signer in Python inside an ssl.SSLContext: what arrives, what is refused, what is kept."""

from __future__ import annotations

import ctypes
import gc
import ssl
import subprocess
import sys
import threading
import weakref
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import tpmtls
from tests.support.tls import Authority, Pair, SoftwareSigner, load_software, pem, serving
from tpmtls import bridge, ec_method, libssl, openssl, provider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SOURCES = str(Path(tpmtls.__file__).parents[1])
KEYS = {
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "rsa2048": cache(lambda: rsa.generate_private_key(65537, 2048)),
    "rsa3072": cache(lambda: rsa.generate_private_key(65537, 3072)),
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(params=["method", "provider"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which OpenSSL can be made to call back for ECDSA."""
    if request.param == "provider":

        def lacking(*_: object) -> int:
            raise tpmtls.BridgeUnavailable("OpenSSL lacks EC_KEY_METHOD_new")

        monkeypatch.setattr(ec_method, "private_key", lacking)
    return request.param


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("side", ["client", "server"])
def test_handshake_is_signed_by_the_signer(
    authority: Authority, side: str, kind: str, version: ssl.TLSVersion
) -> None:
    signer = SoftwareSigner(KEYS[kind]())
    certificate = authority.issue(signer.public_key)
    client = authority.client()
    server = authority.server() if side == "client" else authority.bare_server(mutual=False)
    tpmtls.load_signer(client if side == "client" else server, signer, [certificate])
    client.maximum_version = version
    pair = Pair(client, server)
    seen = pair.client_seen() if side == "client" else pair.server_seen()
    assert seen == certificate
    assert len(signer.digest_sizes) == 1
    assert pair.client.version() == version.name.replace("v1_", "v1.")
    assert pair.talk() == b"pong"


def test_chain_is_shown_to_the_peer(authority: Authority) -> None:
    middle = Authority("intermediate CA", authority)
    signer = SoftwareSigner()
    chain = pem(middle.issue(signer.public_key), middle.certificate)
    client = authority.client()
    tpmtls.load_signer(client, signer, chain)
    assert Pair(client, authority.server()).talk() == b"pong"  # the server knows the root only
    leaf_only = authority.client()
    tpmtls.load_signer(leaf_only, signer, [middle.issue(signer.public_key)])
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        Pair(leaf_only, authority.server())


@pytest.mark.parametrize("form", ["path", "text path", "bytes", "objects"])
def test_every_form_of_a_chain_is_taken(authority: Authority, form: str, tmp_path: Path) -> None:
    signer = SoftwareSigner()
    certificate = authority.issue(signer.public_key)
    file = tmp_path / "client.crt"
    file.write_bytes(b"some text before\n" + pem(certificate, authority.certificate))
    forms: dict[str, Any] = {
        "path": file,
        "text path": str(file),
        "bytes": file.read_bytes(),
        "objects": (certificate, authority.certificate),
    }
    assert bridge.read_chain(forms[form]) == [certificate, authority.certificate]
    context = authority.client()
    tpmtls.load_signer(context, signer, forms[form])
    assert Pair(context, authority.server()).client_seen() == certificate


@pytest.mark.parametrize("data", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_holds_no_certificate_is_named(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "client.crt"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=str(file)):
        bridge.read_chain(file)


def test_empty_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="chain is empty"):
        bridge.read_chain([])


# Sessions: signatures are counted, never inferred.


def test_one_signature_for_each_full_handshake_and_none_for_resumed(authority: Authority) -> None:
    signer = SoftwareSigner()
    client, server = authority.client(), authority.server()
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    for _ in range(10):
        Pair(client, server)
    assert len(signer.digest_sizes) == 10
    first = Pair(client, server)
    first.talk()
    resumed = Pair(client, server, first.client.session)
    assert resumed.client.session_reused
    assert resumed.talk() == b"pong"
    assert len(signer.digest_sizes) == 11


# What goes wrong in the signer reaches whoever runs the handshake.


class Failing(SoftwareSigner):
    def sign(self, _digest: bytes) -> bytes:
        raise tpmtls.DeadlineExceeded("the TPM did not answer TPM2_Sign within 10 s")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("version", [V12, V13])
def test_error_in_the_client_signer_reaches_the_caller_with_its_cause(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    signer = Failing()
    client = authority.client()
    client.maximum_version = version
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    with pytest.raises(tpmtls.SignatureFailed, match="did not answer TPM2_Sign") as raised:
        Pair(client, authority.server())
    assert isinstance(raised.value, ssl.SSLError)
    assert isinstance(raised.value.__cause__, tpmtls.DeadlineExceeded)
    assert libssl.handshake.error is None


@pytest.mark.usefixtures("way")
def test_error_in_the_server_signer_reaches_the_caller_with_its_cause(authority: Authority) -> None:
    signer = Failing()
    server = authority.bare_server(mutual=False)
    tpmtls.load_signer(server, signer, [authority.issue(signer.public_key)])
    with pytest.raises(tpmtls.SignatureFailed) as raised:
        Pair(authority.client(), server)
    assert isinstance(raised.value.__cause__, tpmtls.DeadlineExceeded)


def test_error_over_sockets_reaches_the_caller(authority: Authority) -> None:
    import socket

    signer = Failing()
    client = authority.client()
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    with (
        serving(authority.server()) as server,
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        pytest.raises(tpmtls.SignatureFailed) as raised,
    ):
        client.wrap_socket(plain, server_hostname="localhost")
    assert isinstance(raised.value.__cause__, tpmtls.DeadlineExceeded)


class Interrupted(SoftwareSigner):
    def sign(self, _digest: bytes) -> bytes:
        raise KeyboardInterrupt


class Rambling(SoftwareSigner):
    def sign(self, _digest: bytes) -> bytes:
        return bytes(10_000)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("kind", "cause"), [(Interrupted, KeyboardInterrupt), (Rambling, ValueError)]
)
def test_nothing_is_raised_or_written_into_c(
    authority: Authority, kind: type[SoftwareSigner], cause: type[BaseException]
) -> None:
    signer = kind()
    client = authority.client()
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    with pytest.raises(tpmtls.SignatureFailed) as raised:
        Pair(client, authority.server())
    assert isinstance(raised.value.__cause__, cause)


def test_earlier_failure_is_not_told_for_a_later_one(authority: Authority) -> None:
    signer = Failing()
    client = authority.client()
    tpmtls.load_signer(client, signer, [authority.issue(signer.public_key)])
    with pytest.raises(tpmtls.SignatureFailed):
        Pair(client, authority.server())
    stranger = Authority("another CA").client()
    tpmtls.load_signer(stranger, signer, [authority.issue(signer.public_key)])
    with pytest.raises(ssl.SSLCertVerificationError) as raised:
        Pair(stranger, authority.server())
    assert not isinstance(raised.value, tpmtls.SignatureFailed)


# Refusals before anything is written.


def test_certificate_over_another_key_is_refused(authority: Authority) -> None:
    signer, other = SoftwareSigner(), SoftwareSigner()
    context = authority.client()
    with pytest.raises(tpmtls.CertificateMismatch, match="CN=client is over another key"):
        tpmtls.load_signer(context, signer, [authority.issue(other.public_key)])


def test_what_is_no_context_is_refused(authority: Authority) -> None:
    signer = SoftwareSigner()
    with pytest.raises(TypeError, match=r"an ssl\.SSLContext is needed, not a dict"):
        tpmtls.load_signer({}, signer, [authority.issue(signer.public_key)])  # type: ignore[arg-type]


@pytest.fixture
def fresh_library() -> Iterator[None]:
    """Have the libraries looked up anew, before and after."""
    cached = (libssl.library, ec_method._method, provider._library_context)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("fresh_library")
def test_python_with_openssl_linked_into_it_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    import _ssl

    monkeypatch.delattr(_ssl, "__file__")
    signer = SoftwareSigner()
    with pytest.raises(tpmtls.BridgeUnavailable, match="OpenSSL linked into itself"):
        tpmtls.load_signer(
            ssl.create_default_context(), signer, [authority.issue(signer.public_key)]
        )


@pytest.mark.usefixtures("fresh_library")
def test_library_that_lacks_a_function_is_refused_by_name(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    prototypes = {**libssl._PROTOTYPES, "SSL_CTX_of_another_library": (None, ())}
    monkeypatch.setattr(libssl, "_PROTOTYPES", prototypes)
    signer = SoftwareSigner()
    with pytest.raises(tpmtls.BridgeUnavailable, match="lacks SSL_CTX_of_another_library"):
        tpmtls.load_signer(
            ssl.create_default_context(), signer, [authority.issue(signer.public_key)]
        )


def other_layouts() -> dict[str, bytes]:
    block = ctypes.create_string_buffer(4096)  # writable memory that is no SSL_CTX
    other_layouts.kept = block  # type: ignore[attr-defined]
    return {
        "null": bytes(8),
        "unaligned": (ctypes.addressof(block) + 1).to_bytes(8, sys.byteorder),
        "unmapped": (0x10).to_bytes(8, sys.byteorder),
        "read-only code": ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value.to_bytes(  # type: ignore[union-attr]
            8, sys.byteorder
        ),
    }


@pytest.mark.parametrize("layout", other_layouts())
def test_context_laid_out_otherwise_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    stand_in = ctypes.create_string_buffer(other_layouts()[layout], 8)

    class Elsewhere:
        @staticmethod
        def from_address(_: int) -> ctypes.c_void_p:
            return ctypes.c_void_p.from_buffer(stand_in)

    monkeypatch.setattr(openssl, "c_void_p", Elsewhere)
    monkeypatch.setattr(openssl, "sizeof", lambda _: 8)
    signer = SoftwareSigner()
    with pytest.raises(tpmtls.BridgeUnavailable, match="laid out in an unknown way"):
        tpmtls.load_signer(authority.client(), signer, [authority.issue(signer.public_key)])


@pytest.mark.parametrize(
    "change",
    [
        lambda context: setattr(context, "verify_mode", ssl.CERT_OPTIONAL),
        lambda context: setattr(context, "options", context.options | ssl.OP_NO_TICKET),
        lambda context: setattr(context, "verify_flags", ssl.VERIFY_CRL_CHECK_CHAIN),
    ],
    ids=["verify mode", "options", "flags"],
)
def test_ssl_ctx_of_another_context_is_noticed(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    """The comparison is of values: one that differs is enough."""
    other, context = authority.client(), authority.client()
    change(other)
    real = ctypes.c_void_p

    class Elsewhere:
        @staticmethod
        def from_address(_: int) -> ctypes.c_void_p:
            return real.from_address(id(other) + object.__basicsize__)

    monkeypatch.setattr(openssl, "c_void_p", Elsewhere)
    monkeypatch.setattr(openssl, "sizeof", lambda _: 8)
    with pytest.raises(tpmtls.BridgeUnavailable, match="laid out in an unknown way"):
        openssl.address(context)


def test_settings_of_every_kind_pass_the_check() -> None:
    for protocol in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
        for options in (0, ssl.OP_ALL, ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | 1 << 31):
            context = ssl.SSLContext(protocol)
            context.check_hostname = False
            context.options |= options
            for mode in ssl.VerifyMode:
                context.verify_mode = mode
                context.verify_flags |= ssl.VERIFY_X509_STRICT
                assert openssl.address(context)


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
    client.maximum_version = V12
    client.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    assert isinstance(Pair(client, server).server_seen().public_key(), rsa.RSAPublicKey)
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    assert Pair(client, server).server_seen() == certificate
