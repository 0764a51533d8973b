"""A signer in Python inside an ssl.SSLContext: what arrives, and how failures do."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support.tls import KEYS, Authority, Failing, Pair, SoftwareSigner, pem, serving
from tpmtls import bridge, libssl

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


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
