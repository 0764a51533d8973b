"""A TPM key with a certificate, and throwaway credentials for its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import tpmtls
from tests.support import tpm
from tests.support.identities import HANDLE, Identity, fingerprint, https_server
from tests.support.tls import Authority, pem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.swtpm import Swtpm


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def identify(authority: Authority, tmp_path: Path) -> Callable[..., Identity]:
    """Make keys in TPMs, and certificates over them."""

    def make(swtpm: Swtpm, name: str = "client", **options: object) -> Identity:
        tpm.put_key(swtpm.tcti, HANDLE, **options)
        with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
            certificate = authority.issue(key.public_key, name)
        path = tmp_path / f"{name}.crt"
        path.write_bytes(pem(certificate, authority.certificate))
        return Identity(certificate, path, fingerprint(certificate.public_key()), swtpm.tcti)

    return make


@pytest.fixture
def identity(identify: Callable[..., Identity], swtpm: Swtpm) -> Identity:
    """A P-256 key in a TPM of the test's own, and a certificate over it."""
    return identify(swtpm)


@pytest.fixture
def authority_file(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text(authority.pem)
    return path


@pytest.fixture
def software_files(authority: Authority, tmp_path: Path) -> tuple[Path, Path]:
    """Certificate and key of a peer whose key is in a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    files = tmp_path / "software.crt", tmp_path / "software.key"
    files[0].write_bytes(pem(authority.issue(key.public_key(), "software")))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


@pytest.fixture
def telling_port(authority: Authority) -> Iterator[int]:
    """The port of an HTTPS server that asks for certificates and tells whose key it saw."""
    with https_server(authority.server()) as port:
        yield port
