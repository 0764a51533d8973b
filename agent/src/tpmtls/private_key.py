"""A TPM key in the shape that the cryptography package gives to private keys.

Its X.509 builders ask a private key for nothing but ``public_key`` and ``sign``, so
requests and certificates can be signed in the TPM. What would need the private half
itself raises :class:`cryptography.exceptions.UnsupportedAlgorithm`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

if TYPE_CHECKING:
    from typing import Self


_PSS_ONLY = (
    "an RSA key in a TPM signs with PSS, its salt as long as the digest; pass "
    "padding.PSS(padding.MGF1(hash), hash.digest_size), to X.509 builders as rsa_padding="
)


class _Signer(Protocol):
    @property
    def public_key(self) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey: ...

    def sign(self, digest: bytes) -> bytes: ...


class _InTpm:
    """What both kinds of key share."""

    def __init__(self, signer: _Signer) -> None:
        self._signer = signer

    def public_key(self) -> Any:
        """Return the public half."""
        return self._signer.public_key

    @property
    def key_size(self) -> int:
        """Bits."""
        return self._signer.public_key.key_size

    def private_numbers(self) -> NoReturn:
        """Refuse: the private half never leaves the TPM."""
        raise _absent("show its private numbers")

    def private_bytes(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse: the private half never leaves the TPM."""
        raise _absent("be written out")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class EllipticCurvePrivateKey(_InTpm, ec.EllipticCurvePrivateKey):
    """An ECDSA key whose private half is in a TPM."""

    @property
    def curve(self) -> ec.EllipticCurve:
        """The curve."""
        curve: ec.EllipticCurve = self.public_key().curve
        return curve

    def sign(self, data: Any, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        """Hash data in software and sign the digest in the TPM.

        Raises:
            ValueError: the key does not sign digests of that hash.
            TpmTlsError: see :meth:`tpmtls.Key.sign`.
        """
        return self._signer.sign(_digest(data, signature_algorithm.algorithm))

    def exchange(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse: a signing key agrees on nothing."""
        raise _absent("take part in a key agreement")


class RSAPrivateKey(_InTpm, rsa.RSAPrivateKey):
    """An RSA key whose private half is in a TPM; its signatures are RSA-PSS."""

    def sign(self, data: Any, padding: padding.AsymmetricPadding, algorithm: Any) -> bytes:
        """Hash data in software and sign the digest in the TPM.

        Raises:
            UnsupportedAlgorithm: the padding is not PSS with a salt as long as the digest.
            ValueError: the key does not sign digests of that hash.
            TpmTlsError: see :meth:`tpmtls.Key.sign`.
        """
        if padding.name != "EMSA-PSS":
            raise UnsupportedAlgorithm(_PSS_ONLY)
        digest = _digest(data, algorithm)
        signature = self._signer.sign(digest)
        plain = algorithm if isinstance(algorithm, Prehashed) else Prehashed(algorithm)
        try:
            self.public_key().verify(signature, digest, padding, plain)
        except InvalidSignature:  # the TPM has the say on the salt, not the caller
            raise UnsupportedAlgorithm(_PSS_ONLY) from None
        return signature

    def decrypt(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse: a signing key decrypts nothing."""
        raise _absent("decrypt")


def over(signer: _Signer) -> EllipticCurvePrivateKey | RSAPrivateKey:
    """Return the private-key object over a key in a TPM."""
    if isinstance(signer.public_key, rsa.RSAPublicKey):
        return RSAPrivateKey(signer)
    return EllipticCurvePrivateKey(signer)


def _digest(data: Any, algorithm: Any) -> bytes:
    if isinstance(algorithm, Prehashed):
        return bytes(data)
    context = hashes.Hash(algorithm)
    context.update(data)
    return context.finalize()


def _absent(what: str) -> UnsupportedAlgorithm:
    return UnsupportedAlgorithm(f"a key in a TPM cannot {what}; it can only sign")
