"""What a TPM object's public area says of it: the key, its attributes, its fitness for TLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from tpm2_pytss import TPM2B_PUBLIC

from tpmtls import errors, schemes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from tpm2_pytss import TPMT_PUBLIC

ALG_RSA = 0x0001
ALG_NULL = 0x0010
ALG_ECDSA = schemes.ALG_ECDSA
ALG_ECC = 0x0023

# TPMA_OBJECT (part 2, 8.3)
FIXED_TPM = 1 << 1
FIXED_PARENT = 1 << 4
SENSITIVE_DATA_ORIGIN = 1 << 5
USER_WITH_AUTH = 1 << 6
NO_DA = 1 << 10
RESTRICTED = 1 << 16
SIGN = 1 << 18


@dataclass(frozen=True)
class Curve:
    """A curve as its several owners call it.

    Attributes:
        name: short name, such as ``p256``.
        tpm_id: TPM_ECC_CURVE (TCG algorithm registry).
        hash_id: TPM_ALG_ID of the hash that TLS 1.3 pairs with it (RFC 8446, 4.2.3).
        hash: the same for the cryptography package.
        curve: the curve for the cryptography package.
    """

    name: str
    tpm_id: int
    hash_id: int
    hash: hashes.HashAlgorithm
    curve: type[ec.EllipticCurve]


CURVES = tuple(
    Curve(name, tpm_id, digest.tpm_id, digest.algorithm, curve)
    for name, tpm_id, digest, curve in (
        ("p256", 0x0003, schemes.SHA256, ec.SECP256R1),
        ("p384", 0x0004, schemes.SHA384, ec.SECP384R1),
        ("p521", 0x0005, schemes.SHA512, ec.SECP521R1),
    )
)


@dataclass(frozen=True)
class Signing:
    """How a key signs TLS handshakes.

    Attributes:
        name: short name of its algorithm, such as ``p256`` or ``rsa2048``.
        scheme: the signature scheme.
        hashes: what it may sign digests of, TLS 1.3's choice first.
        open: whether the object leaves the choice of the hash to each signature.
    """

    name: str
    scheme: schemes.Scheme
    hashes: tuple[schemes.Hash, ...]
    open: bool = False


def public_key(public: TPMT_PUBLIC) -> ec.EllipticCurvePublicKey | RSAPublicKey | None:
    """Return the public key of an RSA or ECC object, or None for any other object."""
    kind = int(public.type)
    if kind == ALG_RSA:
        key: RSAPublicKey = load_pem_public_key(TPM2B_PUBLIC(publicArea=public).to_pem())  # type: ignore[assignment]
        return key
    if kind != ALG_ECC:
        return None
    curve = curve_of(public)
    if curve is None:
        return None
    point = public.unique.ecc
    numbers = ec.EllipticCurvePublicNumbers(
        int.from_bytes(bytes(point.x.buffer)),
        int.from_bytes(bytes(point.y.buffer)),
        curve.curve(),
    )
    return numbers.public_key()


def curve_of(public: TPMT_PUBLIC) -> Curve | None:
    """Return the curve of an ECC object, or None where TLS has no use for it."""
    number = int(public.parameters.eccDetail.curveID)
    return next((curve for curve in CURVES if curve.tpm_id == number), None)


def check_usable(public: TPMT_PUBLIC, handle: int) -> Signing:
    """Check that an object can sign TLS handshakes, and return how.

    Raises:
        NotASigningKey, RestrictedKey, WrongScheme, AuthRequired: why it cannot.
    """
    where = f"the object at {handle:#010x}"
    attributes = int(public.objectAttributes)
    kind = int(public.type)
    if kind not in (ALG_RSA, ALG_ECC) or not attributes & SIGN:
        raise errors.NotASigningKey(
            f"{where} is not an asymmetric signing key; attach to the TLS key that was "
            "provisioned on this machine"
        )
    if attributes & RESTRICTED:
        raise errors.RestrictedKey(
            f"{where} is a restricted key, such as an attestation key: it signs only what the "
            "TPM itself hashed, and answers a TLS transcript with TPM_RC_TICKET; attach to an "
            "unrestricted signing key"
        )
    signing = _rsa(public, where) if kind == ALG_RSA else _ecdsa(public, where)
    if not attributes & USER_WITH_AUTH:
        raise errors.AuthRequired(
            f"{where} can be used under a policy only (userWithAuth is clear); provision a key "
            "with userWithAuth set"
        )
    return signing


def _rsa(public: TPMT_PUBLIC, where: str) -> Signing:
    detail = public.parameters.rsaDetail
    name, scheme = f"rsa{int(detail.keyBits)}", int(detail.scheme.scheme)
    if scheme == ALG_NULL:
        return Signing(name, schemes.RSA_PSS, schemes.HASHES, open=True)
    if scheme != schemes.ALG_RSAPSS:
        raise errors.WrongScheme(
            f"{where} is an RSA key with signing scheme {scheme:#06x}, and TLS 1.3 asks for "
            f"RSA-PSS ({schemes.ALG_RSAPSS:#06x}); provision it with that scheme, or an ECDSA key"
        )
    number = int(detail.scheme.details.rsapss.hashAlg)
    for digest in schemes.HASHES:
        if digest.tpm_id == number:
            return Signing(name, schemes.RSA_PSS, (digest,))
    raise errors.WrongScheme(
        f"{where} signs with hash {number:#06x}, which TLS 1.3 does not; provision it with SHA-256"
    )


def _ecdsa(public: TPMT_PUBLIC, where: str) -> Signing:
    curve = check_scheme(public, where)
    own = tuple(item for item in schemes.HASHES if item.tpm_id == curve.hash_id)
    if int(public.parameters.eccDetail.scheme.scheme) != ALG_NULL:
        return Signing(curve.name, schemes.ECDSA, own)
    others = tuple(item for item in schemes.HASHES if item not in own)
    return Signing(curve.name, schemes.ECDSA, own + others, open=True)


def check_scheme(public: TPMT_PUBLIC, where: str = "the object") -> Curve:
    """Check that a key is an ECDSA key that TLS 1.3 signs with, and return its curve.

    Raises:
        WrongScheme: it is not.
    """
    if int(public.type) == ALG_RSA:
        raise errors.WrongScheme(f"{where} is an RSA key; provision an ECDSA key on P-256 or P-384")
    curve = curve_of(public)
    detail = public.parameters.eccDetail
    if curve is None:
        raise errors.WrongScheme(
            f"{where} is on curve {int(detail.curveID):#06x}, which TLS 1.3 does not sign with; "
            "use P-256, P-384 or P-521"
        )
    scheme = int(detail.scheme.scheme)
    if scheme == ALG_NULL:
        return curve
    if scheme != ALG_ECDSA:
        raise errors.WrongScheme(
            f"{where} has signing scheme {scheme:#06x}, and TLS asks for ECDSA ({ALG_ECDSA:#06x}); "
            "provision it with that scheme"
        )
    digest = int(detail.scheme.details.ecdsa.hashAlg)
    if digest != curve.hash_id:
        raise errors.WrongScheme(
            f"{where} signs {curve.name} with hash {digest:#06x}, and TLS 1.3 pairs that curve "
            f"with {curve.hash_id:#06x} ({curve.hash.name}); provision it with that hash"
        )
    return curve
