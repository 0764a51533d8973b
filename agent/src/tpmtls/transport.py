"""One open descriptor or connection to a TPM, and the lock on it.

A command goes out and its response comes back through :meth:`Transport.exchange`.
Devices and swtpm sockets are spoken to directly, because the TSS's own TCTIs for
them block without end when a TPM falls silent; every other TCTI is the TSS's.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import select
import socket
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tpmtls import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_TCTI = "device:/dev/tpmrm0"
DEFAULT_DEADLINE = 10.0
"""Seconds to wait for the lock and for the TPM's answer, together."""

_HEADER = 10
_LARGEST_RESPONSE = 65536
# Format-zero warnings after which the TPM wants the same command again (part 2, 6.6.3).
AGAIN = frozenset({0x908, 0x90A, 0x922})  # YIELDED, TESTING, RETRY


class Channel(Protocol):
    """What carries bytes to one TPM and back."""

    def send(self, command: bytes) -> None:
        """Hand a whole command over."""

    def receive(self, timeout: float) -> bytes:
        """Return the whole response, or raise :class:`TimeoutError` after ``timeout`` seconds."""

    def close(self) -> None:
        """Let go of it."""


class Transport:
    """A channel to a TPM with a lock, a deadline and the TPM's wish to be asked again.

    Attributes:
        tcti: how it was opened, such as ``device:/dev/tpmrm0``.
        channel: what carries the bytes; :meth:`exchange` is the way to use it.
        deadline: seconds that :meth:`exchange` waits for lock and answer, together.
        resubmissions: commands sent again because the TPM asked for it, since opening.
    """

    def __init__(self, channel: Channel, tcti: str, deadline: float = DEFAULT_DEADLINE) -> None:
        self.channel = channel
        self._lock = threading.Lock()
        self._unread = False
        self._closed = False
        self._holder = ""
        self.tcti = tcti
        self.deadline = deadline
        self.resubmissions = 0

    def exchange(self, command: bytes, what: str = "a command") -> bytes:
        """Send one command and return its response, whatever its response code.

        Args:
            command: the marshalled command.
            what: its name, for messages.

        Raises:
            DeadlineExceeded: lock or answer did not come within the deadline.
            TransportError: the transport is closed or broke.
        """
        started = time.monotonic()
        if not self._lock.acquire(timeout=self.deadline):
            raise errors.DeadlineExceeded(
                f"{what} waited {self.deadline:g} s for {self.tcti}, which was busy with "
                f"{self._holder or 'another command'}; use a longer deadline or fewer threads"
            )
        try:
            self._holder = what
            return self._exchange_locked(command, what, started + self.deadline)
        finally:
            self._holder = ""
            self._lock.release()

    def _exchange_locked(self, command: bytes, what: str, until: float) -> bytes:
        if self._closed:
            raise errors.TransportError(f"{self.tcti} is closed; open it again")
        pause = 0.001
        while True:
            response = self._once(command, what, until)
            if int.from_bytes(response[6:_HEADER]) not in AGAIN:
                return response
            if time.monotonic() + pause >= until:
                raise errors.DeadlineExceeded(
                    f"the TPM at {self.tcti} kept asking for {what} to be sent again for "
                    f"{self.deadline:g} s; it may still be testing itself, try again later"
                )
            self.resubmissions += 1
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    def _once(self, command: bytes, what: str, until: float) -> bytes:
        try:
            if self._unread:  # an answer that an exception left behind
                self.channel.receive(until - time.monotonic())
                self._unread = False
            self.channel.send(command)
            self._unread = True
            response = self.channel.receive(until - time.monotonic())
            self._unread = False
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"the TPM at {self.tcti} did not answer {what} within {self.deadline:g} s; "
                "check that it runs and that no other program holds it"
            ) from None
        except OSError as error:
            raise errors.TransportError(
                f"{self.tcti} broke during {what}: {error.strerror or error}; "
                "check that the TPM still runs"
            ) from error
        return response

    def close(self) -> None:
        """Let go of the TPM; nothing in it is changed. May be called again."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.channel.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(tcti: str = DEFAULT_TCTI, deadline: float = DEFAULT_DEADLINE) -> Transport:
    """Open a transport.

    Args:
        tcti: ``device:/dev/tpmrm0``, ``swtpm:host=127.0.0.1,port=2321``,
            ``swtpm:path=/run/swtpm.sock``, or any name and configuration that the TSS's
            TCTI loader knows, such as ``tabrmd:bus_type=system``.
        deadline: seconds to wait for an answer.

    Raises:
        DeviceMissing, DevicePermission, DeviceBusy, TransportError: it could not be opened.
        ValueError: the string names no transport.
    """
    kind, _, where = tcti.partition(":")
    if not kind:
        raise ValueError(f"{tcti!r} names no transport; say for instance {DEFAULT_TCTI}")
    if kind == "device":
        return Transport(_Device(where or "/dev/tpmrm0"), tcti, deadline)
    if kind == "swtpm":
        return Transport(_open_swtpm(tcti, where, deadline), tcti, deadline)
    return Transport(_open_with_tss(kind, where, tcti), tcti, deadline)


def resource_manager(tcti: str) -> str:
    """Tell what swaps objects in and out of the TPM on a transport.

    Returns:
        ``kernel``, ``tabrmd``, ``none`` or ``unknown``.
    """
    kind, _, where = tcti.partition(":")
    if kind == "pcap":
        return resource_manager(where)
    if kind == "device":
        with contextlib.suppress(OSError):
            number = Path(where or "/dev/tpmrm0").stat().st_rdev
            link = Path(f"/sys/dev/char/{os.major(number)}:{os.minor(number)}/subsystem")
            return {"tpmrm": "kernel", "tpm": "none"}.get(link.resolve(strict=True).name, "unknown")
        return "unknown"
    return {"tabrmd": "tabrmd", "swtpm": "none", "mssim": "none", "libtpms": "none"}.get(
        kind, "unknown"
    )


class _Descriptor:
    """Commands and responses over a non-blocking descriptor."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._readable = select.poll()
        self._readable.register(descriptor, select.POLLIN)

    def send(self, command: bytes) -> None:
        # A device takes a command in one write or not at all; a socket's buffer is
        # far larger than any command and empty between commands.
        if os.write(self._descriptor, command) != len(command):
            raise OSError(errno.EIO, "the command was taken only in part")

    def receive(self, timeout: float) -> bytes:
        until = time.monotonic() + timeout
        response = self._read(timeout)
        # A socket may deliver a response in pieces; a device never does.
        while len(response) < _HEADER or len(response) < int.from_bytes(response[2:6]):
            response += self._read(until - time.monotonic())
        return response

    def _read(self, timeout: float) -> bytes:
        if not self._readable.poll(max(0.0, timeout) * 1000):
            raise TimeoutError
        piece = os.read(self._descriptor, _LARGEST_RESPONSE)
        if not piece:
            raise OSError(errno.EPIPE, "the other side closed it")
        return piece

    def close(self) -> None:
        os.close(self._descriptor)


