"""What the device suite leaves where it is killed, and how it is known to be ours.

Loaded keys carry their mark as policy digest, like every key of ours. A sequence has no public
area, so its auth value is the mark; a session is a policy session whose digest says it; an NV
index has it as its policy; and a PCR has been extended with nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from typing import TYPE_CHECKING

from tpmtls import commands
from tpmtls.commands import password, sized
from tpmtls.errors import TpmError

if TYPE_CHECKING:
    from tpmtls.transport import Transport

# Of the range that the TCG leaves to owners (registry of reserved handles), its upper end.
NV_FIRST, NV_LAST = 0x01BFF000, 0x01BFFFFF
PCRS = (16, 23)
"""PCRs that anybody may reset (PC Client profile, 4.6)."""

_RH_OWNER = 0x40000001
_LOADED_SESSIONS = 0x02000000
_POLICY_SESSIONS = 0x03000000
_NUMBER = 0x00FFFFFF
_CC_POLICY_OR = 0x171
_MOST_EXTENDS = 200_000
_BANKS = {0x0004: 20, 0x000B: 32, 0x000C: 48, 0x000D: 64}
_RC_SEQUENCE = 0x103


def remove(
    transport: Transport, handle: int | None, mark: bytes, owner_auth: bytes, *, unmarked: bool
) -> int:
    """Remove what a mark proves ours, apart from keys; return how much that was.

    Args:
        transport: the way to the TPM.
        handle: the NV index, PCR or session that the mark was for, a key's handle, or None.
        mark: 32 bytes.
        owner_auth: the owner hierarchy's auth value.
        unmarked: a session at the handle that bears no mark yet is ours too.

    Raises:
        TpmError: the TPM did not let go of it.
    """
    if handle is None:
        return _flush_sequences(transport, mark)
    if handle & ~_NUMBER == _POLICY_SESSIONS:
        return _flush_session(transport, handle, mark, unmarked=unmarked)
    if NV_FIRST <= handle <= NV_LAST:
        return _undefine(transport, handle, mark, owner_auth)
    if handle in PCRS:
        return _reset(transport, handle, mark)
    return 0


def policy_of(transport: Transport, handle: int) -> bytes | None:
    """Read an object's policy digest, also of a kind that the TSS does not know.

    Returns:
        None where the object is gone, or is a sequence, which has no public area.
    """
    try:
        public = commands.run(transport, "TPM2_ReadPublic", (handle,)).parameters
    except TpmError:
        return None
    # TPM2B_PUBLIC: size, type, nameAlg, objectAttributes, authPolicy (part 2, 12.2.4)
    return public[12 : 12 + int.from_bytes(public[10:12])]


def session_digests(mark: bytes) -> list[bytes]:
    """Return what TPM2_PolicyOR takes to mark a new policy session (part 3, 23.6)."""
    return [bytes(32), mark]


def _session_digest(mark: bytes) -> bytes:
    parts = (bytes(32), _CC_POLICY_OR.to_bytes(4), *session_digests(mark))
    return hashlib.sha256(b"".join(parts)).digest()


def next_session(transport: Transport) -> int:
    """Return the handle that the next policy session will most likely have: TPMs count up."""
    taken = {
        handle & _NUMBER
        for first in (_LOADED_SESSIONS, _POLICY_SESSIONS)
        for handle in commands.handles(transport, first)
    }
    return _POLICY_SESSIONS | next(number for number in range(_NUMBER) if number not in taken)


def _flush_session(transport: Transport, handle: int, mark: bytes, *, unmarked: bool) -> int:
    """Flush a session that bears the mark, or none yet: it was free before, and is as new."""
    # Loaded sessions are listed with the kind that they are, in a range of their own.
    loaded = {item & _NUMBER for item in commands.handles(transport, _LOADED_SESSIONS)}
    if handle & _NUMBER not in loaded:
        return 0
    try:
        found = commands.run(transport, "TPM2_PolicyGetDigest", (handle,)).parameters
    except TpmError:  # an HMAC session has no policy digest
        return 0
    ours = [_session_digest(mark), *([bytes(32)] if unmarked else [])]
    if found not in map(sized, ours):
        return 0
    commands.flush(transport, handle)
    return 1


def _flush_sequences(transport: Transport, mark: bytes) -> int:
    removed = 0
    for handle in list(commands.handles(transport, commands.TRANSIENT_FIRST)):
        try:
            commands.run(transport, "TPM2_ReadPublic", (handle,))
        except TpmError as error:
            if error.code != _RC_SEQUENCE:
                continue
        else:
            continue
        # Sequences are exempt from the protection against guessing (part 1, 19.8.1), and this
        # is no guess: their auth value is the mark, or they are not ours.
        with contextlib.suppress(TpmError):
            commands.run(transport, "TPM2_SequenceUpdate", (handle,), sized(b""), (password(mark),))
            commands.flush(transport, handle)
            removed += 1
    return removed


def _undefine(transport: Transport, index: int, mark: bytes, owner_auth: bytes) -> int:
    try:
        answer = commands.run(transport, "TPM2_NV_ReadPublic", (index,)).parameters
    except TpmError as error:
        if commands.base_code(error.code) == 0x8B:  # TPM_RC_HANDLE: it is not there
            return 0
        raise
    if answer[12 : 14 + len(mark)] != sized(mark):
        return 0
    auth = (password(owner_auth),)
    commands.run(transport, "TPM2_NV_UndefineSpace", (_RH_OWNER, index), b"", auth)
    return 1


def pcr_values(transport: Transport, number: int) -> dict[int, bytes]:
    """Read a PCR in every bank that the TPM has, by TPM_ALG_ID of the bank's hash."""
    bits = (1 << number).to_bytes(3, "little")
    values = {}
    for bank, size in _BANKS.items():
        selection = struct.pack(">IHB", 1, bank, 3) + bits
        with contextlib.suppress(TpmError):  # no such hash
            answer = commands.run(transport, "TPM2_PCR_Read", parameters=selection).parameters
            digest = answer[-size:]
            if answer.endswith(struct.pack(">IH", 1, size) + digest):
                values[bank] = digest
    return values


def extended(value: bytes, digest: bytes) -> bytes:
    """Return what a PCR of the SHA-256 bank holds after it was extended (part 1, 17.5)."""
    return hashlib.sha256(value + digest).digest()


def _reset(transport: Transport, number: int, mark: bytes) -> int:
    found = pcr_values(transport, number).get(0x000B, bytes(32))
    value = bytes(32)
    if found == value:
        return 0
    for _ in range(_MOST_EXTENDS):
        value = extended(value, mark)
        if found == value:
            commands.run(transport, "TPM2_PCR_Reset", (number,), b"", (password(),))
            return 1
    return 0  # somebody else has extended it too, and needs what it holds
