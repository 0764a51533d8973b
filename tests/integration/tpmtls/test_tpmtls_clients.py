"""Programs as people write them, the private key in a TPM: each HTTP client once, over sockets."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.request
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support.tls import Authority, load_software

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.support.swtpm import Swtpm


def with_http_client(url: str, context: ssl.SSLContext) -> str:
    connection = http.client.HTTPSConnection(url.split("/")[2], context=context)
    connection.request("GET", "/")
    body = connection.getresponse().read().decode()
    connection.close()
    return body


def with_urllib(url: str, context: ssl.SSLContext) -> str:
    with urllib.request.urlopen(url, context=context) as response:  # noqa: S310
        return str(response.read().decode())


def with_urllib3(url: str, context: ssl.SSLContext) -> str:
    import urllib3

    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        return pool.request("GET", url).data.decode()


def with_requests(url: str, context: ssl.SSLContext) -> str:
    import requests
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **kwargs)

        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
            host, pool = super().build_connection_pool_key_attributes(*args, **kwargs)
            return host, {**pool, "ssl_context": context}

    with requests.Session() as session:
        session.trust_env = False
        session.mount("https://", Adapter())
        return session.get(url, timeout=10).text


def with_httpx(url: str, context: ssl.SSLContext) -> str:
    import httpx

    with httpx.Client(verify=context, trust_env=False) as client:
        return client.get(url).text


def with_httpx_async(url: str, context: ssl.SSLContext) -> str:
    import httpx

    async def get() -> str:
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            return (await client.get(url)).text

    return asyncio.run(get())


def with_aiohttp(url: str, context: ssl.SSLContext) -> str:
    import aiohttp

    async def get() -> str:
        connector = aiohttp.TCPConnector(ssl=context)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url) as response,
        ):
            return await response.text()

    return asyncio.run(get())


def with_asyncio_streams(url: str, context: ssl.SSLContext) -> str:
    host, port = url.split("/")[2].split(":")

    async def get() -> str:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        return await over(reader, writer)

    return asyncio.run(get())


def with_asyncio_start_tls(url: str, context: ssl.SSLContext) -> str:
    host, port = url.split("/")[2].split(":")

    async def get() -> str:
        reader, writer = await asyncio.open_connection(host, int(port))
        await writer.start_tls(context, server_hostname=host)
        return await over(reader, writer)

    return asyncio.run(get())


async def over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    body = (await reader.read()).partition(b"\r\n\r\n")[2].decode()
    writer.close()
    return body


CLIENTS = [
    with_http_client, with_urllib, with_urllib3, with_requests, with_httpx, with_httpx_async,
    with_aiohttp, with_asyncio_streams, with_asyncio_start_tls,
]  # fmt: skip
NAMES = [client.__name__.removeprefix("with_") for client in CLIENTS]


@pytest.mark.parametrize("client", CLIENTS, ids=NAMES)
def test_server_sees_the_key_in_the_tpm(
    client: Callable[[str, ssl.SSLContext], str],
    identity: Any,
    authority: Authority,
    telling_port: int,
) -> None:
    context = authority.client()
    key = identity.load_into(context)
    before = tpmtls.libssl.handshake.signatures
    assert client(f"https://localhost:{telling_port}/", context) == identity.fingerprint
    assert tpmtls.libssl.handshake.signatures == before + 1
    key.close()


@pytest.mark.parametrize("client", CLIENTS, ids=NAMES)
def test_failing_tpm_is_told_to_whoever_made_the_request(
    client: Callable[[str, ssl.SSLContext], str],
    identity: Any,
    authority: Authority,
    telling_port: int,
) -> None:
    context = authority.client()
    identity.load_into(context).close()
    with pytest.raises(Exception, match="0x81000004 was closed; open it again") as raised:
        client(f"https://localhost:{telling_port}/", context)
    causes = []
    error: BaseException | None = raised.value
    while error is not None:
        causes.append(type(error))
        error = error.__cause__ or error.__context__ or getattr(error, "reason", None)
    assert tpmtls.KeyClosed in causes


@pytest.mark.parametrize("algorithm", ["ecc256", "ecc384", "ecc521:ecdsa-sha512", "rsa2048"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_kind_of_key_in_both_versions(
    identify: Callable[..., Any],
    swtpm: Swtpm,
    authority: Authority,
    telling_port: int,
    algorithm: str,
    version: ssl.TLSVersion,
) -> None:
    identity = identify(swtpm, algorithm=algorithm)
    context = authority.client()
    context.maximum_version = version
    with identity.load_into(context):
        url = f"https://localhost:{telling_port}/"
        assert with_http_client(url, context) == identity.fingerprint


def test_key_with_an_auth_value(
    authority: Authority, swtpm: Swtpm, telling_port: int, tmp_path: Any
) -> None:
    from tests.support import tpm
    from tests.support.tls import pem

    tpm.put_key(swtpm.tcti, 0x81000004, auth=b"correct horse")
    with tpmtls.open(0x81000004, tcti=swtpm.tcti, auth=b"correct horse") as key:
        chain = pem(authority.issue(key.public_key))
    context = authority.client()
    key = tpmtls.load_cert_chain(context, chain, tcti=swtpm.tcti, auth=lambda: b"correct horse")
    assert len(with_http_client(f"https://localhost:{telling_port}/", context)) == 64
    key.close()


def test_connections_by_the_dozen_sign_once_each_and_reuse_signs_none(
    identity: Any, authority: Authority, telling_port: int
) -> None:
    """What go-tpm-tls counted: a signature for a handshake, none for a request."""
    context = authority.client()
    with identity.load_into(context):
        before = tpmtls.libssl.handshake.signatures
        url = f"https://localhost:{telling_port}/"
        for _ in range(12):
            with_http_client(url, context)
        assert tpmtls.libssl.handshake.signatures == before + 12
        connection = http.client.HTTPSConnection(f"localhost:{telling_port}", context=context)
        for _ in range(12):
            connection.request("GET", "/")
            assert connection.getresponse().read().decode() == identity.fingerprint
        assert tpmtls.libssl.handshake.signatures == before + 13
        connection.close()


def test_frozen_tpm_ends_the_handshake_at_the_deadline(
    identity: Any, authority: Authority, telling_port: int, swtpm: Swtpm
) -> None:
    context = authority.client()
    key = tpmtls.load_cert_chain(context, identity.path, tcti=swtpm.tcti, deadline=0.3)
    url = f"https://localhost:{telling_port}/"
    with swtpm.frozen(), pytest.raises(tpmtls.SignatureFailed) as raised:
        with_http_client(url, context)
    assert isinstance(raised.value.__cause__, TimeoutError)
    assert with_http_client(url, context) == identity.fingerprint
    key.close()


def test_file_and_tpm_are_told_apart_only_here(
    identity: Any, authority: Authority, telling_port: int
) -> None:
    """The server's side of it is the same: another fingerprint, and nothing else."""
    context = authority.client()
    load_software(context, authority)
    seen = with_http_client(f"https://localhost:{telling_port}/", context)
    assert len(seen) == 64
    assert seen != identity.fingerprint
