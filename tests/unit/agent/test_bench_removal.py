"""What is removed from a TPM: what the journal proves ours, and nothing else."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpm2_pytss import TPM2B_PUBLIC, TPMT_PUBLIC

from tpmbench.journal import Entry, Journal
from tpmbench.outcome import BenchError, LeftBehindError
from tpmbench.tpmkeys import RESERVED, Owner, free_handle, recover, remove
from tpmtls import Transport

if TYPE_CHECKING:
    from pathlib import Path

MARKS = [bytes([number]) * 32 for number in (1, 2, 3)]
NAMES = [b"\x00\x0b" + bytes([number]) * 32 for number in (1, 2, 3)]
TCTI = "device:fake"


@dataclass(frozen=True)
class Object:
    """An object: its policy digest, which is where our marks stand, and its Name."""

    policy: bytes
    name: bytes


@dataclass
class ManyObjects:
    """A channel to a TPM that lists, shows, flushes and evicts objects.

    Attributes:
        objects: by handle. None is a sequence object, which has no public area.
        refuses: the response code of the commands that remove.
        page: the most handles in an answer; a TPM may give fewer than it was asked for.
    """

    objects: dict[int, Object | None]
    refuses: int = 0
    page: int = 2
    _response: bytes = field(default=b"", init=False)

    def send(self, command: bytes) -> None:
        code, first = struct.unpack_from(">II", command, 6)
        if code == 0x17A:
            self._response = self._list(first, *struct.unpack_from(">II", command, 14))
        elif code == 0x173:
            self._response = self._read(first)
        elif code == 0x15C:  # TPM2_SequenceUpdate: no sequence here has our mark as its auth
            assert self.objects[first] is None
            self._response = _failure(0x9A2)
        elif code == 0x165:
            assert first < 0x81000000, "FlushContext is for transient objects"
            self._response = self._take(first)
        else:
            assert code == 0x120, f"unexpected command {code:#x}"
            (handle,) = struct.unpack_from(">I", command, 14)
            assert handle == struct.unpack_from(">I", command, len(command) - 4)[0]
            self._response = self._take(handle)

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002  # as every channel has it
        return self._response

    def close(self) -> None:
        pass

    def _list(self, capability: int, first: int, count: int) -> bytes:
        assert capability == 0x1
        range_ = [item for item in sorted(self.objects) if item >> 24 == first >> 24]
        wanted = [item for item in range_ if item >= first]
        page = wanted[: min(count, self.page)]
        return _success(
            struct.pack(f">BII{len(page)}I", len(wanted) > len(page), 1, len(page), *page)
        )

    def _read(self, handle: int) -> bytes:
        if handle not in self.objects:
            return _failure(0x18B)  # TPM_RC_HANDLE
        item = self.objects[handle]
        if item is None:
            return _failure(0x103)  # TPM_RC_SEQUENCE
        area = TPMT_PUBLIC.parse("ecc256:ecdsa-sha256", "sign", authPolicy=item.policy)
        names = 2 * (struct.pack(">H", len(item.name)) + item.name)
        return _success(TPM2B_PUBLIC(publicArea=area).marshal() + names)

    def _take(self, handle: int) -> bytes:
        if self.refuses:
            return _failure(self.refuses)
        del self.objects[handle]
        return _success(b"")


def _success(parameters: bytes) -> bytes:
    return struct.pack(">HII", 0x8001, 10 + len(parameters), 0) + parameters


def _failure(code: int) -> bytes:
    return struct.pack(">HII", 0x8001, 10, code)


an_object = st.builds(Object, st.sampled_from([b"", *MARKS]), st.sampled_from(NAMES))
keys_kept = st.dictionaries(st.integers(0x81000000, 0x81000005), an_object, max_size=6)
loaded = st.dictionaries(st.integers(0x80000000, 0x80000005), st.none() | an_object, max_size=6)

entries = st.builds(
    Entry,
    mark=st.sampled_from(MARKS).map(bytes.hex),
    tcti=st.just(TCTI),
    handle=st.none() | st.integers(0x81000000, 0x81000005),
    name=st.none() | st.sampled_from(NAMES).map(bytes.hex),
    boot_id=st.none(),
)


@given(persistent=keys_kept, transient=loaded, entry=entries)
def test_only_our_mark_and_our_name_at_our_handle_are_removed(
    persistent: dict[int, Object], transient: dict[int, Object | None], entry: Entry
) -> None:
    before: dict[int, Object | None] = {**persistent, **transient}
    channel = ManyObjects(dict(before))
    removed = remove(Transport(channel, TCTI), entry, Owner())
    ours = {
        handle
        for handle, item in before.items()
        if item is not None
        and (
            (handle < 0x81000000 and item.policy.hex() == entry.mark)
            or (handle == entry.handle and item.name.hex() == entry.name)
        )
    }
    assert set(before) - set(channel.objects) == ours
    assert removed == len(ours)
    assert all(channel.objects[handle] is before[handle] for handle in channel.objects)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def entry(number: int, tcti: str = TCTI) -> Entry:
    return Entry(MARKS[number].hex(), tcti, 0x81000000 + number, NAMES[number].hex(), None)


def ours(number: int) -> Object:
    return Object(MARKS[number], NAMES[number])


RAW, OTHER = "swtpm:port=1", "swtpm:port=2"


def test_another_tpms_entries_are_left_for_another_time(journal: Journal) -> None:
    journal.write(entry(0, RAW))
    journal.write(entry(1, OTHER))
    stranger = Object(MARKS[2], NAMES[2])
    channel = ManyObjects({0x81000000: ours(0), 0x81000001: stranger, 0x80000000: stranger})
    assert recover(Transport(channel, RAW), journal, Owner()) == 1
    assert set(channel.objects) == {0x81000001, 0x80000000}
    assert journal.entries() == [entry(1, OTHER)]


def test_what_was_made_over_another_way_to_this_tpm_is_removed(journal: Journal) -> None:
    transient = Entry(MARKS[2].hex(), OTHER, None, None, None)
    for item in (entry(0, OTHER), entry(1, "mssim:port=3"), transient):
        journal.write(item)
    channel = ManyObjects({0x81000000: ours(0), 0x80000000: ours(2)})
    assert recover(Transport(channel, RAW), journal, Owner()) == 2
    assert channel.objects == {}
    assert journal.entries() == [entry(1, "mssim:port=3")]


def test_what_is_gone_is_forgotten_where_its_way_proved_to_lead_here(journal: Journal) -> None:
    gone = Entry(MARKS[2].hex(), OTHER, None, None, None)
    journal.write(entry(0, OTHER))
    journal.write(gone)
    assert recover(Transport(ManyObjects({}), RAW), journal, Owner()) == 0
    assert len(journal.entries()) == 2
    assert recover(Transport(ManyObjects({0x81000000: ours(0)}), RAW), journal, Owner()) == 1
    assert journal.entries() == []


def test_what_a_resource_manager_hides_is_not_called_gone(journal: Journal) -> None:
    hidden = Entry(MARKS[2].hex(), RAW, None, None, None)
    managed = Entry(MARKS[1].hex(), "tabrmd:bus_type=session", None, None, None)
    for item in (entry(0, RAW), hidden, managed):
        journal.write(item)
    channel = ManyObjects({0x81000000: ours(0)})
    assert recover(Transport(channel, "tabrmd"), journal, Owner()) == 1
    assert {item.mark for item in journal.entries()} == {hidden.mark, managed.mark}


def test_what_is_found_over_another_way_and_not_let_go_is_said(journal: Journal) -> None:
    journal.write(entry(0, OTHER))
    channel = ManyObjects({0x81000000: ours(0)}, refuses=0x9A2)
    with pytest.raises(LeftBehindError, match=f"at {RAW}"):
        recover(Transport(channel, RAW), journal, Owner())
    assert journal.entries() == [entry(0, OTHER)]


def test_what_cannot_be_removed_stays_written_down(journal: Journal) -> None:
    journal.write(entry(0))
    channel = ManyObjects({0x81000000: ours(0)}, refuses=0x9A2)  # TPM_RC_BAD_AUTH
    with pytest.raises(LeftBehindError, match=r"0x81000000.*--owner-auth-file.*evict") as caught:
        recover(Transport(channel, TCTI), journal, Owner())
    assert caught.value.status == 4
    assert journal.entries() == [entry(0)]
    channel.refuses = 0
    assert recover(Transport(channel, TCTI), journal, Owner()) == 1
    assert journal.entries() == []


def test_a_key_that_was_never_made_is_simply_forgotten(journal: Journal) -> None:
    journal.write(Entry(MARKS[0].hex(), TCTI, 0x81000000, None, None))
    assert recover(Transport(ManyObjects({}), TCTI), journal, Owner()) == 0
    assert journal.entries() == []


@pytest.mark.parametrize(("first", "last", "whose"), RESERVED)
def test_reserved_handles_are_refused_to_their_ends(first: int, last: int, whose: str) -> None:
    transport = Transport(ManyObjects({}), TCTI)
    for handle in (first, last):
        with pytest.raises(BenchError, match=whose):
            free_handle(transport, handle)
    assert free_handle(transport, last + 1) == last + 1


def test_auto_takes_the_first_free_handle_up_to_the_last() -> None:
    every = {0x817FF000 + number: ours(0) for number in range(0x1000)}
    hole = 0x817FFABC
    channel = ManyObjects({handle: every[handle] for handle in every if handle != hole}, page=64)
    assert free_handle(Transport(channel, TCTI), None) == hole
    channel.objects[hole] = ours(0)
    with pytest.raises(BenchError, match="no handle is free"):
        free_handle(Transport(channel, TCTI), None)


class OneSession:
    """A channel to a TPM with one policy session, and what its policy digest is."""

    def __init__(self, number: int, digest: bytes) -> None:
        self._number, self._digest = number, digest
        self.flushed = False
        self._response = b""

    def send(self, command: bytes) -> None:
        code, first = struct.unpack_from(">II", command, 6)
        if code == 0x17A:
            here = struct.unpack_from(">I", command, 14)[0] >> 24 == 0x02 and not self.flushed
            page = [0x02000000 | self._number] if here else []
            listed = struct.pack(f">BII{len(page)}I", 0, first, len(page), *page)
            self._response = _success(listed)
        elif code == 0x189:
            self._response = _success(struct.pack(">H", len(self._digest)) + self._digest)
        else:
            assert code == 0x165, f"unexpected command {code:#x}"
            self.flushed = True
            self._response = _success(b"")

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002  # as every channel has it
        return self._response

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("over", "flushed"), [(RAW, True), (OTHER, False)])
def test_a_session_without_a_mark_is_ours_over_the_same_way_only(
    journal: Journal, over: str, flushed: bool
) -> None:
    journal.write(Entry(MARKS[0].hex(), RAW, 0x03000001, None, None))
    channel = OneSession(1, bytes(32))
    recover(Transport(channel, over), journal, Owner())
    assert channel.flushed is flushed
    assert (journal.entries() == []) is flushed
