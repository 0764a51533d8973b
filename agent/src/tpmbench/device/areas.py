"""Public areas of the suite's keys: all marked as ours, none subject to lockout."""

from __future__ import annotations

from tpm2_pytss import (
    TPM2_ALG,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPMS_SENSITIVE_CREATE,
    TPMT_PUBLIC,
    TPMT_PUBLIC_PARMS,
)

_COMMON = "fixedtpm|fixedparent|userwithauth|noda"
_OWN = f"{_COMMON}|sensitivedataorigin"
PARENT = (f"{_OWN}|restricted|decrypt", "ecc256:aes128cfb")
SIGNING = f"{_OWN}|sign"
DECRYPTING = f"{_OWN}|decrypt"
ATTESTING = f"{_OWN}|sign|restricted"
EXTERNAL = "userwithauth|noda|decrypt"
# Its secret is given, so that software can check what it does.
KNOWN_CIPHER = f"{_COMMON}|sign|decrypt"
KNOWN_HMAC = f"{_COMMON}|sign"


def area(algorithm: str, attributes: str, mark: bytes, unique: bytes = b"") -> TPMT_PUBLIC:
    """Return a template.

    Args:
        algorithm: as tpm2-tools write it, such as ``ecc256:ecdsa-sha256``.
        attributes: as tpm2-tools write them.
        mark: the policy digest, which shows that it is ours; userWithAuth makes it unnecessary.
        unique: makes primary keys differ that are alike otherwise.
    """
    public = TPMT_PUBLIC.parse(algorithm, attributes, nameAlg="sha256", authPolicy=mark)
    if "sign" in attributes and algorithm.startswith(("rsa", "ecc")):
        # tpm2-pytss gives every restricted key a cipher, as for storage
        public.parameters.asymDetail.symmetric.algorithm = TPM2_ALG.NULL
    if unique and public.type == TPM2_ALG.ECC:
        public.unique.ecc.x = unique
    elif unique:
        public.unique.rsa = unique
    return public


def marshalled(public: TPMT_PUBLIC) -> bytes:
    """Marshal a template as a TPM2B_PUBLIC."""
    return bytes(TPM2B_PUBLIC(publicArea=public).marshal())


def parameters(public: TPMT_PUBLIC) -> bytes:
    """Marshal a template's parameters as TPM2_TestParms takes them (TPMT_PUBLIC_PARMS)."""
    return bytes(TPMT_PUBLIC_PARMS(type=public.type, parameters=public.parameters).marshal())


def sensitive(secret: bytes = b"") -> bytes:
    """Marshal a TPM2B_SENSITIVE_CREATE with an empty auth value."""
    return bytes(sensitive_create(secret).marshal())


def sensitive_create(secret: bytes = b"") -> TPM2B_SENSITIVE_CREATE:
    """Return a TPM2B_SENSITIVE_CREATE with an empty auth value."""
    return TPM2B_SENSITIVE_CREATE(sensitive=TPMS_SENSITIVE_CREATE(data=secret))
