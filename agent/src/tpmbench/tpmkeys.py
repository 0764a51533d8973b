"""Keys of ours in the TPM: made, marked, made persistent, and taken away again."""

from __future__ import annotations

import contextlib
import secrets
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpm2_pytss import TPM2B_PUBLIC, TPM2B_SENSITIVE_CREATE, TPMT_PUBLIC

import tpmtls
from tpmbench.device import leftovers
from tpmbench.journal import Entry, Journal
from tpmbench.outcome import BenchError, LeftBehindError
from tpmtls import commands
from tpmtls import public as areas
from tpmtls.errors import NotFound, TpmError, TpmTlsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpmtls.transport import Transport

RH_OWNER = 0x40000001
_RH_NULL = 0x40000007
_SE_HMAC = 0x00
_ALG_SHA256 = 0x000B

# Where a key may be put on its own account: from the upper end of the owner's range, away
# from the TCG's provisioning handles, Azure's and go-tpm-tools'.
AUTO_FIRST = 0x817FF000
AUTO_LAST = 0x817FFFFF

# (first, last, whose): never taken, also when asked for.
RESERVED = (
    (0x81000001, 0x81000001, "Azure's"),
    (0x81000003, 0x81000003, "Azure's attestation key"),
    (0x81008F00, 0x81008FFF, "go-tpm-tools'"),
    (0x81010000, 0x8101FFFF, "the TCG's for endorsement keys"),
)

ATTRIBUTES = (
    areas.SIGN
    | areas.FIXED_TPM
    | areas.FIXED_PARENT
    | areas.SENSITIVE_DATA_ORIGIN
    | areas.USER_WITH_AUTH
    | areas.NO_DA
)


@dataclass(frozen=True)
class Owner:
    """What it takes to act for the owner hierarchy."""

    auth: bytes = b""


def template(curve: areas.Curve, mark: bytes, attributes: int = ATTRIBUTES) -> TPMT_PUBLIC:
    """Return the public template of a signing key.

    Unrestricted, ECDSA with the curve's hash, empty auth. The mark stands as the policy
    digest, which userWithAuth makes unnecessary, and in ``unique``: primary keys are derived from
    their template, and some TPMs keep them, so that without it each run had the same key.
    """
    algorithm = f"ecc{curve.curve.key_size}:ecdsa-{curve.hash.name}"
    area = TPMT_PUBLIC.parse(algorithm, attributes, nameAlg="sha256", authPolicy=mark)
    area.unique.ecc.x = mark
    return area


def create_primary(transport: Transport, public: TPMT_PUBLIC, owner: Owner) -> int:
    """Make a primary key in the owner hierarchy and return its transient handle.

    Raises:
        BenchError: the owner's auth value is not the one given.
        TpmError: the TPM refused for another reason.
    """
    parameters = (
        TPM2B_SENSITIVE_CREATE().marshal()
        + TPM2B_PUBLIC(publicArea=public).marshal()
        + commands.sized(b"")  # outsideInfo
        + struct.pack(">I", 0)  # creationPCR
    )
    with _owner_errors():
        response = commands.run(
            transport,
            "TPM2_CreatePrimary",
            (RH_OWNER,),
            parameters,
            (commands.password(owner.auth),),
            response_handles=1,
        )
    return response.handles[0]


def evict_control(transport: Transport, handle: int, persistent: int, owner: Owner) -> None:
    """Make a transient object persistent, or (with the handle twice) evict it.

    Raises:
        BenchError: the owner's auth value is not the one given, or there is no room.
        TpmError: the TPM refused for another reason.
    """
    with _owner_errors():
        commands.run(
            transport,
            "TPM2_EvictControl",
            (RH_OWNER, handle),
            struct.pack(">I", persistent),
            (commands.password(owner.auth),),
        )


@contextlib.contextmanager
def _owner_errors() -> Iterator[None]:
    try:
        yield
    except TpmError as error:
        meaning = _REFUSALS.get(commands.base_code(error.code))
        if meaning is None:
            raise
        raise BenchError(f"{meaning} ({error})") from error


