"""Handshakes in memory, both ends authenticated by ML-DSA keys that sign in Python.

    python mldsa_ends.py SOURCES

Run by a Python whose OpenSSL has ML-DSA. Prints, by key size, how often each end's key signed.
"""

import datetime as dt
import json
import ssl
import sys
from collections import Counter
from typing import Any

sys.path.insert(0, sys.argv[1])

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import mldsa
from cryptography.hazmat.primitives.serialization import Encoding

import tpmtls

NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])


class Signer:
    """A software key that counts."""

    def __init__(self, key: Any) -> None:
        self._key = key
        self.public_key = key.public_key()
        self.count = 0

    def sign(self, message: bytes) -> bytes:
        """Sign the message itself."""
        self.count += 1
        return bytes(self._key.sign(message))


def certificate(key: Any) -> x509.Certificate:
    """Return a certificate that its own key has signed."""
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )


def handshake(size: int) -> Counter[str]:
    """Join both ends and return how often each signed."""
    kind = getattr(mldsa, f"MLDSA{size}PrivateKey")
    ends: dict[str, tuple[ssl.SSLContext, Signer]] = {}
    leaves = {}
    for end, protocol in (
        ("client", ssl.PROTOCOL_TLS_CLIENT),
        ("server", ssl.PROTOCOL_TLS_SERVER),
    ):
        key = kind.generate()
        leaves[end] = certificate(key)
        ends[end] = (ssl.SSLContext(protocol), Signer(key))
        tpmtls.load_signer(*ends[end], [leaves[end]])
    for end, other in (("client", "server"), ("server", "client")):
        context = ends[end][0]
        context.load_verify_locations(cadata=leaves[other].public_bytes(Encoding.PEM).decode())
        context.verify_mode = ssl.CERT_REQUIRED
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ends["client"][0].wrap_bio(to_client, to_server, server_hostname="localhost")
    server = ends["server"][0].wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for one in list(waiting):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(one)
    client.write(b"ping")
    if server.read(4) != b"ping" or not server.getpeercert():
        raise SystemExit("the server did not see the client's certificate")
    return Counter({end: signer.count for end, (_, signer) in ends.items()})


print(json.dumps({str(size): handshake(size) for size in (44, 65, 87)}))
