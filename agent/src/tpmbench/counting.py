"""Signatures and TPM commands, counted where they happen and never inferred."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import TYPE_CHECKING

from tpmtls import commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric import ec

    from tpmtls import Signer, Transport
    from tpmtls.transport import Channel

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