# Base response code (part 2, 6.6.3) to what it means where a key is made or kept.
_REFUSALS = {
    0x0A2: "the owner hierarchy's auth value is not the one given; "
    "name the file that holds it with --owner-auth-file",
    0x08E: "the owner hierarchy's auth value is not the one given; "
    "name the file that holds it with --owner-auth-file",
    0x085: "the owner hierarchy is disabled; enable it in the firmware",
    0x14B: "the TPM has no room for another persistent key; evict one that is no longer needed",
    0x902: "every slot for loaded objects is taken; flush what other programs left behind with "
    "tpm2_flushcontext --transient-object",
}


def free_handle(transport: Transport, asked: int | None) -> int:
    """Return the persistent handle to use: the one asked for, or the first free one.

    Raises:
        BenchError: it is taken or reserved, or none is free.
    """
    taken = set(commands.handles(transport, commands.PERSISTENT_FIRST))
    if asked is None:
        free = (item for item in range(AUTO_FIRST, AUTO_LAST + 1) if item not in taken)
        found = next(free, None)
        if found is None:
            raise BenchError("no handle is free from 0x817ff000 up; name one with --handle")
        return found
    for first, last, whose in RESERVED:
        if first <= asked <= last:
            raise BenchError(f"handle {asked:#010x} is {whose} place; choose another, or auto")
    if asked in taken:
        raise BenchError(
            f"handle {asked:#010x} is taken by a key that is not ours, which is left alone; "
            "choose another handle, or auto"
        )
    return asked


@contextlib.contextmanager
def idle_session(transport: Transport) -> Iterator[int]:
    """Keep an HMAC session open, and unused, for the time of the block.

    Raises:
        TpmError: the TPM refused it.
    """
    parameters = (
        commands.sized(secrets.token_bytes(16))  # nonceCaller
        + commands.sized(b"")  # no salt
        + struct.pack(">BHH", _SE_HMAC, areas.ALG_NULL, _ALG_SHA256)
    )
    response = commands.run(
        transport, "TPM2_StartAuthSession", (_RH_NULL, _RH_NULL), parameters, response_handles=1
    )
    try:
        yield response.handles[0]
    finally:
        commands.flush(transport, response.handles[0])


class Keyring:
    """Makes keys over one transport and answers for their removal.

    Args:
        transport: a transport without objects of ours on it.
        journal: where they are written down; locked by the caller.
        owner: the owner's auth value.
        boot_id: the kernel's identifier of this boot.
    """

    def __init__(
        self, transport: Transport, journal: Journal, owner: Owner, boot_id: str | None
    ) -> None:
        self._transport = transport
        self._journal = journal
        self._owner = owner
        self._boot_id = boot_id

    @contextlib.contextmanager
    def persistent(self, curve: areas.Curve, handle: int) -> Iterator[int]:
        """Keep a new key at a persistent handle for the time of the block.

        Raises:
            BenchError, TpmError: it could not be made.
            LeftBehindError: it could not be removed at the end.
        """
        entry = self._enter(handle)
        try:
            with self._made(entry, curve, self._transport) as (named, transient):
                entry = named
                evict_control(self._transport, transient, handle, self._owner)
            yield handle
        finally:
            self._forget(entry)

    @contextlib.contextmanager
    def transient(self, curve: areas.Curve, transport: Transport | None = None) -> Iterator[int]:
        """Keep a new key loaded on a transport for the time of the block."""
        entry = self._enter(None)
        try:
            with self._made(entry, curve, transport or self._transport) as (_, loaded):
                yield loaded
        finally:
            self._forget(entry)

    @property
    def owner(self) -> Owner:
        """The owner's auth value."""
        return self._owner

    @contextlib.contextmanager
    def noted(self, handle: int | None = None, mark: bytes | None = None) -> Iterator[bytes]:
        """Give a mark for the time of the block, and remove whatever it proves ours at the end.

        Args:
            handle: an NV index or a PCR that is to bear the mark; None for loaded objects,
                sequences and sessions.
            mark: 32 bytes that were drawn before; None to draw them.

        Raises:
            LeftBehindError: something could not be removed.
        """
        entry = self._enter(handle, mark)
        try:
            yield bytes.fromhex(entry.mark)
        finally:
            self._forget(entry)

    def _enter(self, handle: int | None, mark: bytes | None = None) -> Entry:
        mark = mark or secrets.token_bytes(32)
        entry = Entry(mark.hex(), self._transport.tcti, handle, None, self._boot_id)
        self._journal.write(entry)
        return entry

    @contextlib.contextmanager
    def _made(
        self, entry: Entry, curve: areas.Curve, transport: Transport
    ) -> Iterator[tuple[Entry, int]]:
        public = template(curve, bytes.fromhex(entry.mark))
        loaded = create_primary(transport, public, self._owner)
        try:
            _, name = commands.read_public(transport, loaded)
            if entry.handle is not None:
                entry = self._journal.name(entry, name)
            yield entry, loaded
        finally:
            commands.flush(transport, loaded)

    def _forget(self, entry: Entry) -> None:
        forget(self._transport, self._journal, entry, self._owner)


