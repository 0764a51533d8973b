"""What carries bytes to a TPM and back: devices, swtpm's sockets, and the TSS's TCTIs.

Devices and swtpm sockets are spoken to directly, because the TSS's own TCTIs for
them block without end when a TPM falls silent; every other TCTI is the TSS's.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import select
import socket
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tpmtls import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_TCTI = "device:/dev/tpmrm0"

_HEADER = 10
_LARGEST_RESPONSE = 65536


class Channel(Protocol):
    """What carries bytes to one TPM and back."""

    def send(self, command: bytes) -> None:
        """Hand a whole command over."""

    def receive(self, timeout: float) -> bytes:
        """Return the whole response, or raise :class:`TimeoutError` after ``timeout`` seconds."""

    def close(self) -> None:
        """Let go of it."""


def open_channel(tcti: str, deadline: float) -> Channel:
    """Open a channel.

    Args:
        tcti: see :func:`tpmtls.connect`.
        deadline: seconds that opening may take.

    Raises:
        DeviceMissing, DevicePermission, DeviceBusy, TransportError: it could not be opened.
        ValueError: the string names no transport.
    """
    kind, _, where = tcti.partition(":")
    if not kind:
        raise ValueError(f"{tcti!r} names no transport; say for instance {DEFAULT_TCTI}")
    if kind == "device":
        return _Device(where or "/dev/tpmrm0")
    if kind == "swtpm":
        return _open_swtpm(tcti, where, deadline)
    return _open_with_tss(kind, where, tcti)


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
    """Any TCTI of the TSS. Its receive waits as long as that TCTI does.

    What the TSS raises where the other side is gone is raised as :class:`OSError`, as it is
    for every other channel.
    """

    def __init__(self, tcti: object) -> None:
        from tpm2_pytss import TSS2_Exception  # noqa: PLC0415  # only where it is used

        self._tcti = tcti
        self._broken = TSS2_Exception

    def send(self, command: bytes) -> None:
        try:
            self._tcti.transmit(command)  # type: ignore[attr-defined]
        except self._broken as error:
            raise OSError(errno.EIO, str(error)) from error

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
        try:
            return bytes(self._tcti.receive())  # type: ignore[attr-defined]
        except self._broken as error:
            raise OSError(errno.EIO, str(error)) from error

    def close(self) -> None:
        self._tcti.close()  # type: ignore[attr-defined]


class Shared(_Tss):
    """A TCTI that the caller opened and goes on using; closing leaves it open."""

    def close(self) -> None:
        """Leave it to its owner."""


_inherited: list[Channel] = []


def abandon(channel: Channel) -> None:
    """Let go of a channel that a fork brought along, without a word to the other side."""
    if isinstance(channel, _Descriptor):
        channel.close()  # this process's copy of the descriptor only
    else:
        _inherited.append(channel)  # closing it could say goodbye in the parent's name


def _open_with_tss(kind: str, where: str, tcti: str) -> Channel:
    from tpm2_pytss import TCTILdr, TSS2_Exception  # noqa: PLC0415  # only where it is used

    try:
        return _Tss(TCTILdr(kind, where or None))
    except TSS2_Exception as error:
        raise errors.TransportError(
            f"the TSS cannot open {tcti}: {error}; check the name and that its library "
            f"(libtss2-tcti-{kind}) is installed"
        ) from error
