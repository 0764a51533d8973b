"""Every operation of the suite, in wolfTPM's order; those that its bench lacks follow."""

from __future__ import annotations

from tpmbench.device import areas, attest, creation, ecc, nv, rng, rsa, symmetric
from tpmbench.device.operation import Operation
from tpmtls.public import CURVES

_P256, _P384 = CURVES[:2]
_AES, _HMAC, _OAEP, _RSA = 0x0006, 0x0005, 0x0017, 0x0001
_ECC, _ECDSA = 0x0023, 0x0018
_RSA_KEY = ("rsa2048", areas.DECRYPTING)


def _ciphers() -> tuple[Operation, ...]:
    return tuple(
        Operation(
            f"device-aes-{bits}-{mode}-{'decrypt' if decrypt else 'encrypt'}",
            f"AES-{bits}-{mode.upper()}-{'dec' if decrypt else 'enc'}",
            f"AES-{bits} in {mode.upper()} mode, 1024 bytes {'back' if decrypt else 'there'}",
            symmetric.cipher(mode, bits, decrypt=decrypt),
            algorithms=(_AES, symmetric.MODES[mode][0]),
        )
        for mode in symmetric.MODES
        for bits in (128, 256)
        for decrypt in (False, True)
    )


def _hashes() -> tuple[Operation, ...]:
    return tuple(
        Operation(
            f"device-{name}",
            name.upper(),
            f"{name.upper()} of 1024 bytes: start, update, complete",
            symmetric.hashing(name),
            ("TPM2_HashSequenceStart", "TPM2_SequenceUpdate", "TPM2_SequenceComplete"),
            (number,),
        )
        for name, number in symmetric.HASHES.items()
    )


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "device-rng", "RNG", "random numbers, 32 bytes in a request",
        rng.random_bytes(32), ("TPM2_GetRandom",),
    ),
    *_ciphers(),
    *_hashes(),
    Operation(
        "device-rsa-2048-keygen", "RSA 2048 key gen", "a new RSA-2048 key: create and load",
        creation.created(*_RSA_KEY), ("TPM2_Create", "TPM2_Load"), (_RSA,), slow=True,
    ),
    Operation(
        "device-rsa-2048-public", "RSA 2048 Public", "RSA-2048 public operation, no padding",
        rsa.public, ("TPM2_RSA_Encrypt",), (_RSA,),
    ),
    Operation(
        "device-rsa-2048-private", "RSA 2048 Private", "RSA-2048 private operation, no padding",
        rsa.private, ("TPM2_RSA_Decrypt",), (_RSA,),
    ),
    Operation(
        "device-rsa-2048-oaep-public", "RSA 2048 Pub OAEP", "RSA-2048 OAEP encryption of 32 bytes",
        rsa.oaep_public, ("TPM2_RSA_Encrypt",), (_RSA, _OAEP),
    ),
    Operation(
        "device-rsa-2048-oaep-private", "RSA 2048 Priv OAEP",
        "RSA-2048 OAEP decryption of 32 bytes",
        rsa.oaep_private, ("TPM2_RSA_Decrypt",), (_RSA, _OAEP),
    ),
    Operation(
        "device-ecc-p256-keygen", "ECC 256 key gen", "a new P-256 key: create and load",
        creation.created(ecc.algorithm(_P256), areas.SIGNING), ("TPM2_Create", "TPM2_Load"),
        (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdsa-p256-sign", "ECDSA 256 sign", "ECDSA on P-256, a digest of 32 bytes",
        ecc.signing(_P256), ("TPM2_Sign",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdsa-p256-verify", "ECDSA 256 verify", "verification of the same in the TPM",
        ecc.verifying(_P256), ("TPM2_VerifySignature",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdh-p256-agree", "ECDHE 256 agree", "ECDH on P-256 with an ephemeral key",
        ecc.agreeing(_P256), ("TPM2_ECDH_KeyGen", "TPM2_LoadExternal"), (_ECC,),
    ),
    Operation(
        "device-rng-largest", "RNG, largest request", "random numbers, as many as one answer has",
        rng.random_bytes(None), ("TPM2_GetRandom",),
    ),
    Operation(
        "device-rsa-3072-keygen", "RSA 3072 key gen", "a new RSA-3072 key: create and load",
        creation.created("rsa3072", areas.DECRYPTING), ("TPM2_Create", "TPM2_Load"), (_RSA,),
        slow=True,
    ),
    Operation(
        "device-rsa-2048-primary", "RSA 2048 primary, same", "an RSA-2048 primary, same template",
        creation.primary(*_RSA_KEY, varied=False), ("TPM2_CreatePrimary",), (_RSA,),
        slow=True,
    ),
    Operation(
        "device-rsa-2048-primary-varied", "RSA 2048 primary, varied",
        "an RSA-2048 primary, another template each time",
        creation.primary(*_RSA_KEY, varied=True), ("TPM2_CreatePrimary",), (_RSA,),
        slow=True,
    ),
    Operation(
        "device-ecc-p256-primary", "ECC 256 primary, same", "a P-256 primary, same template",
        creation.primary(ecc.algorithm(_P256), areas.SIGNING, varied=False),
        ("TPM2_CreatePrimary",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecc-p256-primary-varied", "ECC 256 primary, varied",
        "a P-256 primary, another template each time",
        creation.primary(ecc.algorithm(_P256), areas.SIGNING, varied=True),
        ("TPM2_CreatePrimary",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdh-p256-private", "ECDH 256 private", "ECDH on P-256 with a key of the TPM",
        ecc.agreeing_private(_P256), ("TPM2_ECDH_ZGen",), (_ECC,),
    ),
    Operation(
        "device-ecc-p384-keygen", "ECC 384 key gen", "a new P-384 key: create and load",
        creation.created(ecc.algorithm(_P384), areas.SIGNING), ("TPM2_Create", "TPM2_Load"),
        (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdsa-p384-sign", "ECDSA 384 sign", "ECDSA on P-384, a digest of 48 bytes",
        ecc.signing(_P384), ("TPM2_Sign",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdsa-p384-verify", "ECDSA 384 verify", "verification of the same in the TPM",
        ecc.verifying(_P384), ("TPM2_VerifySignature",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-ecdh-p384-agree", "ECDHE 384 agree", "ECDH on P-384 with an ephemeral key",
        ecc.agreeing(_P384), ("TPM2_ECDH_KeyGen", "TPM2_LoadExternal"), (_ECC,),
    ),
    Operation(
        "device-hmac-sha256", "HMAC-SHA256", "HMAC-SHA-256 of 1024 bytes",
        symmetric.hmac_sha256, ("TPM2_HMAC",), (_HMAC,),
    ),
    Operation(
        "device-quote", "Quote", "a quote of PCRs 0 to 7, P-256",
        attest.quote, ("TPM2_Quote",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-certify", "Certify", "a certificate of a loaded key, P-256",
        attest.certify, ("TPM2_Certify",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-pcr-read", "PCR read", "PCRs 0 to 7 read",
        attest.pcr_read, ("TPM2_PCR_Read",),
    ),
    Operation(
        "device-pcr-extend", "PCR extend", "a resettable PCR extended, and reset at the end",
        attest.pcr_extend, ("TPM2_PCR_Extend", "TPM2_PCR_Reset"),
    ),
    Operation(
        "device-nv-write", "NV write", "32 bytes written to an NV index",
        nv.storage(write=True), ("TPM2_NV_DefineSpace", "TPM2_NV_Write"),
    ),
    Operation(
        "device-nv-read", "NV read", "32 bytes read from an NV index",
        nv.storage(write=False), ("TPM2_NV_DefineSpace", "TPM2_NV_Read"),
    ),
    Operation(
        "device-object-load", "Object load", "a P-256 key loaded",
        creation.loading, ("TPM2_Create", "TPM2_Load"), (_ECC, _ECDSA),
    ),
    Operation(
        "device-context-save", "Context save", "a loaded key saved, as a resource manager does",
        creation.saving, ("TPM2_ContextSave",), (_ECC, _ECDSA),
    ),
    Operation(
        "device-context-load", "Context load", "the same brought back",
        creation.restoring, ("TPM2_ContextSave", "TPM2_ContextLoad"), (_ECC, _ECDSA),
    ),
)  # fmt: skip
