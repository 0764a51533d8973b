"""One key per arm, held in each of the ways that are compared, ready in a TLS context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import tpmtls
from tpmbench import pki
from tpmbench.counting import CountingSigner
from tpmbench.signing import SoftwareSigner

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from cryptography import x509

    from tpmbench.context import Bench
    from tpmtls import Signer, Transport


@dataclass(frozen=True)
class Held:
    """A private key in a context.

    Attributes:
        name: the arm's name.
        context: the context with the key in it.
        certificate: the certificate over the key.
        signer: counts signatures; None where OpenSSL itself holds the key.
        transport: what the key signs over, for a key in the TPM.
    """

    name: str
    context: ssl.SSLContext
    certificate: x509.Certificate
    signer: CountingSigner | None
    transport: Transport | None

    @property
    def encoded_certificate(self) -> bytes:
        """The certificate, DER-encoded."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def reset(self) -> None:
        """Set the count of signatures to zero."""
        if self.signer:
            self.signer.count = 0

    def signatures(self) -> int | None:
        """Return the count of signatures; None where they cannot be seen."""
        return self.signer.count if self.signer else None

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again so far."""
        return self.transport.resubmissions if self.transport else 0


@dataclass(frozen=True)
class Keys:
    """The keys that are compared.

    Attributes:
        tpm: name of the arm with the TPM's key, and the key.
        transport: what the TPM's key signs over.
        software: a software key as a signer.
        native: a key for OpenSSL itself.
    """

    tpm: tuple[str, Signer]
    transport: Transport
    software: Signer
    native: Any


def hold(
    keys: Keys,
    directory: Path,
    authority: pki.Authority,
    new_context: Callable[[str], ssl.SSLContext],
) -> list[Held]:
    """Return the TPM's key, a software key through the same bridge, and one of OpenSSL's own.

    Args:
        keys: the keys.
        directory: private, for a key file that is gone again at once.
        authority: issues the certificates.
        new_context: makes a context that trusts a CA, given as PEM.
    """
    trusted = pki.pem(authority.certificate).decode()
    held = []
    for name, signer, transport in (
        (keys.tpm[0], CountingSigner(keys.tpm[1]), keys.transport),
        ("software", CountingSigner(keys.software), None),
    ):
        context = new_context(trusted)
        certificate = authority.issue(name, signer.public_key)
        tpmtls.load_signer(context, signer, [certificate])
        held.append(Held(name, context, certificate, signer, transport))
    context = new_context(trusted)
    certificate = authority.issue("software-native", keys.native.public_key())
    bundle = directory / "native.pem"
    bundle.write_bytes(pki.private_pem(keys.native) + pki.pem(certificate))
    context.load_cert_chain(bundle)
    bundle.unlink()
    held.append(Held("software-native", context, certificate, None, None))
    return held


def each_way(
    bench: Bench, authority: pki.Authority, new_context: Callable[[str], ssl.SSLContext]
) -> list[Held]:
    """Hold one curve's keys; see :func:`hold`."""
    keys = Keys(
        ("tpm-persistent", bench.key),
        bench.key.transport,
        SoftwareSigner(bench.curve),
        ec.generate_private_key(bench.curve.curve()),
    )
    return hold(keys, bench.directory, authority, new_context)
