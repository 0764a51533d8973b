"""The key stays, the certificate is what changes (S1): renewals in running clients and servers."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

import tpmtls
from tests.support import tpm
from tests.support.identities import HANDLE, https_server
from tests.support.tls import Authority, pem

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm

LIFETIME = 3.0  # seconds that a certificate is valid


class Renewing:
    """Whoever renews certificates: writes a new one into a file, over the same key."""

    def __init__(self, authority: Authority, path: Path, public_key: object) -> None:
        self.authority = authority
        self.path = path
        self.public_key = public_key
        self.serials: list[int] = []

    def write(self, seconds: float = LIFETIME) -> Path:
        certificate = self.authority.issue(self.public_key, seconds=seconds)
        self.serials.append(certificate.serial_number)
        self.path.write_bytes(pem(certificate, self.authority.certificate))
        return self.path


@pytest.fixture
def renewing(authority: Authority, swtpm: Swtpm, tmp_path: Path) -> Renewing:
    tpm.put_key(swtpm.tcti, HANDLE)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        return Renewing(authority, tmp_path / "renewed.crt", key.public_key)


def test_client_takes_up_renewed_certificates_without_restart(
    renewing: Renewing, authority: Authority, swtpm: Swtpm, telling_port: int
) -> None:
    context = authority.client()
    key = tpmtls.load_cert_chain(context, renewing.write(), tcti=swtpm.tcti)
    url = ("localhost", telling_port)

    def request() -> int:
        connection = http.client.HTTPSConnection(*url, context=context, timeout=10)
        connection.request("GET", "/")
        status = connection.getresponse().status
        connection.close()
        return status

    assert request() == 200
    time.sleep(LIFETIME + 0.1)
    with pytest.raises(OSError, match=r"(?i)expired|reset|EOF|closed"):
        request()
    with pytest.raises(tpmtls.IdentityRefused, match="expired"):
        tpmtls.probe(*url, context)
    for _ in range(2):
        tpmtls.renew(context, renewing.write(60))
        assert request() == 200
    assert tpmtls.probe(*url, context).signed
    key.close()


def test_server_takes_up_renewed_certificates_without_dropping_anyone(
    renewing: Renewing, authority: Authority, swtpm: Swtpm
) -> None:
    context = authority.bare_server(mutual=False)
    key = tpmtls.load_cert_chain(context, renewing.write(60), tcti=swtpm.tcti)
    client = authority.client()
    seen: list[int] = []
    failures: list[BaseException] = []
    stop = threading.Event()
    with https_server(context) as port:

        def keep_asking() -> None:
            try:
                while not stop.is_set():
                    connection = http.client.HTTPSConnection("localhost", port, context=client)
                    connection.request("GET", "/")
                    connection.getresponse().read()
                    encoded = connection.sock.getpeercert(binary_form=True)
                    seen.append(x509.load_der_x509_certificate(encoded).serial_number)
                    connection.close()
            except BaseException as error:
                failures.append(error)

        held = http.client.HTTPSConnection("localhost", port, context=client)
        held.request("GET", "/")
        held.getresponse().read()
        thread = threading.Thread(target=keep_asking)
        thread.start()
        for _ in range(3):
            time.sleep(0.3)
            tpmtls.renew(context, renewing.write(60))
        time.sleep(0.3)
        stop.set()
        thread.join()
        held.request("GET", "/")  # a connection from before the renewals goes on
        assert held.getresponse().read() == b"nobody"
        held.close()
    key.close()
    assert failures == []
    assert list(dict.fromkeys(seen)) == renewing.serials


def test_certificate_over_another_key_is_refused_with_the_reason(
    renewing: Renewing, authority: Authority, swtpm: Swtpm, telling_port: int
) -> None:
    tpm.put_key(swtpm.tcti, HANDLE + 1, seed=b"another")
    with tpmtls.open(HANDLE + 1, tcti=swtpm.tcti) as other:
        stray = pem(authority.issue(other.public_key, "stray"))
    context = authority.client()
    with tpmtls.load_cert_chain(context, renewing.write(60), tcti=swtpm.tcti) as key:
        for refuse in (lambda: tpmtls.renew(context, stray), lambda: key.load_into(context, stray)):
            with pytest.raises(tpmtls.CertificateMismatch, match=r"CN=stray is over another key"):
                refuse()
        assert tpmtls.probe("localhost", telling_port, context).signed  # it has the first still


def test_loading_over_another_key_is_no_renewal_and_is_taken(
    renewing: Renewing, authority: Authority, swtpm: Swtpm, telling_port: int
) -> None:
    """load_cert_chain goes by the certificate, as the ssl module's own goes by its files."""
    tpm.put_key(swtpm.tcti, HANDLE + 1, seed=b"another")
    with tpmtls.open(HANDLE + 1, tcti=swtpm.tcti) as other:
        chain = pem(authority.issue(other.public_key, "other"))
    context = authority.client()
    tpmtls.load_cert_chain(context, renewing.write(60), tcti=swtpm.tcti).close()
    with tpmtls.load_cert_chain(context, chain, tcti=swtpm.tcti) as key:
        assert key.handle == HANDLE + 1
        assert tpmtls.probe("localhost", telling_port, context).signed


def test_renewal_needs_no_tpm(
    renewing: Renewing, authority: Authority, swtpm: Swtpm, telling_port: int
) -> None:
    """The certificate is public: taking it up sends the TPM nothing."""
    context = authority.client()
    key = tpmtls.load_cert_chain(context, renewing.write(60), tcti=swtpm.tcti)
    with swtpm.frozen():
        tpmtls.renew(context, renewing.write(60))
    assert tpmtls.probe("localhost", telling_port, context).signed
    assert context.verify_mode == ssl.CERT_REQUIRED
    key.close()
