"""The scenario ``handshake-server-key``: the listener's view, its key in the TPM."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec

from tpmbench import pki, wire
from tpmbench.child import Child, running
from tpmbench.holding import Held, each_way
from tpmbench.measuring import Counts, measure
from tpmbench.sampling import OneByOne

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpmbench.context import Bench


class ListeningArm(OneByOne):
    """Accepts one mutual TLS connection after the other, with a server key held in one way.

    Args:
        held: the key, in a server context.
        listener: a listening socket on loopback.
        dialler: the client process.
    """

    def __init__(self, held: Held, listener: socket.socket, dialler: Child) -> None:
        self.name = held.name
        self.transport = held.transport
        self.ready = contextlib.nullcontext
        self._held = held
        self._listener = listener
        self._dialler = dialler
        self._certificate = hashlib.sha256(held.encoded_certificate).hexdigest()
        self._proved = 0
        self._resumed = 0
        self._faults: list[str] = []

    def begin(self) -> None:
        """Set the counters to zero."""
        self._proved = self._resumed = 0
        self._faults.clear()
        self._held.reset()

    def sample(self) -> int:
        """Serve one connection; return the nanoseconds from its acceptance to the response sent."""
        self._dialler.tell(str(self._listener.getsockname()[1]))
        connection, _ = self._listener.accept()
        connection.settimeout(self._listener.gettimeout())
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter_ns()
        with self._held.context.wrap_socket(connection, server_side=True) as tls:
            wire.answer(tls)
            duration = time.perf_counter_ns() - started
            self._resumed += bool(tls.session_reused)
        heard = self._dialler.hear()
        if heard == self._certificate:
            self._proved += 1
        else:
            self._faults.append(heard)
        return duration

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self._held.resubmissions()

    def counts(self) -> Counts:
        """Return what the signer, and the client at the other end, counted."""
        fault = f"the client's word: {self._faults[0]}" if self._faults else None
        if self._resumed:
            fault = f"{self._resumed} connections were resumed, unasked"
        return Counts(self._held.signatures(), self._proved, self._resumed, fault=fault)


def handshake_server_key(bench: Bench) -> dict[str, Any]:
    """Measure new connections as the listener sees them, its key held in three ways."""
    with _arms(bench) as arms:
        return measure(
            "handshake-server-key",
            bench.curve.name,
            "connection",
            arms,
            bench.settings.connections,
            bench.settings,
            bench.order,
            bench.watch,
        )


@contextlib.contextmanager
def _arms(bench: Bench) -> Iterator[list[ListeningArm]]:
    authority = pki.Authority()
    trusted = pki.pem(authority.certificate).decode()
    client_key = ec.generate_private_key(ec.SECP256R1())
    bundle = bench.directory / "dialler.pem"
    bundle.write_bytes(
        pki.private_pem(client_key) + pki.pem(authority.issue("client", client_key.public_key()))
    )
    # The client must outlast a handshake that waits for the TPM until the deadline.
    timeout = 2 * bench.settings.deadline
    settings = {"authority": trusted, "certificate": str(bundle), "timeout": timeout}
    with (
        running("tpmbench.dialler", "TLS client", settings, bench.memory) as dialler,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        listener.settimeout(timeout)
        held = each_way(bench, authority, wire.server_context)
        yield [ListeningArm(one, listener, dialler) for one in held]
