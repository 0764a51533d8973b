"""A TPM seen and set up through the TSS's ESAPI, not through the project's own commands."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tpm2_pytss import (
    ESAPI,
    ESYS_TR,
    TPM2_ALG,
    TPM2_CAP,
    TPM2_RH,
    TPM2_ST,
    TPM2B_DIGEST,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPMS_SENSITIVE_CREATE,
    TPMT_PUBLIC,
    TPMT_SIG_SCHEME,
    TPMT_TK_HASHCHECK,
    TSS2_Exception,
)

from tests.support.swtpm import Handles

if TYPE_CHECKING:
    from collections.abc import Iterator

TLS_KEY = "sign|fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda"
RESTRICTED_KEY = f"{TLS_KEY}|restricted"
EXPORTABLE_KEY = "sign|sensitivedataorigin|userwithauth|noda"
LOCKABLE_KEY = "sign|fixedtpm|fixedparent|sensitivedataorigin|userwithauth"
POLICY_KEY = "sign|fixedtpm|fixedparent|sensitivedataorigin|noda"
STORAGE_KEY = "decrypt|restricted|fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda"

P256 = "ecc256:ecdsa-sha256"
P256_ANY_SCHEME = "ecc256"
P256_SHA384 = "ecc256:ecdsa-sha384"
P384 = "ecc384:ecdsa-sha384"
RSA = "rsa2048:rsassa-sha256"
STORAGE = "ecc256:aes128cfb"


@contextlib.contextmanager
def esapi(tcti: str) -> Iterator[ESAPI]:
    """Open a TPM for the time of the block; swtpm serves no one else meanwhile."""
    with ESAPI(tcti) as esys:
        yield esys


def handles(esys: ESAPI) -> Handles:
    """Read every persistent and transient object's handle and Name."""
    return Handles(
        frozenset(_objects(esys, 0x81000000)),
        frozenset(_objects(esys, 0x80000000)),
    )


def _objects(esys: ESAPI, first: int) -> Iterator[tuple[int, str]]:
    more = True
    while more:
        more, data = esys.get_capability(TPM2_CAP.HANDLES, first, 32)
        found = [int(handle) for handle in data.data.handles]
        for handle in found:
            yield handle, name_of(esys, handle)
        if found:
            first = found[-1] + 1


def name_of(esys: ESAPI, handle: int) -> str:
    """Read an object's Name, in hexadecimal."""
    _, name, _ = esys.read_public(esys.tr_from_tpmpublic(handle))
    return bytes(name).hex()


def make_key(
    esys: ESAPI,
    *,
    algorithm: str = P256,
    attributes: str = TLS_KEY,
    auth: bytes = b"",
    owner_auth: bytes = b"",
    policy: bytes = b"",
    seed: bytes = b"",
) -> ESYS_TR:
    """Make a primary key in the owner hierarchy and leave it loaded.

    Args:
        esys: the TPM.
        algorithm: as tpm2-tools write it.
        attributes: the object's, as tpm2-tools write them.
        auth: the key's auth value.
        owner_auth: the owner hierarchy's.
        policy: the key's policy digest.
        seed: keys with another seed are other keys.
    """
    area = TPMT_PUBLIC.parse(algorithm, attributes, authPolicy=policy)
    if "sign" in attributes:  # tpm2-pytss gives every restricted key a cipher, as for storage
        area.parameters.asymDetail.symmetric.algorithm = TPM2_ALG.NULL
    if algorithm.startswith("ecc"):
        area.unique.ecc.x = seed
    else:
        area.unique.rsa = seed
    esys.tr_set_auth(ESYS_TR.OWNER, owner_auth)
    sensitive = TPM2B_SENSITIVE_CREATE(sensitive=TPMS_SENSITIVE_CREATE(userAuth=auth))
    handle, *_ = esys.create_primary(sensitive, TPM2B_PUBLIC(publicArea=area), ESYS_TR.OWNER)
    return handle


def persist(esys: ESAPI, key: ESYS_TR, handle: int) -> None:
    """Put a loaded key at a persistent handle and flush the loaded one."""
    esys.evict_control(ESYS_TR.OWNER, key, handle)
    esys.flush_context(key)


def put_key(tcti: str, handle: int, **options: object) -> str:
    """Make a key (see :func:`make_key`) at a persistent handle; return its Name, hexadecimal."""
    with esapi(tcti) as esys:
        persist(esys, make_key(esys, **options), handle)  # type: ignore[arg-type]
        return name_of(esys, handle)


def evict(tcti: str, handle: int) -> None:
    """Evict whatever is at a persistent handle."""
    with esapi(tcti) as esys:
        esys.evict_control(ESYS_TR.OWNER, esys.tr_from_tpmpublic(handle), handle)


def flush_all(tcti: str) -> None:
    """Flush every transient object."""
    with esapi(tcti) as esys:
        for handle, _ in handles(esys).transient:
            esys.flush_context(esys.tr_from_tpmpublic(handle))


def set_owner_auth(tcti: str, auth: bytes) -> None:
    """Give the owner hierarchy an auth value."""
    with esapi(tcti) as esys:
        esys.hierarchy_change_auth(ESYS_TR.OWNER, auth)


def fill_persistent(tcti: str, first: int = 0x81000100) -> int:
    """Make a key persistent at one handle after the other until the TPM takes no more.

    Returns:
        How many it took.
    """
    no_room = 0x14B  # TPM_RC_NV_SPACE
    count = 0
    with esapi(tcti) as esys:
        key = make_key(esys)
        while True:
            try:
                esys.evict_control(ESYS_TR.OWNER, key, first + count)
            except TSS2_Exception as error:
                if error.rc != no_room:
                    raise
                break
            count += 1
        esys.flush_context(key)
    return count


def fill_transient(esys: ESAPI) -> int:
    """Load keys until no slot is left; return how many it took. They stay loaded."""
    count = 0
    with contextlib.suppress(TSS2_Exception):
        while True:
            make_key(esys, seed=bytes([count]))
            count += 1
    return count


def lock_out(tcti: str) -> None:
    """Bring a TPM into dictionary-attack lockout: one wrong guess where one is too many."""
    with esapi(tcti) as esys:
        esys.dictionary_attack_parameters(1, 3600, 3600)
        key = make_key(esys, attributes=LOCKABLE_KEY, auth=b"right")
        esys.tr_set_auth(key, b"wrong")
        ticket = TPMT_TK_HASHCHECK(tag=TPM2_ST.HASHCHECK, hierarchy=TPM2_RH.NULL)
        with contextlib.suppress(TSS2_Exception):
            esys.sign(key, TPM2B_DIGEST(bytes(32)), TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL), ticket)
        esys.flush_context(key)
        assert in_lockout(esys), "the wrong guess did not lead to lockout"


def in_lockout(esys: ESAPI) -> bool:
    """Tell whether dictionary-attack lockout is in force."""
    return bool(_permanent(esys) & 1 << 9)


def lockout_counter(tcti: str) -> int:
    """Read how many wrong guesses the TPM has counted."""
    with esapi(tcti) as esys:
        _, data = esys.get_capability(TPM2_CAP.TPM_PROPERTIES, 0x20E, 1)
        return int(data.data.tpmProperties[0].value)


def _permanent(esys: ESAPI) -> int:
    _, data = esys.get_capability(TPM2_CAP.TPM_PROPERTIES, 0x200, 1)
    return int(data.data.tpmProperties[0].value)
