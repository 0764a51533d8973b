"""Throwaway certificates, signers in software, and handshakes without sockets."""

from __future__ import annotations

import contextlib
import datetime as dt
import ssl
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from tpmtls.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

HASHES = {32: hashes.SHA256(), 48: hashes.SHA384(), 64: hashes.SHA512()}

KEYS = {
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "rsa2048": cache(lambda: rsa.generate_private_key(65537, 2048)),
    "rsa3072": cache(lambda: rsa.generate_private_key(65537, 3072)),
}


class SoftwareSigner:
    """A signer whose key is in this process; counts what it is asked for.

    Args:
        key: an ECDSA or RSA private key; a new one on P-256 where it is left out.
        hash_names: the hashes that it claims to take, or None to claim nothing.
    """

    def __init__(self, key: Any = None, hash_names: tuple[str, ...] | None = None) -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self.public_key = self._key.public_key()
        self.digest_sizes: list[int] = []
        if hash_names is not None:
            self.hash_names = hash_names

    def sign(self, digest: bytes) -> bytes:
        self.digest_sizes.append(len(digest))
        algorithm = HASHES[len(digest)]
        if isinstance(self._key, rsa.RSAPrivateKey):
            pss = padding.PSS(padding.MGF1(algorithm), algorithm.digest_size)
            return self._key.sign(digest, pss, Prehashed(algorithm))
        return self._key.sign(digest, ec.ECDSA(Prehashed(algorithm)))


class Failing(SoftwareSigner):
    def sign(self, _digest: bytes) -> bytes:
        raise DeadlineExceeded("the TPM did not answer TPM2_Sign within 10 s")


class Authority:
    """A throwaway CA.

    Attributes:
        certificate: its own.
        pem: the same as PEM text.
    """

    def __init__(self, name: str = "throwaway CA", parent: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._parent = parent
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = parent or self
        # Python 3.13 verifies strictly (RFC 5280, 4.2.1.3).
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        extensions = [(x509.BasicConstraints(ca=True, path_length=None), True), (usage, True)]
        self.certificate = issuer._sign(self._name, self._key.public_key(), extensions, 3600)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self, public_key: Any, name: str = "client", *, seconds: float = 3600
    ) -> x509.Certificate:
        """Issue a certificate for localhost and 127.0.0.1 over a public key."""
        import ipaddress

        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        extensions = [
            (x509.SubjectAlternativeName(names), False),
            (x509.BasicConstraints(ca=False, path_length=None), True),
        ]
        return self._sign(subject, public_key, extensions, seconds)

    def _sign(
        self, subject: x509.Name, public_key: Any, extensions: Any, seconds: float
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(seconds=60))
            .not_valid_after(now + dt.timedelta(seconds=seconds))
        )
        own = self._key.public_key()
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(public_key),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(own),
        )
        for extension, critical in [*extensions, *((item, False) for item in identifiers)]:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())

    def server(self, **options: Any) -> ssl.SSLContext:
        """Return a server's context with a software key, that asks clients for certificates."""
        context = self.bare_server(**options)
        load_software(context, self)
        return context

    def bare_server(self, *, mutual: bool = True) -> ssl.SSLContext:
        """Return the same without a key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(cadata=self.pem)
        context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
        return context

    def client(self) -> ssl.SSLContext:
        """Return a client's context without a key."""
        return ssl.create_default_context(cadata=self.pem)


def pem(*certificates: x509.Certificate) -> bytes:
    """Return certificates as PEM text, in their order."""
    return b"".join(item.public_bytes(serialization.Encoding.PEM) for item in certificates)


def load_software(context: ssl.SSLContext, authority: Authority, key: Any = None) -> None:
    """Give a context a new software key the ordinary way, through a file."""
    import tempfile

    key = key or ec.generate_private_key(ec.SECP256R1())
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        file.write(pem(authority.issue(key.public_key(), "server")))
        file.flush()
        context.load_cert_chain(file.name)


class Pair:
    """A client and a server joined by memory, their handshake done."""

    def __init__(
        self,
        client: ssl.SSLContext,
        server: ssl.SSLContext,
        session: ssl.SSLSession | None = None,
    ) -> None:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(
            to_client, to_server, server_hostname="localhost", session=session
        )
        self.server = server.wrap_bio(to_server, to_client, server_side=True)
        waiting = [self.client, self.server]
        for _ in range(8):
            for side in list(waiting):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                    waiting.remove(side)
            if not waiting:
                break
        assert not waiting, "the handshake came to a standstill"

    def talk(self) -> bytes:
        """Send a word each way and return what the client got."""
        self.client.write(b"ping")
        assert self.server.read(4) == b"ping"
        self.server.write(b"pong")
        return self.client.read(4)

    def client_seen(self) -> x509.Certificate:
        """Return the certificate that the server saw."""
        encoded = self.server.getpeercert(binary_form=True)
        assert encoded, "the server saw no certificate"
        return x509.load_der_x509_certificate(encoded)

    def server_seen(self) -> x509.Certificate:
        """Return the certificate that the client saw."""
        encoded = self.client.getpeercert(binary_form=True)
        assert encoded, "the client saw no certificate"
        return x509.load_der_x509_certificate(encoded)


class EchoServer:
    """A server on loopback that answers each line with the subject of its peer, in threads.

    Attributes:
        port: where it listens.
        seen: the DER-encoded certificate of each connection, None where there was none.
        failures: what handshakes raised.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        import socket

        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.seen: list[bytes | None] = []
        self.failures: list[Exception] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(10)
                self._start(self._serve, connection)

    def _serve(self, connection: Any) -> None:
        try:
            with self._context.wrap_socket(connection, server_side=True) as secured:
                self.seen.append(secured.getpeercert(binary_form=True))
                file = secured.makefile("rwb", buffering=0)
                while file.readline():
                    file.write(b"hello\n")
        except OSError as error:
            self.failures.append(error)
        finally:
            connection.close()

    def close(self) -> None:
        import socket

        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@contextlib.contextmanager
def serving(context: ssl.SSLContext) -> Iterator[EchoServer]:
    """Run an :class:`EchoServer` for the time of the block."""
    server = EchoServer(context)
    try:
        yield server
    finally:
        server.close()
