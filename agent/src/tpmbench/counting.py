"""Signatures and TPM commands, counted where they happen and never inferred."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from tpmbench.outcome import UsageError
from tpmtls import commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric import ec

    from tpmtls import Signer, Transport
    from tpmtls.transport import Channel

SIGNING = ("TPM2_Sign", "TPM2_SignSequenceComplete")
"""Commands that give a signature each."""

_NAMES = {code: name for name, code in commands.CODES.items()}


class CountingSigner:
    """A signer that counts how often it is asked."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._lock = threading.Lock()
        self.count = 0

    @property
    def public_key(self) -> ec.EllipticCurvePublicKey:
        """The public half."""
        key: ec.EllipticCurvePublicKey = self._signer.public_key
        return key

    def sign(self, digest: bytes) -> bytes:
        """Count, and sign."""
        with self._lock:  # several clients may sign at once
            self.count += 1
        return self._signer.sign(digest)


class CountingChannel:
    """A channel that tells commands apart by the code in their header and counts them.

    Attributes:
        commands: how often each command went over it, by name.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.commands: Counter[str] = Counter()

    def send(self, command: bytes) -> None:
        """Count, and hand over."""
        code = int.from_bytes(command[6:10])
        self.commands[_NAMES.get(code, f"{code:#x}")] += 1
        self._channel.send(command)

    def receive(self, timeout: float) -> bytes:
        """Return the response."""
        return self._channel.receive(timeout)

    def close(self) -> None:
        """Let go of the channel."""
        self._channel.close()


@contextlib.contextmanager
def counted(transport: Transport) -> Iterator[CountingChannel]:
    """Count the commands on a transport for the time of the block."""
    plain = transport.channel
    counting = CountingChannel(plain)
    transport.channel = counting
    try:
        yield counting
    finally:
        transport.channel = plain


class CommandCounter:
    """A program that says how many commands the TPM has been given since it started.

    Behind a resource manager the TPM gets commands that are not on our transport. A software
    TPM writes them down, so that a program can count them.

    Args:
        line: the program and its arguments, as a shell would read them; it prints one number.
    """

    _SECONDS = 60  # for one answer
    _PAUSE = 0.1  # seconds between two answers that must agree
    _TRIES = 50

    def __init__(self, line: str) -> None:
        self._line = line

    def settled(self) -> int:
        """Ask it until it says the same twice in a row.

        A resource manager in user space may still put things away after our command was answered.

        Raises:
            UsageError: see :meth:`read`; or the number never rests, since others use the TPM.
        """
        before = self.read()
        for _ in range(self._TRIES):
            time.sleep(self._PAUSE)
            now = self.read()
            if now == before:
                return now
            before = now
        raise UsageError(
            f"the command counter {self._line!r} never rests; its counts mean something only "
            "while nobody else uses the TPM"
        )

    def read(self) -> int:
        """Ask it once.

        Raises:
            UsageError: it does not run, or prints something else.
        """
        try:
            done = subprocess.run(
                shlex.split(self._line),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self._SECONDS,
                check=True,
            )
            return int(done.stdout)
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            raise UsageError(
                f"the command counter {self._line!r} does not count ({error}); it must print "
                "one number, how many commands the TPM has been given"
            ) from error