class _Device(_Descriptor):
    def __init__(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise _device_error(path, error) from error
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise errors.DeviceMissing(f"{path} is not a TPM device; give a character device")
        super().__init__(descriptor)


def _device_error(path: str, error: OSError) -> errors.TransportError:
    if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOTDIR):
        return errors.DeviceMissing(
            f"there is no TPM device {path}; enable the machine's TPM or vTPM, or name "
            "another transport with --tcti"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return errors.DevicePermission(_permission_text(path))
    if error.errno == errno.EBUSY:
        return errors.DeviceBusy(
            f"{path} is held by another program; use the kernel's resource manager "
            "/dev/tpmrm0, which many can share"
        )
    return errors.TransportError(f"{path} cannot be opened: {error.strerror}")


def _permission_text(path: str) -> str:
    user = _name_of(os.geteuid(), lambda number: pwd.getpwuid(number).pw_name)
    try:
        status = Path(path).stat()
    except OSError:
        return f"user {user} may not open {path}; run as root or ask for access to it"
    owner = _name_of(status.st_uid, lambda number: pwd.getpwuid(number).pw_name)
    group = _name_of(status.st_gid, lambda number: grp.getgrgid(number).gr_name)
    remedy = "run with sudo"
    if status.st_mode & stat.S_IWGRP and status.st_gid:
        remedy += f" or add {user} to group {group} and log in again"
    return (
        f"user {user} may not open {path} (owner {owner}, group {group}, "
        f"mode {stat.S_IMODE(status.st_mode):04o}); {remedy}"
    )


def _name_of(number: int, look_up: object) -> str:
    try:
        return str(look_up(number))  # type: ignore[operator]
    except KeyError:
        return str(number)


def _open_swtpm(tcti: str, where: str, deadline: float) -> Channel:
    options = dict(_options(tcti, where))
    unknown = sorted(set(options) - {"host", "port", "path"})
    if unknown:
        raise ValueError(f"{tcti!r} has an unknown option {unknown[0]!r}; say host, port or path")
    try:
        if "path" in options:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(deadline)
            connection.connect(options["path"])
        else:
            address = (options.get("host", "127.0.0.1"), int(options.get("port", "2321")))
            connection = socket.create_connection(address, timeout=deadline)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except ValueError:
        raise ValueError(f"{tcti!r} has no number as its port") from None
    except PermissionError as error:
        raise errors.DevicePermission(_permission_text(options.get("path", where))) from error
    except OSError as error:
        raise errors.DeviceMissing(
            f"no software TPM answers at {tcti}: {error.strerror or error}; start swtpm there, "
            "or name another transport with --tcti"
        ) from error
    return _Descriptor(connection.detach())


def _options(tcti: str, where: str) -> Iterator[tuple[str, str]]:
    for item in filter(None, where.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{tcti!r} has {item!r} where name=value should stand")
        yield name, value


class _Tss:
    """Any TCTI of the TSS. Its receive waits as long as that TCTI does."""

    def __init__(self, tcti: object) -> None:
        self._tcti = tcti

    def send(self, command: bytes) -> None:
        self._tcti.transmit(command)  # type: ignore[attr-defined]

    def receive(self, timeout: float) -> bytes:
        poll = select.poll()
        try:
            handles = self._tcti.get_poll_handles()  # type: ignore[attr-defined]
        except Exception:  # not every TCTI has a descriptor to wait on
            handles = ()
        for handle in handles:
            poll.register(handle.fd, select.POLLIN)
        if handles and not poll.poll(max(0.0, timeout) * 1000):
            raise TimeoutError
        return bytes(self._tcti.receive())  # type: ignore[attr-defined]

    def close(self) -> None:
        self._tcti.close()  # type: ignore[attr-defined]


def _open_with_tss(kind: str, where: str, tcti: str) -> Channel:
    from tpm2_pytss import TCTILdr, TSS2_Exception  # noqa: PLC0415  # only where it is used

    try:
        return _Tss(TCTILdr(kind, where or None))
    except TSS2_Exception as error:
        raise errors.TransportError(
            f"the TSS cannot open {tcti}: {error}; check the name and that its library "
            f"(libtss2-tcti-{kind}) is installed"
        ) from error
