"""Which persistent object is the key that a certificate is over."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization

from tpmtls import commands, public
from tpmtls.errors import NotFound, TpmError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

    from tpmtls.transport import Transport

_log = logging.getLogger("tpmtls")


def persistent_handles(transport: Transport) -> list[int]:
    """List the persistent handles that hold an RSA or ECC key, lowest first.

    Raises:
        TransportError, TpmError: the TPM cannot be asked.
    """
    return [handle for handle, _ in _persistent_keys(transport)]


def find_handle(transport: Transport, key: PublicKeyTypes) -> int:
    """Find the persistent object with a public key.

    Of several with the same key the lowest handle is taken, and the logger
    ``tpmtls`` tells so.

    Raises:
        NotFound: none has it; the message lists the handles that were looked at, each
            with the beginning of the SHA-256 of its public key.
        TransportError, TpmError: the TPM cannot be asked.
    """
    wanted = _encoded(key)
    seen = list(_persistent_keys(transport))
    matching = [handle for handle, encoded in seen if encoded == wanted]
    if not matching:
        looked = ", ".join(f"{handle:#010x} {_short(encoded)}" for handle, encoded in seen)
        raise NotFound(
            f"no persistent key in the TPM matches the certificate's public key {_short(wanted)} "
            f"(looked at {looked or 'no key at all'}); provision the key, or renew the "
            "certificate over the key that is there"
        )
    if len(matching) > 1:
        others = ", ".join(f"{handle:#010x}" for handle in matching[1:])
        _log.info("the key is at several handles: taking %#010x, leaving %s", matching[0], others)
    return matching[0]


def find_for_certificate(transport: Transport, certificate: x509.Certificate) -> int:
    """Find the persistent object that a certificate is over; see :func:`find_handle`."""
    return find_handle(transport, certificate.public_key())


def _persistent_keys(transport: Transport) -> Iterator[tuple[int, bytes]]:
    for handle in sorted(commands.handles(transport, commands.PERSISTENT_FIRST)):
        try:
            area, _ = commands.read_public(transport, handle)
        except (TpmError, NotFound):
            continue  # an object that cannot be read cannot be the key, or went meanwhile
        key = public.public_key(area)
        if key is not None:
            yield handle, _encoded(key)


def _encoded(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _short(encoded: bytes) -> str:
    return f"sha256:{hashlib.sha256(encoded).hexdigest()[:16]}"
