"""How the TPM in :mod:`tests.support.pqc_tpm` reads a command, and its codes for a wrong one."""

from __future__ import annotations

# Response codes, with the place that is wrong added to the format-one ones.
FMT1 = 0x80
P = 0x40
VALUE, HANDLE, SCHEME, SIZE, TYPE = 0x84, 0x8B, 0x92, 0x95, 0x8A
SIGNATURE, KEY, HASH, AUTH_FAIL, SYMMETRIC, TICKET = 0x9B, 0x9C, 0x83, 0x8E, 0x96, 0xA0
RESERVED_BITS, ATTRIBUTES, EXT_MU = 0xA1, 0x82, 0xAB
COMMAND_CODE, COMMAND_SIZE, AUTH_MISSING, AUTH_CONTEXT = 0x143, 0x142, 0x125, 0x145
OBJECT_MEMORY, BAD_TAG, RC_SEQUENCE, AUTHSIZE = 0x902, 0x1E, 0x103, 0x144


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(hex(code))
        self.code = code


def wrong(code: int, parameter: int = 0, handle: int = 0) -> Refused:
    return Refused(code | (P | parameter << 8 if parameter else handle << 8))


class Input:
    """A command's parameters; each field is taken exactly and nothing may be left over."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int, parameter: int) -> bytes:
        if len(self.data) - self.at < size:
            raise wrong(0x9A, parameter)  # TPM_RC_INSUFFICIENT
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int, parameter: int) -> int:
        return int.from_bytes(self.take(size, parameter))

    def sized(self, parameter: int, most: int) -> bytes:
        size = self.number(2, parameter)
        if size > most:
            raise wrong(SIZE, parameter)
        return self.take(size, parameter)

    def end(self) -> None:
        if self.at != len(self.data):
            raise Refused(SIZE)