def provision(
    transport: Transport, journal: Journal, owner: Owner, curve: areas.Curve, handle: int
) -> tpmtls.Key:
    """Make a key, make it persistent and leave it there.

    Raises:
        BenchError, TpmTlsError: it could not be made.
    """
    free_handle(transport, handle)
    keyring = Keyring(transport, journal, owner, None)
    with keyring.transient(curve) as loaded:  # journalled until here, in case we are killed
        evict_control(transport, loaded, handle, owner)
    return tpmtls.attach(transport, handle)


def remove(transport: Transport, entry: Entry, owner: Owner) -> int:
    """Remove from the TPM what a journal entry proves ours; return how many objects that was.

    The proof is a mark or a Name, whatever transport the entry was made over. Only a session
    that bears no mark yet is taken for ours by its handle, over the very same transport.

    Raises:
        BenchError, TpmTlsError: the TPM did not let it go.
    """
    removed = 0
    mark = bytes.fromhex(entry.mark)
    for handle in list(commands.handles(transport, commands.TRANSIENT_FIRST)):
        if leftovers.policy_of(transport, handle) == mark:
            commands.flush(transport, handle)
            removed += 1
    if entry.handle is not None and entry.name is not None:
        with contextlib.suppress(NotFound):
            _, name = commands.read_public(transport, entry.handle)
            if name.hex() == entry.name:
                evict_control(transport, entry.handle, entry.handle, owner)
                removed += 1
    return removed + leftovers.remove(
        transport, entry.handle, mark, owner.auth, unmarked=entry.tcti == transport.tcti
    )


def forget(transport: Transport, journal: Journal, entry: Entry, owner: Owner) -> int:
    """Remove what a journal entry proves ours, and the entry; return how many objects that was.

    Raises:
        LeftBehindError: the TPM did not let it go; the entry stays.
    """
    removed = _removed(transport, entry, owner)
    journal.remove(entry)
    return removed


def _removed(transport: Transport, entry: Entry, owner: Owner) -> int:
    try:
        return remove(transport, entry, owner)
    except (BenchError, TpmTlsError) as error:
        raise LeftBehindError(_left_behind(transport, entry, error)) from error


def recover(transport: Transport, journal: Journal, owner: Owner) -> int:
    """Remove what earlier runs left in this transport's TPM; return how many objects.

    One TPM has many ways to it, spelled in many ways: what was made over another transport is
    looked for as well. Its entry stays where it may be in another TPM, or out of sight.

    Raises:
        LeftBehindError: something of ours could not be removed.
    """
    removed = 0
    leads_here = {transport.tcti}
    for entry in journal.entries():
        if entry.tcti == transport.tcti:
            removed += forget(transport, journal, entry, owner)
        elif found := _removed(transport, entry, owner):
            removed += found
            leads_here.add(entry.tcti)
            journal.remove(entry)
    for entry in journal.entries():
        if entry.tcti in leads_here and _in_sight(transport, entry):
            journal.remove(entry)  # it was looked for, and is gone
    return removed


def _in_sight(transport: Transport, entry: Entry) -> bool:
    """Tell whether a loaded object of an entry's would be seen: a resource manager hides it."""
    here, there = (tpmtls.resource_manager(way) for way in (transport.tcti, entry.tcti))
    # What was loaded over a resource manager has gone with its connection.
    return here == "none" or there in ("kernel", "tabrmd")


def _left_behind(transport: Transport, entry: Entry, error: Exception) -> str:
    where = "a loaded key" if entry.handle is None else f"what is at {entry.handle:#010x}"
    return (
        f"{where} could not be removed from the TPM at {transport.tcti} ({error}); when the TPM is "
        "back, run tpm-tls-bench evict with the same --state-dir"
    )
