"""Response codes (TPM 2.0 part 2, 6.6): their names, and what they mean for an operation."""

from __future__ import annotations

from typing import Literal

Status = Literal["run", "unsupported", "blocked", "transport-limit", "error"]

_FORMAT_ONE = {
    0x01: "ASYMMETRIC", 0x02: "ATTRIBUTES", 0x03: "HASH", 0x04: "VALUE", 0x05: "HIERARCHY",
    0x07: "KEY_SIZE", 0x08: "MGF", 0x09: "MODE", 0x0A: "TYPE", 0x0B: "HANDLE", 0x0C: "KDF",
    0x0D: "RANGE", 0x0E: "AUTH_FAIL", 0x0F: "NONCE", 0x10: "PP", 0x12: "SCHEME", 0x15: "SIZE",
    0x16: "SYMMETRIC", 0x17: "TAG", 0x18: "SELECTOR", 0x1A: "INSUFFICIENT", 0x1B: "SIGNATURE",
    0x1C: "KEY", 0x1D: "POLICY_FAIL", 0x1F: "INTEGRITY", 0x20: "TICKET", 0x21: "RESERVED_BITS",
    0x22: "BAD_AUTH", 0x23: "EXPIRED", 0x24: "POLICY_CC", 0x25: "BINDING", 0x26: "CURVE",
    0x27: "ECC_POINT", 0x28: "FW_LIMITED", 0x29: "SVN_LIMITED", 0x2A: "CHANNEL",
    0x2B: "EXT_MU", 0x2C: "ONE_SHOT_SIGNATURE",
}  # fmt: skip

_FORMAT_ZERO = {
    0x100: "INITIALIZE", 0x101: "FAILURE", 0x103: "SEQUENCE", 0x10B: "PRIVATE", 0x119: "HMAC",
    0x120: "DISABLED", 0x121: "EXCLUSIVE", 0x124: "AUTH_TYPE", 0x125: "AUTH_MISSING",
    0x126: "POLICY", 0x127: "PCR", 0x128: "PCR_CHANGED", 0x12D: "UPGRADE",
    0x12E: "TOO_MANY_CONTEXTS", 0x12F: "AUTH_UNAVAILABLE", 0x130: "REBOOT", 0x131: "UNBALANCED",
    0x142: "COMMAND_SIZE", 0x143: "COMMAND_CODE", 0x144: "AUTHSIZE", 0x145: "AUTH_CONTEXT",
    0x146: "NV_RANGE", 0x147: "NV_SIZE", 0x148: "NV_LOCKED", 0x149: "NV_AUTHORIZATION",
    0x14A: "NV_UNINITIALIZED", 0x14B: "NV_SPACE", 0x14C: "NV_DEFINED", 0x150: "BAD_CONTEXT",
    0x151: "CPHASH", 0x152: "PARENT", 0x153: "NEEDS_TEST", 0x154: "NO_RESULT", 0x155: "SENSITIVE",
    0x901: "CONTEXT_GAP", 0x902: "OBJECT_MEMORY", 0x903: "SESSION_MEMORY", 0x904: "MEMORY",
    0x905: "SESSION_HANDLES", 0x906: "OBJECT_HANDLES", 0x907: "LOCALITY", 0x908: "YIELDED",
    0x909: "CANCELED", 0x90A: "TESTING", 0x910: "REFERENCE_H0", 0x920: "NV_RATE",
    0x921: "LOCKOUT", 0x922: "RETRY", 0x923: "NV_UNAVAILABLE",
}  # fmt: skip

# By name: the TPM does not have it.
_UNSUPPORTED = frozenset({
    "ASYMMETRIC", "HASH", "VALUE", "KEY_SIZE", "MGF", "MODE", "TYPE", "KDF", "SCHEME", "SYMMETRIC",
    "SELECTOR", "CURVE", "COMMAND_CODE", "EXT_MU", "ONE_SHOT_SIGNATURE",
})  # fmt: skip

# By name: the TPM has it, and this caller may not use it.
_BLOCKED = frozenset({
    "HIERARCHY", "AUTH_FAIL", "PP", "POLICY_FAIL", "BAD_AUTH", "EXPIRED", "POLICY_CC",
    "FW_LIMITED", "SVN_LIMITED", "DISABLED", "EXCLUSIVE", "AUTH_TYPE", "AUTH_MISSING", "POLICY",
    "PCR", "AUTH_UNAVAILABLE", "NV_LOCKED", "NV_AUTHORIZATION", "LOCALITY", "LOCKOUT",
})  # fmt: skip

_TRANSPORT_LIMIT = frozenset({"COMMAND_SIZE"})


def _base(code: int) -> str | None:
    if code & 0x80:
        return _FORMAT_ONE.get(code & 0x3F)
    return _FORMAT_ZERO.get(code & 0xFFF)


def name(code: int) -> str:
    """Return a response code's name, such as ``TPM_RC_TYPE (parameter 2)``.

    Args:
        code: as received; layers of the TSS put their own number above bit 15.
    """
    base = _base(code)
    if code >> 16 or base is None:
        return f"unknown response code {code:#x}"
    if not code & 0x80:
        return f"TPM_RC_{base}"
    number = code >> 8 & 0xF
    if code & 0x40:
        place = f"parameter {number}"
    elif number & 0x8:
        place = f"session {number & 0x7}"
    else:
        place = f"handle {number}"
    return f"TPM_RC_{base} ({place})" if number & 0x7 or code & 0x40 else f"TPM_RC_{base}"


def status(code: int) -> Status:
    """Tell what a response code means for the operation that met it."""
    base = None if code >> 16 else _base(code)
    for meaning, names in _MEANINGS:
        if base in names:
            return meaning
    return "error"


_MEANINGS: tuple[tuple[Status, frozenset[str]], ...] = (
    ("unsupported", _UNSUPPORTED),
    ("blocked", _BLOCKED),
    ("transport-limit", _TRANSPORT_LIMIT),
)
