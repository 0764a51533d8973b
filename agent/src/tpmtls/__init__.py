"""A TPM key as the private key of an ordinary :class:`ssl.SSLContext`.

>>> context = ssl.create_default_context(cafile="ca.pem")
>>> tpmtls.load_cert_chain(context, "client.crt")

The certificate picks the key: its public key is looked for among the TPM's
persistent objects. The private key never leaves the TPM; each full handshake costs
one TPM2_Sign command. Keys are neither created nor evicted here.

Messages go to the logger ``tpmtls``; no auth value is in any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpmtls import errors as errors
from tpmtls.attaching import attach
from tpmtls.bridge import Signer, read_chain, renew
from tpmtls.bridge import load as load_signer
from tpmtls.errors import (
    AuthRequired,
    BridgeUnavailable,
    CertificateMismatch,
    DeadlineExceeded,
    DeviceBusy,
    DeviceMissing,
    DevicePermission,
    IdentityRefused,
    KeyClosed,
    LockedOut,
    NotASigningKey,
    NotFound,
    RestrictedKey,
    SignatureFailed,
    TpmError,
    TpmTlsError,
    TransportError,
    UnusableKey,
    WrongScheme,
)
from tpmtls.find import find_for_certificate, find_handle, persistent_handles
from tpmtls.key import Key
from tpmtls.probing import Verdict, probe
from tpmtls.transport import (
    DEFAULT_DEADLINE,
    DEFAULT_TCTI,
    Transport,
    connect,
    resource_manager,
    share,
)

if TYPE_CHECKING:
    import ssl

    from cryptography import x509

    from tpmtls.bridge import Chain
    from tpmtls.key import Auth

__all__ = [
    "DEFAULT_DEADLINE",
    "DEFAULT_TCTI",
    "AuthRequired",
    "BridgeUnavailable",
    "CertificateMismatch",
    "DeadlineExceeded",
    "DeviceBusy",
    "DeviceMissing",
    "DevicePermission",
    "IdentityRefused",
    "Key",
    "KeyClosed",
    "LockedOut",
    "NotASigningKey",
    "NotFound",
    "RestrictedKey",
    "SignatureFailed",
    "Signer",
    "TpmError",
    "TpmTlsError",
    "Transport",
    "TransportError",
    "UnusableKey",
    "Verdict",
    "WrongScheme",
    "attach",
    "attach_for_certificate",
    "connect",
    "find_for_certificate",
    "find_handle",
    "load_cert_chain",
    "load_signer",
    "open",
    "open_for_certificate",
    "persistent_handles",
    "probe",
    "renew",
    "resource_manager",
    "share",
]


def open(  # noqa: A001  # tpmtls.open reads like gzip.open
    handle: int,
    *,
    tcti: str = DEFAULT_TCTI,
    auth: Auth = None,
    deadline: float = DEFAULT_DEADLINE,
) -> Key:
    """Attach to the key at a persistent handle, over a transport of its own.

    Args:
        handle: such as ``0x81000004``.
        tcti: see :func:`connect`.
        auth: see :func:`attach`.
        deadline: seconds to wait for the TPM, the lock on its transport included.

    Raises:
        NotFound: nothing is there.
        UnusableKey: what is there cannot sign TLS handshakes; the subclass says why.
        TransportError: the TPM cannot be reached.
    """
    transport = connect(tcti, deadline)
    try:
        return attach(transport, handle, auth=auth, owns_transport=True)
    except BaseException:
        transport.close()
        raise


def open_for_certificate(
    certificate: x509.Certificate,
    *,
    tcti: str = DEFAULT_TCTI,
    auth: Auth = None,
    deadline: float = DEFAULT_DEADLINE,
) -> Key:
    """Attach to the persistent key that a certificate is over; otherwise like :func:`open`.

    Raises:
        NotFound: no persistent key matches.
    """
    transport = connect(tcti, deadline)
    try:
        handle = find_for_certificate(transport, certificate)
        return attach(transport, handle, auth=auth, owns_transport=True)
    except BaseException:
        transport.close()
        raise


def attach_for_certificate(
    transport: Transport, certificate: x509.Certificate, *, auth: Auth = None
) -> Key:
    """Like :func:`attach`, for the persistent key that a certificate is over.

    Raises:
        NotFound: no persistent key matches.
    """
    return attach(transport, find_for_certificate(transport, certificate), auth=auth)


def load_cert_chain(
    context: ssl.SSLContext,
    certificate_chain: Chain,
    *,
    tcti: str = DEFAULT_TCTI,
    auth: Auth = None,
    deadline: float = DEFAULT_DEADLINE,
) -> Key:
    """Stand where ``context.load_cert_chain(certfile, keyfile)`` stood, the key in the TPM.

    Args:
        context: the context, client or server side.
        certificate_chain: path of a PEM file, PEM bytes, or certificates, leaf first.
        tcti: see :func:`connect`.
        auth: see :func:`attach`.
        deadline: seconds to wait for the TPM, the lock on its transport included.

    Returns:
        The key. The context keeps it alive; it need not be kept.

    Raises:
        NotFound: no persistent key matches the leaf certificate.
        UnusableKey, TransportError, BridgeUnavailable: see :func:`open` and :meth:`Key.load_into`.
    """
    chain = read_chain(certificate_chain)
    key = open_for_certificate(chain[0], tcti=tcti, auth=auth, deadline=deadline)
    try:
        key.load_into(context, chain)
    except BaseException:
        key.close()
        raise
    return key
