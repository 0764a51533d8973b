"""A key that stays in the TPM and signs from there."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING

from tpmtls import bridge, commands, errors, private_key, public, requests, schemes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from tpm2_pytss import TPMT_PUBLIC

    from tpmtls.bridge import Chain
    from tpmtls.transport import Transport

    Auth = bytes | Callable[[], bytes] | None

_HASHCHECK = struct.pack(">HIH", 0x8024, 0x40000007, 0)  # no ticket: TPM_RH_NULL
_AUTH_CODES = frozenset({0x8E, 0xA2})  # AUTH_FAIL, BAD_AUTH
_LOCKOUT = 0x921


class Key:
    """A signing key in a TPM.

    Made by :func:`tpmtls.open` and its siblings, never directly. Safe to use from
    several threads: the TPM runs one command at a time, and so does its transport.

    Attributes:
        handle: where the object lives.
        name: its Name (TPM 2.0 part 1, 16).
        public_key: its public half.
        curve: short name of its algorithm, such as ``p256`` or ``rsa2048``.
        hash: the hash that it signs digests of where the choice is free.
        digest_size: bytes in that hash's digests.
        transport: what it signs over.
    """

    def __init__(
        self,
        transport: Transport,
        handle: int,
        area: TPMT_PUBLIC,
        name: bytes,
        *,
        signing: public.Signing,
        auth: Auth,
        owns_transport: bool,
    ) -> None:
        key = public.public_key(area)
        if key is None:
            raise errors.NotASigningKey(f"the object at {handle:#010x} has no public key")
        self._attributes = int(area.objectAttributes)
        self._signing = signing
        self._auth = auth
        self._refused = False
        self._proved = False
        self._owns_transport = owns_transport
        self._closed = False
        self.transport = transport
        self.handle = handle
        self.name = name
        self.public_key: bridge.PublicKey = key
        self.curve = signing.name
        self.hash: hashes.HashAlgorithm = signing.hashes[0].algorithm
        self.digest_size = signing.hashes[0].size
        # All of TPM2_Sign but the digest is the same each time.
        self._frames = {
            item.size: self._frame(item, b"" if callable(auth) else auth or b"")
            for item in signing.hashes
        }

    def __repr__(self) -> str:
        return f"<tpmtls.Key {self.curve} at {self.handle:#010x} on {self.transport.tcti}>"

    @property
    def hash_names(self) -> tuple[str, ...]:
        """Hashes that it signs digests of, such as ``sha256``."""
        return tuple(item.name for item in self._signing.hashes)

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
        """The key as the cryptography package has private keys; it can sign and nothing else."""
        return private_key.over(self)

    def _frame(self, digest: schemes.Hash, auth: bytes) -> tuple[bytes, bytes]:
        """Return what stands before and behind a digest in TPM2_Sign."""
        tail = struct.pack(">HH", self._signing.scheme.tpm_id, digest.tpm_id) + _HASHCHECK
        command = commands.marshal(
            "TPM2_Sign",
            (self.handle,),
            commands.sized(bytes(digest.size)) + tail,
            (commands.password(auth),),
        )
        return command[: -(digest.size + len(tail))], tail

    def sign_command(self, digest: bytes) -> bytes:
        """Marshal the TPM2_Sign command that :meth:`sign` would send for a digest.

        Raises:
            ValueError: the digest's length is not that of the key's hash.
        """
        try:
            head, tail = self._frames[len(digest)]
        except KeyError:
            takes = " or ".join(f"{item.size} ({item.name})" for item in self._signing.hashes)
            raise ValueError(
                f"this {self.curve} key signs digests of {takes} bytes, not of {len(digest)}"
            ) from None
        if callable(self._auth):
            used = next(item for item in self._signing.hashes if item.size == len(digest))
            head, tail = self._frame(used, self._auth())
        return head + digest + tail

    def sign(self, digest: bytes) -> bytes:
        """Sign a digest in the TPM.

        Args:
            digest: as long as the key's hash: 32, 48 or 64 bytes. A key without a
                scheme of its own takes each of them, and the length decides the hash.

        Returns:
            The signature: DER-encoded for ECDSA (RFC 3279, 2.2.3), RSA-PSS otherwise.

        Raises:
            KeyClosed: :meth:`close` was called.
            ValueError: the digest has another length.
            AuthRequired: the TPM does not accept the auth value.
            LockedOut: the TPM is in dictionary-attack lockout.
            WrongScheme, UnusableKey: the first signature is not one that TLS takes.
            TpmError: the TPM refused for another reason.
            DeadlineExceeded, TransportError: no answer.
        """
        if self._closed:
            raise errors.KeyClosed(f"the key at {self.handle:#010x} was closed; open it again")
        if self._refused:  # asking again could bring the TPM into lockout
            raise self._auth_required()
        response = self.transport.exchange(self.sign_command(digest), "TPM2_Sign")
        signature = self.parse_signature(response)
        if not self._proved:
            self._prove(signature, digest)
        return signature

    def parse_signature(self, response: bytes) -> bytes:
        """Take the signature out of a response to TPM2_Sign.

        Raises:
            AuthRequired, LockedOut, TpmError: the response is an error.
        """
        try:
            area = commands.unmarshal(response, "TPM2_Sign").parameters
        except errors.TpmError as error:
            code = commands.base_code(error.code)
            if code in _AUTH_CODES:
                self._refused = not callable(self._auth)
                raise self._auth_required() from error
            if code == _LOCKOUT:
                raise locked_out(self.handle) from error
            raise
        return self._signing.scheme.parse(area)

    def _prove(self, signature: bytes, digest: bytes) -> None:
        """Check the first signature in software, so that no peer is the first to find out."""
        if self.verify(signature, digest):
            self._proved = True
            return
        if self._signing.scheme is schemes.RSA_PSS:
            salt = schemes.salt_length(self.public_key, signature, digest)
            if salt is not None:
                raise errors.WrongScheme(
                    f"the key at {self.handle:#010x} is an RSA key, and this TPM makes RSA-PSS "
                    f"signatures with a salt of {salt} bytes where TLS 1.3 demands {len(digest)}, "
                    "as long as the digest; use an ECDSA key on P-256 or P-384"
                )
        raise errors.UnusableKey(
            f"a signature by the key at {self.handle:#010x} does not verify with its own "
            "public key; the TPM or its transport is faulty"
        )

    def _auth_required(self) -> errors.AuthRequired:
        problem = "has an auth value; give it" if self._auth is None else "has another auth value"
        remedy = "as auth=" if self._auth is None else "than the one given; correct auth="
        return errors.AuthRequired(
            f"the key at {self.handle:#010x} {problem} {remedy} (the TPM may count wrong ones)"
        )

    def verify(self, signature: bytes, digest: bytes) -> bool:
        """Tell, in software, whether a signature over a digest is this key's."""
        return self._signing.scheme.verify(self.public_key, signature, digest)

    def load_into(self, context: ssl.SSLContext, certificate_chain: Chain) -> None:
        """Make this the private key of a context, client or server side.

        Connections that the context makes from here on use it. Call it again, or
        :func:`tpmtls.renew`, with a renewed certificate over the same key at any time,
        also while other threads make connections.

        Args:
            context: the context.
            certificate_chain: path of a PEM file, PEM bytes, or certificates, leaf first.

        Raises:
            CertificateMismatch: the leaf is over another key.
            BridgeUnavailable: this Python's ssl module cannot take it.
            ValueError: there is no certificate in what was given.
        """
        bridge.load(context, self, certificate_chain)

    def certificate_request(
        self,
        subject: str | x509.Name,
        san: Sequence[str | x509.GeneralName] = (),
        *,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> x509.CertificateSigningRequest:
        """Make a certificate signing request over this key, signed in the TPM.

        Args:
            subject: a name, or its RFC 4514 text such as ``CN=store,O=Example``.
            san: subject alternative names; text is an IP address where it reads as
                one, a URI where it holds ``://``, a DNS name otherwise.
            extensions: further extensions to ask for, none of them critical.

        Raises:
            ValueError: the subject or a name is malformed.
            KeyClosed, AuthRequired, TpmError, TransportError: see :meth:`sign`.
        """
        return requests.build(self.private_key, self.hash, subject, san, extensions)

    def non_exportable(self) -> bool:
        """Tell whether the TPM refuses to duplicate the key elsewhere (fixedTPM)."""
        return bool(self._attributes & public.FIXED_TPM)

    def generated_in_tpm(self) -> bool:
        """Tell whether the TPM made the key, rather than being handed it (sensitiveDataOrigin)."""
        return bool(self._attributes & public.SENSITIVE_DATA_ORIGIN)

    def close(self) -> None:
        """Let go of the key. May be called again.

        A persistent key stays where it is; a transient one is flushed.
        """
        if self._closed:
            return
        self._closed = True
        if self.handle < commands.PERSISTENT_FIRST:
            # Gone already is as good; so is a transport that took it along.
            with contextlib.suppress(errors.TpmError, errors.TransportError):
                commands.flush(self.transport, self.handle)
        if self._owns_transport:
            self.transport.close()

    def __enter__(self) -> Key:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def locked_out(handle: int) -> errors.LockedOut:
    """Return the error for a key that dictionary-attack lockout keeps from being used."""
    return errors.LockedOut(
        f"the TPM is in dictionary-attack lockout and the key at {handle:#010x} is "
        "subject to it; wait for the lockout to end or clear it with "
        "tpm2_dictionarylockout --clear-lockout"
    )
