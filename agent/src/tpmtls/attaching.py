"""Attaching to a key that somebody else put into the TPM: is it one that can sign for TLS?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpmtls import commands, public
from tpmtls.key import Key, locked_out

if TYPE_CHECKING:
    from tpmtls.key import Auth
    from tpmtls.transport import Transport

_PT_PERMANENT = 0x200
_IN_LOCKOUT = 1 << 9  # TPMA_PERMANENT (part 2, 8.6)


def attach(
    transport: Transport,
    handle: int,
    *,
    auth: Auth = None,
    owns_transport: bool = False,
) -> Key:
    """Attach to the key at a handle over an open transport.

    The key is checked here, so that a key that cannot sign TLS handshakes stops a
    program at its start and not one connection an hour later.

    Args:
        transport: an open transport.
        handle: a persistent handle, or a transient one of this transport.
        auth: the key's auth value, or what returns it, called for each signature;
            None for a key that has none.
        owns_transport: close the transport with the key.

    Raises:
        NotFound: nothing is there.
        UnusableKey: what is there cannot sign TLS handshakes; the subclass says why.
        TransportError, TpmError: the TPM cannot be asked.
    """
    area, name = commands.read_public(transport, handle)
    signing = public.check_usable(area, handle)
    if signing.open:
        signing = _with_hashes_of(transport, signing)
    subject_to_lockout = not int(area.objectAttributes) & public.NO_DA
    if subject_to_lockout:
        permanent = commands.properties(transport, _PT_PERMANENT, 1).get(_PT_PERMANENT, 0)
        if permanent & _IN_LOCKOUT:
            raise locked_out(handle)
    key = Key(
        transport, handle, area, name, signing=signing, auth=auth, owns_transport=owns_transport
    )
    # Where a wrong auth value would count as an attack, only the caller's word may be tried.
    if auth is not None or not subject_to_lockout:
        key.sign(bytes(key.digest_size))
    return key


def _with_hashes_of(transport: Transport, signing: public.Signing) -> public.Signing:
    """Leave out hashes that the TPM does not have."""
    has = commands.algorithms(transport)
    kept = tuple(item for item in signing.hashes if item.tpm_id in has)
    return public.Signing(signing.name, signing.scheme, kept or signing.hashes[:1], open=True)
