"""The lock, the deadline, resubmission and what opening a transport can run into."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support.fake_tpm import FakeTpm

if TYPE_CHECKING:
    from collections.abc import Iterator

OK = struct.pack(">HII", 0x8001, 10, 0)


def code(number: int) -> bytes:
    return struct.pack(">HII", 0x8001, 10, number)


class Scripted:
    """A channel that answers with what it was given, after a pause."""

    def __init__(self, *answers: bytes | OSError, pause: float = 0.0) -> None:
        self.answers = list(answers)
        self.pause = pause
        self.sent: list[bytes] = []
        self.under_way = 0
        self.most_under_way = 0
        self.closed = 0

    def send(self, command: bytes) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.sent.append(command)

    def receive(self, timeout: float) -> bytes:
        time.sleep(min(self.pause, max(timeout, 0.0)))
        self.under_way -= 1
        if self.pause > timeout:
            raise TimeoutError
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


def test_one_command_at_a_time_and_the_queue_is_counted() -> None:
    channel = Scripted(pause=0.1)
    transport = tpmtls.Transport(channel, "scripted", 10.0)
    together = threading.Barrier(4)

    def work() -> None:
        together.wait(10)
        transport.exchange(b"x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert channel.most_under_way == 1
    assert len(channel.sent) == 4
    assert transport.waits == 3
    assert transport.waited >= 0.3  # 0.1 + 0.2 + 0.3, less what the threads were late
    transport.exchange(b"x")
    assert transport.waits == 3
    assert transport.last_wait == 0.0


def test_deadline_on_the_lock_says_how_long_and_what_was_waiting() -> None:
    channel = Scripted(pause=1.5)
    transport = tpmtls.Transport(channel, "device:/dev/tpmrm0", 10.0)
    holder = threading.Thread(target=transport.exchange, args=(b"x", "TPM2_CreatePrimary"))
    holder.start()
    time.sleep(0.05)
    transport.deadline = 0.1
    started = time.monotonic()
    with pytest.raises(TimeoutError) as raised:
        transport.exchange(b"y", "TPM2_Sign")
    assert 0.08 < time.monotonic() - started < 1.2
    assert str(raised.value) == (
        "TPM2_Sign waited 0.1 s for device:/dev/tpmrm0, which was busy with TPM2_CreatePrimary; "
        "use a longer deadline or fewer threads"
    )
    assert isinstance(raised.value, tpmtls.DeadlineExceeded)
    holder.join()


def test_deadline_on_the_tpm_and_the_late_answer_is_not_taken_for_another() -> None:
    channel = Scripted(b"late" + OK[4:], code(0x100), pause=0.2)
    transport = tpmtls.Transport(channel, "scripted", 0.05)
    with pytest.raises(tpmtls.DeadlineExceeded, match=r"did not answer TPM2_Sign within 0\.05 s"):
        transport.exchange(b"one", "TPM2_Sign")
    channel.pause = 0.0
    assert transport.exchange(b"two") == code(0x100)


@pytest.mark.parametrize("again", [0x922, 0x908, 0x90A], ids=["retry", "yielded", "testing"])
def test_tpm_that_wants_the_command_again_gets_it(again: int) -> None:
    channel = Scripted(code(again), code(again), OK)
    transport = tpmtls.Transport(channel, "scripted", 2.0)
    assert transport.exchange(b"command") == OK
    assert channel.sent == [b"command"] * 3
    assert transport.resubmissions == 2


def test_tpm_that_wants_it_again_without_end_meets_the_deadline() -> None:
    channel = Scripted(*[code(0x922)] * 1000)
    transport = tpmtls.Transport(channel, "scripted", 0.1)
    with pytest.raises(tpmtls.DeadlineExceeded, match=r"kept asking for TPM2_Sign .* for 0\.1 s"):
        transport.exchange(b"x", "TPM2_Sign")


def test_broken_channel_is_a_transport_error() -> None:
    transport = tpmtls.Transport(Scripted(OSError(errno.EIO, "Input/output error")), "scripted")
    with pytest.raises(tpmtls.TransportError, match="broke during TPM2_Sign: Input/output error"):
        transport.exchange(b"x", "TPM2_Sign")
    assert transport.exchange(b"y") == OK  # the lock was let go


def test_closed_transport_says_so_and_closes_once() -> None:
    channel = Scripted()
    with tpmtls.Transport(channel, "scripted") as transport:
        pass
    transport.close()
    assert channel.closed == 1
    with pytest.raises(tpmtls.TransportError, match="scripted is closed; open it again"):
        transport.exchange(b"x")


# Opening.


def test_missing_device_is_named() -> None:
    with pytest.raises(tpmtls.DeviceMissing, match="no TPM device /dev/tpm-absent; enable"):
        tpmtls.connect("device:/dev/tpm-absent")


def test_file_is_no_device(tmp_path: Path) -> None:
    file = tmp_path / "tpm0"
    file.write_bytes(b"")
    with pytest.raises(tpmtls.DeviceMissing, match="not a TPM device"):
        tpmtls.connect(f"device:{file}")


def test_busy_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> int:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "open", busy)
    with pytest.raises(tpmtls.DeviceBusy, match="use the kernel's resource manager /dev/tpmrm0"):
        tpmtls.connect("device:/dev/tpm0")


@pytest.mark.parametrize("tcti", ["", "swtpm:port=many", "swtpm:colour=red", "swtpm:nonsense"])
def test_strings_that_name_no_transport(tcti: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(tcti))):
        tpmtls.connect(tcti)


def test_nobody_listening_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(tpmtls.DeviceMissing, match=f"no software TPM answers at .*{port}"):
            tpmtls.connect(f"swtpm:host=127.0.0.1,port={port}")


def test_transport_unknown_to_the_tss_is_told() -> None:
    with pytest.raises(tpmtls.TransportError, match="libtss2-tcti-nothing"):
        tpmtls.connect("nothing:at=all")


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that any user may look into."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody for the time of the block."""
    if os.geteuid() != 0:
        pytest.skip("only root can become nobody")
    groups = os.getgroups()
    os.setgroups([])
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setgroups(groups)


