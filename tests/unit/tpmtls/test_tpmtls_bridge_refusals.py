"""What the bridge refuses before anything is written into a library that it does not know."""

from __future__ import annotations

import ctypes
import ssl
import sys
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support.tls import Authority, SoftwareSigner
from tpmtls import ec_method, libssl, openssl, provider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


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
