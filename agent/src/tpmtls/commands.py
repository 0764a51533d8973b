"""TPM commands as bytes: marshalling (TPM 2.0 part 1, 18) and the few that attaching needs.

Structures are marshalled by tpm2-pytss; what is done here is the frame around
them, so that a command can be prepared once and its round trip timed alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tpm2_pytss import TPM2B_PUBLIC, TSS2_Exception

from tpmtls.errors import NotFound, TpmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tpm2_pytss import TPMT_PUBLIC

    from tpmtls.transport import Transport

RC_SUCCESS = 0
_ST_NO_SESSIONS = 0x8001
_ST_SESSIONS = 0x8002
_RS_PW = 0x40000009

CAP_ALGS = 0x0
CAP_HANDLES = 0x1
CAP_TPM_PROPERTIES = 0x6
CAP_ECC_CURVES = 0x8

PERSISTENT_FIRST = 0x81000000
TRANSIENT_FIRST = 0x80000000

_PAGE = 64

# Command codes (part 2, 6.5.2) of the commands that this project sends.
CODES = {
    "TPM2_EvictControl": 0x120,
    "TPM2_NV_UndefineSpace": 0x122,
    "TPM2_NV_DefineSpace": 0x12A,
    "TPM2_CreatePrimary": 0x131,
    "TPM2_NV_Write": 0x137,
    "TPM2_PCR_Reset": 0x13D,
    "TPM2_SequenceComplete": 0x13E,
    "TPM2_Certify": 0x148,
    "TPM2_NV_Read": 0x14E,
    "TPM2_Create": 0x153,
    "TPM2_ECDH_ZGen": 0x154,
    "TPM2_HMAC": 0x155,
    "TPM2_Load": 0x157,
    "TPM2_Quote": 0x158,
    "TPM2_RSA_Decrypt": 0x159,
    "TPM2_SequenceUpdate": 0x15C,
    "TPM2_Sign": 0x15D,
    "TPM2_ContextLoad": 0x161,
    "TPM2_ContextSave": 0x162,
    "TPM2_ECDH_KeyGen": 0x163,
    "TPM2_EncryptDecrypt": 0x164,
    "TPM2_FlushContext": 0x165,
    "TPM2_LoadExternal": 0x167,
    "TPM2_NV_ReadPublic": 0x169,
    "TPM2_PolicyOR": 0x171,
    "TPM2_ReadPublic": 0x173,
    "TPM2_RSA_Encrypt": 0x174,
    "TPM2_StartAuthSession": 0x176,
    "TPM2_VerifySignature": 0x177,
    "TPM2_GetCapability": 0x17A,
    "TPM2_GetRandom": 0x17B,
    "TPM2_Hash": 0x17D,
    "TPM2_PCR_Read": 0x17E,
    "TPM2_PCR_Extend": 0x182,
    "TPM2_HashSequenceStart": 0x186,
    "TPM2_PolicyGetDigest": 0x189,
    "TPM2_TestParms": 0x18A,
    "TPM2_EncryptDecrypt2": 0x193,
    "TPM2_VerifySequenceComplete": 0x1A3,
    "TPM2_SignSequenceComplete": 0x1A4,
    "TPM2_VerifyDigestSignature": 0x1A5,
    "TPM2_SignDigest": 0x1A6,
    "TPM2_Encapsulate": 0x1A7,
    "TPM2_Decapsulate": 0x1A8,
    "TPM2_VerifySequenceStart": 0x1A9,
    "TPM2_SignSequenceStart": 0x1AA,
}


class Response(NamedTuple):
    """A successful response, taken apart: its handles and its parameter bytes."""

    handles: tuple[int, ...]
    parameters: bytes


def password(auth: bytes = b"") -> bytes:
    """Marshal a password authorisation (part 2, 10.13.2)."""
    return struct.pack(">IHBH", _RS_PW, 0, 0, len(auth)) + auth


def sized(data: bytes) -> bytes:
    """Marshal bytes as a TPM2B."""
    return struct.pack(">H", len(data)) + data


def marshal(
    name: str,
    handles: Sequence[int] = (),
    parameters: bytes = b"",
    authorizations: Iterable[bytes] = (),
) -> bytes:
    """Marshal one command.

    Args:
        name: such as ``TPM2_Sign``, a key of :data:`CODES`.
        handles: the handle area.
        parameters: the parameter area, marshalled.
        authorizations: marshalled authorisations; with none the command has no session.
    """
    area = b"".join(authorizations)
    body = struct.pack(f">{len(handles)}I", *handles)
    if area:
        body += struct.pack(">I", len(area)) + area
    body += parameters
    tag = _ST_SESSIONS if area else _ST_NO_SESSIONS
    return struct.pack(">HII", tag, 10 + len(body), CODES[name]) + body


def unmarshal(response: bytes, name: str, handles: int = 0) -> Response:
    """Take a response apart.

    Args:
        response: as received.
        name: the command's name, for messages.
        handles: how many handles the response carries.

    Raises:
        TpmError: the response code is not success, or the response is malformed.
    """
    if len(response) < 10:
        raise TpmError(0, name, "the response is shorter than its header")
    tag, size, code = struct.unpack_from(">HII", response)
    if code != RC_SUCCESS:
        raise TpmError(code, name, describe(code))
    if size != len(response):
        raise TpmError(0, name, f"the response says {size} bytes and has {len(response)}")
    values = struct.unpack_from(f">{handles}I", response, 10)
    start = 10 + 4 * handles
    if tag == _ST_SESSIONS:
        (length,) = struct.unpack_from(">I", response, start)
        return Response(values, response[start + 4 : start + 4 + length])
    return Response(values, response[start:])


def run(
    transport: Transport,
    name: str,
    handles: Sequence[int] = (),
    parameters: bytes = b"",
    authorizations: Iterable[bytes] = (),
    response_handles: int = 0,
) -> Response:
    """Marshal a command, exchange it and take its response apart.

    Raises:
        TpmError: the TPM refused it.
        TransportError: see :meth:`tpmtls.transport.Transport.exchange`.
    """
    command = marshal(name, handles, parameters, authorizations)
    return unmarshal(transport.exchange(command, name), name, response_handles)


def describe(code: int) -> str:
    """Return a response code with the TSS's words for it, such as ``0x3a0 (…)``."""
    return f"response code {code:#x} ({TSS2_Exception(code)})"


