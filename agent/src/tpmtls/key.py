"""A key that stays in the TPM and signs from there."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    encode_dss_signature,
)

from tpmtls import bridge, commands, errors, public

if TYPE_CHECKING:
    import ssl

    from tpm2_pytss import TPMT_PUBLIC

    from tpmtls.bridge import Chain
    from tpmtls.transport import Transport

_HASHCHECK = struct.pack(">HIH", 0x8024, 0x40000007, 0)  # no ticket: TPM_RH_NULL
_PT_PERMANENT = 0x200
_IN_LOCKOUT = 1 << 9  # TPMA_PERMANENT (part 2, 8.6)
_AUTH_CODES = frozenset({0x8E, 0xA2})  # AUTH_FAIL, BAD_AUTH


class Key:
    """An ECDSA key in a TPM.

    Made by :func:`tpmtls.open` and its siblings, never directly. Safe to use from
    several threads: the TPM runs one command at a time, and so does its transport.

    Attributes:
        handle: where the object lives.
        name: its Name (TPM 2.0 part 1, 16).
        public_key: its public half.
        curve: short name of its curve, such as ``p256``.
        digest_size: bytes in the digests that it signs.
        transport: what it signs over.
    """

    def __init__(
        self,
        transport: Transport,
        handle: int,
        area: TPMT_PUBLIC,
        name: bytes,
        *,
        auth: bytes,
        owns_transport: bool,
    ) -> None:
        self._curve = public.check_usable(area, handle)
        key = public.public_key(area)
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise errors.NotASigningKey(f"the object at {handle:#010x} has no ECDSA public key")
        self._attributes = int(area.objectAttributes)
        self._owns_transport = owns_transport
        self._closed = False
        self.transport = transport
        self.handle = handle
        self.name = name
        self.public_key = key
        self.curve = self._curve.name
        self.digest_size = self._curve.hash.digest_size
        self._algorithm = ec.ECDSA(Prehashed(self._curve.hash))
        # All of TPM2_Sign but the digest is the same each time.
        template = self._command(auth, bytes(self.digest_size))
        self._head = template[: -(self.digest_size + 4 + len(_HASHCHECK))]
        self._tail = template[-(4 + len(_HASHCHECK)) :]

    def _command(self, auth: bytes, digest: bytes) -> bytes:
        scheme = struct.pack(">HH", public.ALG_ECDSA, self._curve.hash_id)
        return commands.marshal(
            "TPM2_Sign",
            (self.handle,),
            commands.sized(digest) + scheme + _HASHCHECK,
            (commands.password(auth),),
        )

    def sign_command(self, digest: bytes) -> bytes:
        """Marshal the TPM2_Sign command that :meth:`sign` would send for a digest.

        Raises:
            ValueError: the digest's length is not that of the key's hash.
        """
        if len(digest) != self.digest_size:
            raise ValueError(
                f"a {self.curve} key signs digests of {self.digest_size} bytes "
                f"({self._curve.hash.name}), not of {len(digest)}"
            )
        return self._head + digest + self._tail

    def sign(self, digest: bytes) -> bytes:
        """Sign a digest in the TPM.

        Args:
            digest: as long as the curve's hash: 32, 48 or 64 bytes.

        Returns:
            The ECDSA signature, DER-encoded (RFC 3279, 2.2.3).

        Raises:
            KeyClosed: :meth:`close` was called.
            ValueError: the digest has another length.
            AuthRequired: the TPM asks for an auth value.
            TpmError: the TPM refused for another reason.
            DeadlineExceeded, TransportError: no answer.
        """
        if self._closed:
            raise errors.KeyClosed(f"the key at {self.handle:#010x} was closed; open it again")
        response = self.transport.exchange(self.sign_command(digest), "TPM2_Sign")
        return self.parse_signature(response)

    def parse_signature(self, response: bytes) -> bytes:
        """Take the DER-encoded signature out of a response to TPM2_Sign.

        Raises:
            AuthRequired, TpmError: the response is an error.
        """
        try:
            area = commands.unmarshal(response, "TPM2_Sign").parameters
        except errors.TpmError as error:
            if commands.base_code(error.code) in _AUTH_CODES:
                raise errors.AuthRequired(
                    f"the key at {self.handle:#010x} has an auth value; give it as auth="
                ) from error
            raise
        first = struct.unpack_from(">H", area, 4)[0]
        r = int.from_bytes(area[6 : 6 + first])
        second = struct.unpack_from(">H", area, 6 + first)[0]
        s = int.from_bytes(area[8 + first : 8 + first + second])
        return encode_dss_signature(r, s)

    def verify(self, signature: bytes, digest: bytes) -> bool:
        """Tell, in software, whether a signature over a digest is this key's."""
        try:
            self.public_key.verify(signature, digest, self._algorithm)
        except InvalidSignature:
            return False
        return True

    def load_into(self, context: ssl.SSLContext, certificate_chain: Chain) -> None:
        """Make this the private key of a context, client or server side.

        Connections that the context makes from here on use it. Call it again
        with a renewed certificate over the same key at any time.

        Args:
            context: the context.
            certificate_chain: path of a PEM file, PEM bytes, or certificates, leaf first.

        Raises:
            CertificateMismatch: the leaf is over another key.
            BridgeUnavailable: this Python's ssl module cannot take it.
            ValueError: there is no certificate in what was given.
        """
        bridge.load(context, self, certificate_chain)

    def non_exportable(self) -> bool:
        """Tell whether the TPM refuses to duplicate the key elsewhere (fixedTPM)."""
        return bool(self._attributes & public.FIXED_TPM)

    def generated_in_tpm(self) -> bool:
        """Tell whether the TPM made the key, rather than being handed it (sensitiveDataOrigin)."""
        return bool(self._attributes & public.SENSITIVE_DATA_ORIGIN)

    def close(self) -> None:
        """Let go of the key; it stays where it is. May be called again."""
        if not self._closed:
            self._closed = True
            if self._owns_transport:
                self.transport.close()

    def __enter__(self) -> Key:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(
    transport: Transport,
    handle: int,
    *,
    auth: bytes | None = None,
    owns_transport: bool = False,
) -> Key:
    """Attach to the key at a handle over an open transport.

    The key is checked here, so that a key that cannot sign TLS handshakes stops a
    program at its start and not one connection an hour later.

    Args:
        transport: an open transport.
        handle: a persistent handle, or a transient one of this transport.
        auth: the key's auth value; None for a key that has none.
        owns_transport: close the transport with the key.

    Raises:
        NotFound: nothing is there.
        UnusableKey: what is there cannot sign TLS handshakes; the subclass says why.
        TransportError, TpmError: the TPM cannot be asked.
    """
    area, name = commands.read_public(transport, handle)
    key = Key(transport, handle, area, name, auth=auth or b"", owns_transport=owns_transport)
    subject_to_lockout = not int(area.objectAttributes) & public.NO_DA
    if subject_to_lockout:
        permanent = commands.properties(transport, _PT_PERMANENT, 1).get(_PT_PERMANENT, 0)
        if permanent & _IN_LOCKOUT:
            raise errors.LockedOut(
                f"the TPM is in dictionary-attack lockout and the key at {handle:#010x} is "
                "subject to it; wait for the lockout to end or clear it with "
                "tpm2_dictionarylockout --clear-lockout"
            )
    # Where a wrong auth value would count as an attack, only the caller's word may be tried.
    if auth is not None or not subject_to_lockout:
        _try(key)
    return key


def _try(key: Key) -> None:
    """Sign once and verify in software, so that no handshake is the first to find out."""
    digest = bytes(key.digest_size)
    if not key.verify(key.sign(digest), digest):
        raise errors.UnusableKey(
            f"a trial signature by the key at {key.handle:#010x} does not verify with its own "
            "public key; the TPM or its transport is faulty"
        )
