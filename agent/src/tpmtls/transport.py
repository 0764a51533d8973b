"""One open descriptor or connection to a TPM, and the lock on it.

A command goes out and its response comes back through :meth:`Transport.exchange`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from pathlib import Path

from tpmtls import errors
from tpmtls.channels import DEFAULT_TCTI, Channel, Shared, abandon, open_channel

__all__ = [
    "AGAIN", "DEFAULT_DEADLINE", "DEFAULT_TCTI", "Channel", "Transport", "connect",
    "resource_manager", "share",
]  # fmt: skip

DEFAULT_DEADLINE = 10.0
"""Seconds to wait for the lock and for the TPM's answer, together."""

# Format-zero warnings after which the TPM wants the same command again (part 2, 6.6.3).
AGAIN = frozenset({0x908, 0x90A, 0x922})  # YIELDED, TESTING, RETRY


class Transport:
    """A channel to a TPM with a lock, a deadline and the TPM's wish to be asked again.

    Attributes:
        tcti: how it was opened, such as ``device:/dev/tpmrm0``.
        channel: what carries the bytes; :meth:`exchange` is the way to use it.
        deadline: seconds that :meth:`exchange` waits for lock and answer, together.
        resubmissions: commands sent again because the TPM asked for it, since opening.
        waits: commands that found the transport busy and queued for it, since opening.
        waited: seconds that they queued, together.
        last_wait: seconds that the command sent last had queued.
    """

    def __init__(self, channel: Channel, tcti: str, deadline: float = DEFAULT_DEADLINE) -> None:
        self.channel = channel
        self._lock = threading.Lock()
        self._unread = False
        self._closed = False
        self._foreign = False
        self._holder = ""
        self.tcti = tcti
        self.deadline = deadline
        self.resubmissions = 0
        self.waits = 0
        self.waited = 0.0
        self.last_wait = 0.0
        _open_transports.add(self)

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
        if not self._lock.acquire(blocking=False):
            if not self._lock.acquire(timeout=self.deadline):
                raise errors.DeadlineExceeded(
                    f"{what} waited {self.deadline:g} s for {self.tcti}, which was busy with "
                    f"{self._holder or 'another command'}; use a longer deadline or fewer threads"
                )
            self.last_wait = time.monotonic() - started
            self.waited += self.last_wait
            self.waits += 1
        else:
            self.last_wait = 0.0
        try:
            self._holder = what
            return self._exchange_locked(command, what, started + self.deadline)
        finally:
            self._holder = ""
            self._lock.release()

    def _exchange_locked(self, command: bytes, what: str, until: float) -> bytes:
        if self._closed:
            raise errors.TransportError(f"{self.tcti} is closed; open it again")
        if self._foreign:
            self._reopen()
        pause = 0.001
        while True:
            response = self._once(command, what, until)
            if int.from_bytes(response[6:10]) not in AGAIN:
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
        except OSError as error:
            raise self.failure(error, what) from error
        return response

    def failure(self, error: OSError, what: str) -> errors.TransportError:
        """Return what to raise where the channel raised, also for whoever used it directly.

        After a deadline the answer may still come; it is read before the next command goes out.

        Args:
            error: what the channel raised.
            what: the command's name, for messages.
        """
        if isinstance(error, TimeoutError):
            self._unread = True
            return errors.DeadlineExceeded(
                f"the TPM at {self.tcti} did not answer {what} within {self.deadline:g} s; "
                "check that it runs and that no other program holds it"
            )
        return errors.TransportError(
            f"{self.tcti} broke during {what}: {error.strerror or error}; "
            "check that the TPM still runs"
        )

    def _reopen(self) -> None:
        """Open it anew: the descriptor that a fork brought along is its parent's."""
        if isinstance(self.channel, Shared):
            raise errors.TransportError(
                "the TPM connection was opened before a fork and belongs to the parent process; "
                "open one in this process"
            )
        inherited = self.channel
        self.channel = open_channel(self.tcti, self.deadline)
        self._foreign = False
        abandon(inherited)

    def after_fork(self) -> None:
        """Note, in a forked child, that the channel is shared with the parent.

        Answers would go to whichever of the two reads first, so the next command
        opens the transport anew. A transient object of the parent is not there on it.
        """
        self._lock = threading.Lock()  # a thread of the parent's may have held it
        self._foreign = True
        self._unread = False

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


_open_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for transport in list(_open_transports):
        transport.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


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
    return Transport(open_channel(tcti, deadline), tcti, deadline)


def share(tcti: object, deadline: float = DEFAULT_DEADLINE) -> Transport:
    """Make a transport of a TPM connection that the caller has open already.

    Closing the transport leaves the connection open. Nothing else may use the connection
    while a command is under way.

    Args:
        tcti: a ``tpm2_pytss.TCTI``, such as ``TCTILdr("device")`` or an ESAPI's ``tcti``.
        deadline: seconds to wait for an answer.
    """
    return Transport(Shared(tcti), "the caller's connection", deadline)


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