def base_code(code: int) -> int:
    """Strip handle, session and parameter numbers off a format-one code (part 2, 6.6.2)."""
    return code & 0xBF if code & 0x80 else code


def properties(transport: Transport, first: int, count: int) -> dict[int, int]:
    """Read TPM properties (part 2, 6.13) by number, from ``first``, ``count`` at the most."""
    _, data = _capability(transport, CAP_TPM_PROPERTIES, first, count)
    found = struct.unpack_from(">I", data)[0]
    flat = struct.unpack_from(f">{2 * found}I", data, 4)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def algorithms(transport: Transport) -> frozenset[int]:
    """Read the TPM_ALG_ID of every algorithm that the TPM has (TCG algorithm registry)."""
    found: list[int] = []
    first, more = 0, True
    while more:
        more, data = _capability(transport, CAP_ALGS, first, _PAGE)
        count = struct.unpack_from(">I", data)[0]
        page = [struct.unpack_from(">HI", data, 4 + 6 * index)[0] for index in range(count)]
        if not page:
            break
        found += page
        first = page[-1] + 1
    return frozenset(found)


def curves(transport: Transport) -> tuple[int, ...]:
    """Read the numbers of the elliptic curves that the TPM has (TCG algorithm registry)."""
    _, data = _capability(transport, CAP_ECC_CURVES, 0, _PAGE)
    found = struct.unpack_from(">I", data)[0]
    return struct.unpack_from(f">{found}H", data, 4)


def handles(transport: Transport, first: int) -> Iterator[int]:
    """Yield every handle of the range that ``first`` begins, a page at a time."""
    last = first | 0x00FFFFFF
    while True:
        more, data = _capability(transport, CAP_HANDLES, first, _PAGE)
        found = struct.unpack_from(">I", data)[0]
        page = struct.unpack_from(f">{found}I", data, 4)
        yield from page
        if not more or not page or page[-1] >= last:
            return
        first = page[-1] + 1


def _capability(
    transport: Transport, capability: int, first: int, count: int
) -> tuple[bool, bytes]:
    wanted = struct.pack(">III", capability, first, count)
    data = run(transport, "TPM2_GetCapability", parameters=wanted).parameters
    return bool(data[0]), data[5:]


def read_public(transport: Transport, handle: int) -> tuple[TPMT_PUBLIC, bytes]:
    """Read an object's public area and its Name.

    Raises:
        NotFound: nothing is at the handle.
    """
    try:
        data = run(transport, "TPM2_ReadPublic", (handle,)).parameters
    except TpmError as error:
        # TPM_RC_HANDLE, TPM_RC_VALUE for this handle, or TPM_RC_REFERENCE_H0
        if base_code(error.code) in (0x8B, 0x84) or error.code == 0x910:
            raise NotFound(
                f"there is no object at handle {handle:#010x}; list what is there with "
                "tpm2_getcap handles-persistent"
            ) from error
        raise
    public, used = TPM2B_PUBLIC.unmarshal(data)
    length = struct.unpack_from(">H", data, used)[0]
    return public.publicArea, data[used + 2 : used + 2 + length]


def flush(transport: Transport, handle: int) -> None:
    """Flush a transient object or a session.

    Raises:
        TpmError: nothing is loaded at the handle.
    """
    # The handle is a parameter of this command, not in its handle area (part 3, 28.4).
    run(transport, "TPM2_FlushContext", parameters=struct.pack(">I", handle))
