"""Handshakes with keys in a TPM, both ends in this process, under whatever Python runs this.

    python other_python.py SOURCES TCTI CA HANDLE=CERTIFICATE...

Prints a JSON object: versions, and per handle the TLS versions in which both sides were
authenticated by it. Needs nothing but tpmtls.
"""

import gc
import json
import platform
import ssl
import sys

sys.path.insert(0, sys.argv[1])

import cryptography  # behind the path

import tpmtls


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Join both by memory, exchange a word, and return the TLS version."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    ends[0].write(b"ping")
    if ends[1].read(4) != b"ping" or not ends[1].getpeercert():
        raise SystemExit("the server did not see the client's certificate")
    return str(ends[0].version())


def main() -> None:
    """Go through the keys."""
    _, _, tcti, authority, *pairs = sys.argv
    done: dict[str, object] = {}
    for pair in pairs:
        handle, _, certificate = pair.partition("=")
        versions = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client = ssl.create_default_context(cafile=authority)
            client.maximum_version = version
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_verify_locations(authority)
            server.verify_mode = ssl.CERT_REQUIRED
            with tpmtls.open(int(handle, 16), tcti=tcti) as key:
                key.load_into(client, certificate)
                key.load_into(server, certificate)
                tpmtls.renew(client, certificate)
                versions.append(handshake(client, server))
                if key.curve.startswith("p"):
                    request = key.certificate_request("CN=store,O=Example", ["store.example"])
                    if not request.is_signature_valid:
                        raise SystemExit("the request does not verify")
                    if request.subject.rdns[0].rfc4514_string() != "O=Example":
                        raise SystemExit("the parts of the name are the wrong way round")
            try:
                handshake(client, server)
            except tpmtls.SignatureFailed as error:
                if not isinstance(error.__cause__, tpmtls.KeyClosed):
                    raise
            else:
                raise SystemExit("a closed key signed")
            del client, server, key
            gc.collect()
        done[handle] = versions
    versions_of = {"python": platform.python_version(), "openssl": ssl.OPENSSL_VERSION}
    versions_of["cryptography"] = cryptography.__version__
    print(json.dumps({**versions_of, "handles": done}))


main()