@pytest.mark.parametrize(
    ("mode", "group", "remedy"),
    [
        (0o660, 12, r"run with sudo or add nobody to group man and log in again"),
        (0o600, 0, r"run with sudo$"),
    ],
)
def test_permission_message_names_user_owner_group_and_mode(
    public_directory: Path, mode: int, group: int, remedy: str
) -> None:
    device = public_directory / "tpmrm0"
    try:
        os.mknod(device, 0o020000 | mode, os.makedev(1, 3))
    except PermissionError:
        device.write_bytes(b"")  # no device nodes here: opening fails before the kind is seen
    device.chmod(mode)
    os.chown(device, 0, group)
    with unprivileged(), pytest.raises(tpmtls.DevicePermission) as raised:
        tpmtls.connect(f"device:{device}")
    assert re.search(
        rf"user nobody may not open {device} \(owner root, group \w+, mode {mode:04o}\); {remedy}",
        str(raised.value),
    )


@contextlib.contextmanager
def silent_tpm() -> Iterator[tuple[int, list[bytes]]]:
    """Listen, take commands, and answer with one byte at a time or not at all."""
    taken: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(4096):
                    taken.append(data)
                    if data == b"piecemeal!":
                        for byte in OK:
                            connection.sendall(bytes([byte]))
                            time.sleep(0.002)
                    if data == b"hang up!!!":
                        return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], taken
    finally:
        listener.close()
        thread.join(5)


def test_socket_answers_in_pieces_silence_and_hanging_up() -> None:
    with silent_tpm() as (port, _), tpmtls.connect(f"swtpm:port={port}", 0.2) as transport:
        assert transport.exchange(b"piecemeal!") == OK
        with pytest.raises(tpmtls.DeadlineExceeded):
            transport.exchange(b"silence")
    with (
        silent_tpm() as (port, _),
        tpmtls.connect(f"swtpm:port={port}", 0.5) as transport,
        pytest.raises(tpmtls.TransportError, match="the other side closed it"),
    ):
        transport.exchange(b"hang up!!!")


def test_forked_child_opens_the_transport_anew() -> None:
    """Two processes on one descriptor would read each other's answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)
    transport = tpmtls.connect(f"swtpm:port={listener.getsockname()[1]}", 2.0)
    parent_side, _ = listener.accept()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            status = 0 if transport.exchange(b"from the child") == OK else 2
        os._exit(status)
    child_side, _ = listener.accept()
    assert child_side.recv(100) == b"from the child"
    child_side.sendall(OK)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    parent_side.sendall(code(0x101))
    assert transport.exchange(b"from the parent") == code(0x101)
    assert parent_side.recv(100) == b"from the parent"
    for item in (transport, child_side, parent_side, listener):
        item.close()


def test_lock_held_by_another_thread_does_not_stay_locked_in_a_forked_child() -> None:
    transport = tpmtls.Transport(Scripted(pause=0.3), "absent:", 2.0)
    other = threading.Thread(target=transport.exchange, args=(b"x",))
    other.start()
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            transport.exchange(b"y")
        except tpmtls.DeadlineExceeded:
            status = 2
        except tpmtls.TransportError:  # the lock was free: it went on to open it anew
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    other.join()


def test_resource_manager_is_told_by_the_name() -> None:
    assert tpmtls.resource_manager("swtpm:port=2321") == "none"
    assert tpmtls.resource_manager("tabrmd:bus_type=system") == "tabrmd"
    assert tpmtls.resource_manager("pcap:swtpm:port=1") == "none"
    assert tpmtls.resource_manager("device:/dev/null") == "unknown"


def test_malformed_answers_are_errors_of_the_tpm() -> None:
    for answer, words in ((b"short", "shorter than its header"), (OK + b"more", "says 10 bytes")):
        transport = tpmtls.Transport(Scripted(answer), "scripted")
        with pytest.raises(tpmtls.TpmError, match=words):
            tpmtls.persistent_handles(transport)


def test_fake_is_a_channel_like_others() -> None:
    with tpmtls.Transport(FakeTpm(), "fake") as transport:
        assert tpmtls.persistent_handles(transport) == []
