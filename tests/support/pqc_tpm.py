"""A TPM of version 1.85 that knows ML-DSA, Hash-ML-DSA and ML-KEM, and nothing else.

It checks every field strictly, and does the cryptography with the cryptography package. It shares
no code with what it tests.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import mldsa, mlkem

from tests.support.pqc_input import (
    ATTRIBUTES,
    AUTH_CONTEXT,
    AUTH_FAIL,
    AUTH_MISSING,
    AUTHSIZE,
    BAD_TAG,
    COMMAND_CODE,
    COMMAND_SIZE,
    EXT_MU,
    HANDLE,
    HASH,
    KEY,
    OBJECT_MEMORY,
    RC_SEQUENCE,
    RESERVED_BITS,
    SCHEME,
    SIGNATURE,
    SIZE,
    SYMMETRIC,
    TICKET,
    TYPE,
    VALUE,
    Input,
    Refused,
    wrong,
)

MLKEM, MLDSA, HASH_MLDSA = 0xA0, 0xA1, 0xA2
SHA256, SHA512, NULL = 0x0B, 0x0D, 0x10
RH_OWNER, RH_NULL, RS_PW = 0x40000001, 0x40000007, 0x40000009
TRANSIENT = 0x80000000
SLOTS = 3

# set number: (public key size, signature or ciphertext size, private key class)
DSA = {
    1: (1312, 2420, mldsa.MLDSA44PrivateKey),
    2: (1952, 3309, mldsa.MLDSA65PrivateKey),
    3: (2592, 4627, mldsa.MLDSA87PrivateKey),
}
KEM = {2: (1184, 1088, mlkem.MLKEM768PrivateKey), 3: (1568, 1568, mlkem.MLKEM1024PrivateKey)}


@dataclass
class Key:
    algorithm: int
    number: int
    private: Any
    public_area: bytes
    policy: bytes
    external_mu: bool = False

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def name(self) -> bytes:
        return struct.pack(">H", SHA256) + hashlib.sha256(self.public_area).digest()


@dataclass
class Sequence:
    signs: bool
    key: int
    auth: bytes
    data: bytes = b""
    updates: int = 0


def mu(key: Key, prefixed: bytes) -> bytes:
    tr = hashlib.shake_256(key.public).digest(64)
    return hashlib.shake_256(tr + prefixed).digest(64)


@dataclass
class PqcTpm:
    """The TPM.

    Attributes:
        sets: TPM_PT_ML_PARAMETER_SETS; all but ML-KEM-512, which software lacks.
        forge: flip a bit in every signature and every shared secret taken out.
        seen: command codes, in order.
        objects: what is loaded, by handle.
    """

    sets: int = 0b1111110
    forge: bool = False
    seen: list[int] = field(default_factory=list)
    objects: dict[int, Key | Sequence] = field(default_factory=dict)

    # -- frame -----------------------------------------------------------------------------

    def answer(self, command: bytes) -> bytes:
        """Carry a command out and return the response."""
        self.seen.append(int.from_bytes(command[6:10]))
        try:
            return self._carried_out(command)
        except Refused as refused:
            return struct.pack(">HII", 0x8001, 10, refused.code)

    def _carried_out(self, command: bytes) -> bytes:
        tag, size, code = struct.unpack_from(">HII", command)
        if size != len(command):
            raise Refused(COMMAND_SIZE)
        if code not in self.COMMANDS:
            raise Refused(COMMAND_CODE)
        if tag not in (0x8001, 0x8002):
            raise Refused(BAD_TAG)
        handles, auths, gives_handle, carry_out = self.COMMANDS[code]
        if bool(auths) != (tag == 0x8002):
            raise Refused(AUTH_MISSING if auths else AUTH_CONTEXT)
        given = struct.unpack_from(f">{handles}I", command, 10)
        at = 10 + 4 * handles
        if auths:
            (length,) = struct.unpack_from(">I", command, at)
            self._authorise(command[at + 4 : at + 4 + length], given, auths)
            at += 4 + length
        made = carry_out(self, given, Input(command[at:]))
        handle, parameters = made if gives_handle else (b"", made)
        if auths:
            parameters = struct.pack(">I", len(parameters)) + parameters
            parameters += struct.pack(">HBH", 0, 1, 0) * auths
        return struct.pack(">HII", tag, 10 + len(handle + parameters), 0) + handle + parameters

    def _authorise(self, area: bytes, handles: tuple[int, ...], auths: int) -> None:
        at = 0
        for index in range(auths):
            if len(area) - at < 9:
                raise Refused(AUTHSIZE)
            session, nonce, attributes, size = struct.unpack_from(">IHBH", area, at)
            given = area[at + 9 : at + 9 + size]
            at += 9 + size
            if (session, nonce) != (RS_PW, 0) or attributes & ~1:
                raise Refused(VALUE | 0x800 | index + 1 << 8)
            thing = self.objects.get(handles[index])
            wanted = thing.auth if isinstance(thing, Sequence) else b""
            if given != wanted:
                raise Refused(AUTH_FAIL | 0x800 | index + 1 << 8)
        if at != len(area):
            raise Refused(AUTHSIZE)

    def _put(self, thing: Key | Sequence) -> int:
        for handle in range(TRANSIENT, TRANSIENT + SLOTS):
            if handle not in self.objects:
                self.objects[handle] = thing
                return handle
        raise Refused(OBJECT_MEMORY)

    def _key(self, handle: int, place: int, *algorithms: int) -> Key:
        thing = self.objects.get(handle)
        if thing is None:
            raise Refused(0x910 + place - 1)  # TPM_RC_REFERENCE_H0
        if not isinstance(thing, Key) or thing.algorithm not in algorithms:
            raise wrong(KEY, handle=place)
        return thing

    def _sequence(self, handle: int, *, signs: bool | None = None) -> Sequence:
        thing = self.objects.get(handle)
        if thing is None:
            raise Refused(0x910)
        if not isinstance(thing, Sequence) or (signs is not None and thing.signs != signs):
            raise wrong(0x89, handle=1)  # TPM_RC_MODE
        return thing

    # -- what it is ------------------------------------------------------------------------

    def get_capability(self, _: tuple[int, ...], fields: Input) -> bytes:
        capability, first, count = (fields.number(4, place) for place in (1, 2, 3))
        fields.end()
        if capability == 0:  # algorithms
            have = [(item, 0) for item in (SHA256, SHA512, MLKEM, MLDSA, HASH_MLDSA)]
            found = [struct.pack(">HI", *item) for item in have if item[0] >= first]
        elif capability == 1:  # handles
            have = [handle for handle in sorted(self.objects) if first >> 24 == 0x80]
            found = [struct.pack(">I", item) for item in have if item >= first]
        elif capability == 2:  # commands
            found = [struct.pack(">I", item) for item in sorted(self.COMMANDS) if item >= first]
        elif capability == 6:  # properties
            have = {0x100: b"2.0\0", 0x102: 185, 0x105: b"PEER", 0x131: self.sets, 0x209: 7}
            found = [
                struct.pack(">I", number) + (v if isinstance(v, bytes) else struct.pack(">I", v))
                for number, v in sorted(have.items())
                if number >= first
            ]
        elif capability == 8:  # curves
            found = []
        else:
            raise wrong(VALUE, 1)
        more = len(found) > count
        return struct.pack(">BII", more, capability, len(found[:count])) + b"".join(found[:count])

    # -- objects ---------------------------------------------------------------------------

    def _parameters(self, fields: Input, algorithm: int, place: int) -> tuple[int, bool]:
        """Check a TPMU_PUBLIC_PARMS."""
        external = False
        if algorithm == MLKEM and fields.number(2, place) != NULL:
            raise wrong(SYMMETRIC, place)
        number = fields.number(2, place)
        if algorithm == MLDSA:
            flag = fields.number(1, place)
            if flag > 1:
                raise wrong(VALUE, place)
            external = bool(flag)
        elif algorithm == HASH_MLDSA:
            if fields.number(2, place) != SHA512:
                raise wrong(HASH, place)
        elif algorithm != MLKEM:
            raise wrong(TYPE, place)
        bit = number - 1 + (0 if algorithm == MLKEM else 3)
        if number not in (1, 2, 3) or not self.sets >> bit & 1:
            raise wrong(VALUE, place)
        return number, external

    def check_parms(self, _: tuple[int, ...], fields: Input) -> bytes:
        self._parameters(fields, fields.number(2, 1), 1)
        fields.end()
        return b""

    def create_primary(self, handles: tuple[int, ...], fields: Input) -> tuple[bytes, bytes]:
        if handles != (RH_OWNER,):
            raise wrong(VALUE, handle=1)
        if fields.sized(1, 512) != bytes(4):  # an empty auth value, no data
            raise wrong(SIZE, 1)
        template = fields.sized(2, 4096)
        area = Input(template)
        algorithm, name_algorithm = area.number(2, 2), area.number(2, 2)
        if algorithm not in (MLKEM, MLDSA, HASH_MLDSA):
            raise wrong(TYPE, 2)
        if name_algorithm != SHA256:
            raise wrong(HASH, 2)
        attributes = area.number(4, 2)
        if attributes & ~0x000F0CF6:
            raise wrong(RESERVED_BITS, 2)
        use = 0x20000 if algorithm == MLKEM else 0x40000
        if attributes & 0x60000 != use or attributes & 0x62 != 0x62:
            raise wrong(ATTRIBUTES, 2)
        policy = area.sized(2, 64)
        if len(policy) not in (0, 32):
            raise wrong(SIZE, 2)
        start = area.at
        number, external = self._parameters(area, algorithm, 2)
        head = template[:start] + template[start : area.at]
        public_size = (KEM if algorithm == MLKEM else DSA)[number][0]
        unique = area.sized(2, public_size)
        if area.at != len(template):
            raise wrong(SIZE, 2)
        fields.sized(3, 64)
        if fields.number(4, 4) != 0:
            raise wrong(SIZE, 4)
        fields.end()
        make = (KEM if algorithm == MLKEM else DSA)[number][2]
        # Primaries come from the template: the same one, the same key.
        seed = hashlib.shake_256(head + unique).digest(64 if algorithm == MLKEM else 32)
        key = Key(algorithm, number, make.from_seed_bytes(seed), b"", policy, external)
        public = key.public
        key.public_area = head + struct.pack(">H", len(public)) + public
        handle = self._put(key)
        out = struct.pack(">H", len(key.public_area)) + key.public_area
        out += struct.pack(">HH", 0, 0)  # creationData, creationHash, as short as they can be
        out += struct.pack(">HIH", 0x8021, RH_OWNER, 0)
        out += struct.pack(">H", len(key.name)) + key.name
        return struct.pack(">I", handle), out

    def read_public(self, handles: tuple[int, ...], fields: Input) -> bytes:
        fields.end()
        thing = self.objects.get(handles[0])
        if thing is None:
            raise Refused(0x910)
        if isinstance(thing, Sequence):
            raise Refused(RC_SEQUENCE)
        out = struct.pack(">H", len(thing.public_area)) + thing.public_area
        return out + 2 * (struct.pack(">H", len(thing.name)) + thing.name)

    def flush(self, _: tuple[int, ...], fields: Input) -> bytes:
        handle = fields.number(4, 1)
        fields.end()
        if self.objects.pop(handle, None) is None:
            raise wrong(HANDLE, 1)
        return b""

    # -- signatures ------------------------------------------------------------------------

    def _signed(self, key: Key, representative: bytes) -> bytes:
        raw = bytearray(key.private.sign_mu(representative))
        raw[20] ^= self.forge
        head = struct.pack(">H", key.algorithm)
        if key.algorithm == HASH_MLDSA:
            head += struct.pack(">H", SHA512)
        return head + struct.pack(">H", len(raw)) + bytes(raw)

    def _verify(self, key: Key, representative: bytes, fields: Input, place: int) -> None:
        if fields.number(2, place) != key.algorithm:
            raise wrong(SCHEME, place)
        if key.algorithm == HASH_MLDSA and fields.number(2, place) != SHA512:
            raise wrong(HASH, place)
        size = DSA[key.number][1]
        raw = fields.sized(place, 4627)
        fields.end()
        if len(raw) != size:
            raise wrong(SIZE, place)
        try:
            key.private.public_key().verify_mu(raw, representative)
        except InvalidSignature:
            raise wrong(SIGNATURE, place) from None

    def _of_message(self, key: Key, message: bytes) -> bytes:
        if key.algorithm == MLDSA:
            return mu(key, b"\0\0" + message)
        return self._of_hash(key, hashlib.sha512(message).digest())

    def _of_hash(self, key: Key, digest: bytes) -> bytes:
        return mu(key, b"\1\0" + bytes.fromhex("0609608648016503040203") + digest)

    def sign_sequence_start(self, handles: tuple[int, ...], fields: Input) -> tuple[bytes, bytes]:
        self._key(handles[0], 1, MLDSA, HASH_MLDSA)
        auth = fields.sized(1, 64)
        if fields.sized(2, 255):
            raise wrong(VALUE, 2)
        fields.end()
        return struct.pack(">I", self._put(Sequence(True, handles[0], auth))), b""

    def verify_sequence_start(self, handles: tuple[int, ...], fields: Input) -> tuple[bytes, bytes]:
        self._key(handles[0], 1, MLDSA, HASH_MLDSA)
        auth = fields.sized(1, 64)
        if fields.sized(2, 255):
            raise wrong(VALUE, 2)
        if fields.sized(3, 255):
            raise wrong(VALUE, 3)
        fields.end()
        return struct.pack(">I", self._put(Sequence(False, handles[0], auth))), b""

    def sequence_update(self, handles: tuple[int, ...], fields: Input) -> bytes:
        sequence = self._sequence(handles[0])
        data = fields.sized(1, 1024)
        fields.end()
        sequence.data += data
        sequence.updates += 1
        return b""

    def sign_sequence_complete(self, handles: tuple[int, ...], fields: Input) -> bytes:
        sequence = self._sequence(handles[0], signs=True)
        key = self._key(handles[1], 2, MLDSA, HASH_MLDSA)
        if sequence.key != handles[1]:
            raise wrong(0x9C, handle=2)
        message = sequence.data + fields.sized(1, 1024)
        fields.end()
        del self.objects[handles[0]]
        return self._signed(key, self._of_message(key, message))

    def verify_sequence_complete(self, handles: tuple[int, ...], fields: Input) -> bytes:
        sequence = self._sequence(handles[0], signs=False)
        key = self._key(handles[1], 2, MLDSA, HASH_MLDSA)
        if sequence.key != handles[1]:
            raise wrong(0x9C, handle=2)
        self._verify(key, self._of_message(key, sequence.data), fields, 1)
        del self.objects[handles[0]]
        return struct.pack(">HIH", 0x8026, RH_OWNER, 64) + bytes(64)

    def _representative(self, key: Key, digest: bytes) -> bytes:
        if len(digest) != 64:
            raise wrong(SIZE, 2)
        if key.algorithm == HASH_MLDSA:
            return self._of_hash(key, digest)
        if not key.external_mu:
            raise Refused(EXT_MU | 0x100)
        return digest

    def sign_digest(self, handles: tuple[int, ...], fields: Input) -> bytes:
        key = self._key(handles[0], 1, MLDSA, HASH_MLDSA)
        if fields.sized(1, 255):
            raise wrong(VALUE, 1)
        digest = fields.sized(2, 64)
        if fields.take(8, 3) != struct.pack(">HIH", 0x8024, RH_NULL, 0):
            raise wrong(TICKET, 3)
        fields.end()
        return self._signed(key, self._representative(key, digest))

    def verify_digest(self, handles: tuple[int, ...], fields: Input) -> bytes:
        key = self._key(handles[0], 1, MLDSA, HASH_MLDSA)
        if fields.sized(1, 255):
            raise wrong(VALUE, 1)
        digest = fields.sized(2, 64)
        self._verify(key, self._representative(key, digest), fields, 3)
        return struct.pack(">HIHH", 0x8027, RH_OWNER, SHA512, 64) + bytes(64)

    # -- encapsulation ---------------------------------------------------------------------

    def encapsulate(self, handles: tuple[int, ...], fields: Input) -> bytes:
        key = self._key(handles[0], 1, MLKEM)
        fields.end()
        secret, ciphertext = sorted(key.private.public_key().encapsulate(), key=len)
        return struct.pack(">H", 32) + secret + struct.pack(">H", len(ciphertext)) + ciphertext

    def decapsulate(self, handles: tuple[int, ...], fields: Input) -> bytes:
        key = self._key(handles[0], 1, MLKEM)
        ciphertext = fields.sized(1, 1568)
        fields.end()
        if len(ciphertext) != KEM[key.number][1]:
            raise wrong(SIZE, 1)
        secret = bytearray(key.private.decapsulate(ciphertext))
        secret[0] ^= self.forge
        return struct.pack(">H", 32) + bytes(secret)

    # code: handles, authorisations, whether a handle comes back, what carries it out
    COMMANDS: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.COMMANDS = {
            0x131: (1, 1, True, PqcTpm.create_primary),
            0x15C: (1, 1, False, PqcTpm.sequence_update),
            0x165: (0, 0, False, PqcTpm.flush),
            0x173: (1, 0, False, PqcTpm.read_public),
            0x17A: (0, 0, False, PqcTpm.get_capability),
            0x18A: (0, 0, False, PqcTpm.check_parms),
            0x1A3: (2, 1, False, PqcTpm.verify_sequence_complete),
            0x1A4: (2, 2, False, PqcTpm.sign_sequence_complete),
            0x1A5: (1, 0, False, PqcTpm.verify_digest),
            0x1A6: (1, 1, False, PqcTpm.sign_digest),
            0x1A7: (1, 0, False, PqcTpm.encapsulate),
            0x1A8: (1, 1, False, PqcTpm.decapsulate),
            0x1A9: (1, 0, True, PqcTpm.verify_sequence_start),
            0x1AA: (1, 0, True, PqcTpm.sign_sequence_start),
        }
