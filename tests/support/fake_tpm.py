"""A TPM that is a Python object: for answers that no software TPM can be brought to give.

It keeps to what tpmtls sends: GetCapability, ReadPublic, Sign and FlushContext.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from tpm2_pytss import TPM2_ALG, TPM2B_PUBLIC, TPMT_PUBLIC

from tests.support.tls import HASHES
from tests.support.tpm import TLS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGN, _FLUSH, _READ_PUBLIC, _GET_CAPABILITY = 0x15D, 0x165, 0x173, 0x17A
_HASH_IDS = {32: 0x0B, 48: 0x0C, 64: 0x0D}


@cache
def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


class FakeObject:
    """An object in a fake TPM.

    Args:
        algorithm: as tpm2-tools write it.
        attributes: as tpm2-tools write them.
        auth: its auth value.
        key: its private key; a new one where it is left out.
    """

    def __init__(
        self,
        algorithm: str = "ecc256:ecdsa-sha256",
        attributes: str = TLS_KEY,
        auth: bytes = b"",
        key: Any = None,
    ) -> None:
        self.auth = auth
        self.area = TPMT_PUBLIC.parse(algorithm, attributes)
        self.area.parameters.asymDetail.symmetric.algorithm = TPM2_ALG.NULL
        if algorithm.startswith("rsa"):
            self.key = key or _rsa_key()
            self.area.unique.rsa = self.key.public_key().public_numbers().n.to_bytes(256)
        else:
            curve = {"256": ec.SECP256R1, "384": ec.SECP384R1, "521": ec.SECP521R1}[algorithm[3:6]]
            self.key = key or ec.generate_private_key(curve())
            numbers = self.key.public_key().public_numbers()
            size = (self.key.key_size + 7) // 8
            self.area.unique.ecc.x = numbers.x.to_bytes(size)
            self.area.unique.ecc.y = numbers.y.to_bytes(size)

    @property
    def public_key(self) -> Any:
        return self.key.public_key()


class FakeTpm:
    """A channel with a TPM behind it.

    Attributes:
        objects: what it holds, by handle; None is an object that cannot be read.
        commands: the code of each command that it has seen.
        raw: the commands themselves.
        codes: response codes to give to the next signatures, before it signs.
        salt: length of its RSA-PSS salts, or None for that of the digest.
        permanent: TPM_PT_PERMANENT.
        algorithms: TPM_ALG_ID of what it has.
        broken: whether its signatures are wrong.
    """

    def __init__(self, objects: dict[int, FakeObject | None] | None = None) -> None:
        self.objects = objects or {}
        self.commands: list[int] = []
        self.raw: list[bytes] = []
        self.codes: list[int] = []
        self.salt: int | None = None
        self.permanent = 0
        self.algorithms = [0x01, 0x0B, 0x0C, 0x0D, 0x18]
        self.broken = False
        self.closed = False
        self._response = b""

    def send(self, command: bytes) -> None:
        code = int.from_bytes(command[6:10])
        self.commands.append(code)
        self.raw.append(command)
        answer = {
            _SIGN: self._sign,
            _FLUSH: self._flush,
            _READ_PUBLIC: self._read_public,
            _GET_CAPABILITY: self._capability,
        }[code]
        self._response = answer(command)

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002  # as every channel has it
        return self._response

    def close(self) -> None:
        self.closed = True

    def _capability(self, command: bytes) -> bytes:
        kind, first, count = struct.unpack_from(">III", command, 10)
        items: Iterator[tuple[int, bytes]]
        if kind == 0x1:
            items = ((item, struct.pack(">I", item)) for item in sorted(self.objects))
        elif kind == 0x0:
            items = ((item, struct.pack(">HI", item, 1)) for item in sorted(self.algorithms))
        else:
            items = iter([(0x200, struct.pack(">II", 0x200, self.permanent))])
        wanted = [data for number, data in items if number >= first]
        page = wanted[:count]
        more = len(wanted) > len(page)
        return _success(struct.pack(">BII", more, kind, len(page)) + b"".join(page))

    def _read_public(self, command: bytes) -> bytes:
        (handle,) = struct.unpack_from(">I", command, 10)
        if handle not in self.objects:
            return _failure(0x18B)  # TPM_RC_HANDLE, first handle
        item = self.objects[handle]
        if item is None:
            return _failure(0x101)  # TPM_RC_FAILURE
        name = struct.pack(">H", 0x000B) + bytes(32)
        area = TPM2B_PUBLIC(publicArea=item.area).marshal()
        return _success(area + 2 * (struct.pack(">H", len(name)) + name))

    def _flush(self, command: bytes) -> bytes:
        (handle,) = struct.unpack_from(">I", command, 10)
        return _success(b"") if self.objects.pop(handle, None) else _failure(0x1CB)

    def _sign(self, command: bytes) -> bytes:
        if self.codes and (code := self.codes.pop(0)):
            return _failure(code)
        handle, area = struct.unpack_from(">II", command, 10)
        item = self.objects[handle]
        assert item is not None
        length = int.from_bytes(command[25:27])
        if command[27 : 27 + length] != item.auth:
            return _failure(0x9A2 if int(item.area.objectAttributes) & 1 << 10 else 0x98E)
        parameters = command[18 + area :]
        size = int.from_bytes(parameters[:2])
        digest = parameters[2 : 2 + size]
        scheme, hash_id = struct.unpack_from(">HH", parameters, 2 + size)
        if hash_id != _HASH_IDS[size]:
            return _failure(0x1D5)  # TPM_RC_SIZE, first parameter
        if self.broken:
            digest = bytes(reversed(digest[:-1])) + b"\x01"
        head = struct.pack(">HH", scheme, hash_id)
        signature = head + self._signature(item.key, digest)
        return _success(struct.pack(">I", len(signature)) + signature + bytes(5), sessions=True)

    def _signature(self, key: Any, digest: bytes) -> bytes:
        algorithm = HASHES[len(digest)]
        if isinstance(key, rsa.RSAPrivateKey):
            salt = len(digest) if self.salt is None else self.salt
            pss = padding.PSS(padding.MGF1(algorithm), salt)
            return _sized(key.sign(digest, pss, Prehashed(algorithm)))
        der = key.sign(digest, ec.ECDSA(Prehashed(algorithm)))
        size = (key.key_size + 7) // 8
        return b"".join(_sized(number.to_bytes(size)) for number in decode_dss_signature(der))


def _sized(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def _success(parameters: bytes, *, sessions: bool = False) -> bytes:
    return struct.pack(">HII", 0x8002 if sessions else 0x8001, 10 + len(parameters), 0) + parameters


def _failure(code: int) -> bytes:
    return struct.pack(">HII", 0x8001, 10, code)
