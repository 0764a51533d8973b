"""Servers with their key in a TPM, met by programs of other makers; and both sides in TPMs."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

import tpmtls
from tests.support.identities import Identity, fingerprint, https_server
from tests.support.tls import Authority, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.swtpm import Swtpm

KINDS = ["ecc256:ecdsa-sha256", "ecc384:ecdsa-sha384", "ecc521:ecdsa-sha512", "rsa2048"]


@contextlib.contextmanager
def tpm_server(
    identity: Identity, authority: Authority, *, mutual: bool = True
) -> Iterator[tuple[int, ssl.SSLContext]]:
    context = authority.bare_server(mutual=mutual)
    with identity.load_into(context), https_server(context) as port:
        yield port, context


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"the program {program} is not installed")
    return found


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("algorithm", KINDS)
def test_curl(
    identify: Callable[..., Identity],
    swtpm: Swtpm,
    authority: Authority,
    authority_file: Path,
    software_files: tuple[Path, Path],
    algorithm: str,
    version: str,
) -> None:
    curl = need("curl")
    identity = identify(swtpm, "server", algorithm=algorithm)
    certificate, key = software_files
    with tpm_server(identity, authority) as (port, _):
        result = subprocess.run(
            [curl, "--silent", "--show-error", "--noproxy", "*", "--cacert", authority_file,
             "--cert", certificate, "--key", key, f"--tlsv{version}", "--tls-max", version,
             "--max-time", "10", f"https://localhost:{port}/"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout) == 64  # it saw curl's key, and said whose


@pytest.mark.parametrize(
    ("algorithm", "version", "signature"),
    [
        ("ecc256:ecdsa-sha256", "-tls1_3", "ECDSA"),
        ("ecc256:ecdsa-sha256", "-tls1_2", "ECDSA"),
        ("rsa2048:rsapss-sha256", "-tls1_3", "RSA-PSS"),
        ("rsa2048:rsapss-sha256", "-tls1_2", "RSA-PSS"),
    ],
)
def test_openssl_s_client(
    identify: Callable[..., Identity],
    swtpm: Swtpm,
    authority: Authority,
    authority_file: Path,
    algorithm: str,
    version: str,
    signature: str,
) -> None:
    identity = identify(swtpm, "server", algorithm=algorithm)
    with tpm_server(identity, authority, mutual=False) as (port, _):
        # It would rather have SHA-512, which these keys do not sign with.
        result = subprocess.run(
            [need("openssl"), "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile",
             authority_file, "-verify_return_error", "-verify_hostname", "localhost", version,
             "-sigalgs", "ECDSA+SHA512:ECDSA+SHA256:RSA-PSS+SHA512:RSA-PSS+SHA256"],
            input="", capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "Verification: OK" in result.stdout
    assert "Peer signing digest: SHA256" in result.stdout
    assert f"Peer signature type: {signature}" in result.stdout


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.parametrize("algorithm", ["ecc256:ecdsa-sha256", "rsa2048:rsapss-sha256"])
def test_openssl_s_server_takes_our_client(
    identify: Callable[..., Identity],
    swtpm: Swtpm,
    authority: Authority,
    authority_file: Path,
    software_files: tuple[Path, Path],
    algorithm: str,
    version: str,
) -> None:
    identity = identify(swtpm, algorithm=algorithm)
    certificate, key = software_files
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [need("openssl"), "s_server", "-accept", f"127.0.0.1:{port}", "-cert", certificate,
         "-key", key, "-CAfile", authority_file, "-Verify", "2", "-verify_return_error", version,
         "-client_sigalgs", "ECDSA+SHA512:RSA-PSS+SHA512:ECDSA+SHA256:RSA-PSS+SHA256", "-www"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        context = authority.client()
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE  # take the server's wish first
        with identity.load_into(context):
            for _ in range(100):
                with contextlib.suppress(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                threading.Event().wait(0.05)
            verdict = tpmtls.probe("localhost", port, context, request=b"GET / HTTP/1.0\r\n\r\n")
    finally:
        server.kill()
        server.communicate()
    assert verdict.signed
    assert verdict.tls_version == version.replace("-tls1_", "TLSv1.")


@pytest.fixture(scope="session")
def gopeer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client and server in Go, made here."""
    go = os.environ.get("GO") or need("go")
    program = tmp_path_factory.mktemp("gopeer") / "gopeer"
    subprocess.run(
        [go, "build", "-o", program, "."],
        cwd=Path(__file__).parent / "gopeer",
        env={**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"},
        check=True,
    )
    return program


@pytest.mark.parametrize("algorithm", KINDS)
def test_go_client(
    gopeer: Path,
    identify: Callable[..., Identity],
    swtpm: Swtpm,
    authority: Authority,
    authority_file: Path,
    software_files: tuple[Path, Path],
    algorithm: str,
) -> None:
    identity = identify(swtpm, "server", algorithm=algorithm)
    context = authority.bare_server()
    with identity.load_into(context), serving(context) as server:
        result = subprocess.run(
            [gopeer, "client", *software_files, authority_file, str(server.port)],
            capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
    assert result.stdout == f"{identity.fingerprint} TLS 1.3 hello\n", result.stderr


@pytest.mark.parametrize("algorithm", KINDS)
def test_go_server(
    gopeer: Path,
    identify: Callable[..., Identity],
    swtpm: Swtpm,
    authority: Authority,
    authority_file: Path,
    software_files: tuple[Path, Path],
    algorithm: str,
) -> None:
    identity = identify(swtpm, algorithm=algorithm)
    with subprocess.Popen(
        [gopeer, "server", *software_files, authority_file],
        stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        port = int(server.stdout.readline())
        context = authority.client()
        with identity.load_into(context):
            verdict = tpmtls.probe("localhost", port, context, request=b"hello\n")
        said = server.stdout.read()
    assert verdict.signed
    assert said == f"{identity.fingerprint} TLS 1.3 hello\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_sides_have_their_keys_in_tpms(
    identify: Callable[..., Identity],
    make_swtpm: Callable[..., Swtpm],
    authority: Authority,
    version: ssl.TLSVersion,
) -> None:
    ours = identify(make_swtpm(), "client")
    theirs = identify(make_swtpm(), "server", algorithm="ecc384:ecdsa-sha384")
    context = authority.client()
    context.maximum_version = version
    with tpm_server(theirs, authority) as (port, _), ours.load_into(context):
        connection = http.client.HTTPSConnection(f"localhost:{port}", context=context)
        connection.request("GET", "/")
        assert connection.getresponse().read().decode() == ours.fingerprint
        seen = connection.sock.getpeercert(binary_form=True)
        connection.close()
    assert fingerprint(x509.load_der_x509_certificate(seen).public_key()) == theirs.fingerprint


def test_asyncio_server_and_client(identity: Identity, authority: Authority) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def one(port: int, context: ssl.SSLContext) -> bytes:
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
        writer.write(b"hello\n")
        line = await reader.readline()
        writer.close()
        return line

    async def main() -> list[bytes]:
        context = authority.bare_server(mutual=False)
        with identity.load_into(context):
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
            port = server.sockets[0].getsockname()[1]
            async with server:
                client = authority.client()
                return await asyncio.gather(*(one(port, client) for _ in range(16)))

    before = tpmtls.libssl.handshake.signatures
    assert asyncio.run(main()) == [b"hello\n"] * 16
    assert tpmtls.libssl.handshake.signatures == before + 16


def test_server_logs_its_own_failure(
    identity: Identity, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no caller to raise to, and asyncio keeps errors of handshakes to itself."""

    async def main() -> None:
        context = authority.bare_server(mutual=False)
        identity.load_into(context).close()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with pytest.raises(OSError):  # noqa: PT011  # a reset or an alert, as it happens
                await asyncio.open_connection("localhost", port, ssl=authority.client())

    asyncio.run(main())
    ours = [record for record in caplog.records if record.name == "tpmtls"]
    (message,) = (record.getMessage() for record in ours)
    assert message.startswith("the private key could not sign a handshake: the key at 0x81000004")
    assert ours[0].levelname == "ERROR"


def test_sixteen_clients_at_once_on_one_tpm(identity: Identity, authority: Authority) -> None:
    context = authority.client()
    failures: list[BaseException] = []
    together = threading.Barrier(16)
    with serving(authority.server()) as server, identity.load_into(context):

        def work() -> None:
            try:
                together.wait(10)
                for _ in range(3):
                    assert tpmtls.probe("127.0.0.1", server.port, context, timeout=20).signed
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(server.seen) == 48
    assert set(server.seen) == {identity.certificate.public_bytes(Encoding.DER)}
