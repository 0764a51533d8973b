"""The scenarios over TLS: ``handshake-new``, ``handshake-resumed``, ``connection-reused``."""

from __future__ import annotations

import contextlib
import hashlib
import time
from typing import TYPE_CHECKING, Any

from tpmbench import wire
from tpmbench.client import Peer, exchange, serving
from tpmbench.holding import Held, each_way
from tpmbench.measuring import Counts, measure
from tpmbench.sampling import OneByOne

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from tpmbench.context import Bench


class Tallies:
    """What the server has counted, asked for once and shared out to the arms."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._counts: dict[str, dict[str, int]] = {}

    def reset(self, certificate: str) -> None:
        """Forget what one certificate did so far."""
        self._fetch()
        self._counts.pop(certificate, None)

    def of(self, certificate: str) -> dict[str, int]:
        """Return what one certificate did since the reset."""
        self._fetch()
        return self._counts.get(certificate, {})

    def failures(self) -> int:
        """Return how many handshakes failed, whoever's they were."""
        return self._counts.get("", {}).get("failed", 0)

    def _fetch(self) -> None:
        for certificate, tally in self._peer.tallies().items():
            known = self._counts.setdefault(certificate, {})
            for what, count in tally.items():
                known[what] = known.get(what, 0) + count


class ConnectionArm(OneByOne):
    """Connects with a client certificate, in one of three ways.

    Args:
        held: the key, in a client context.
        peer: the server.
        tallies: the server's counts.
    """

    def __init__(self, held: Held, peer: Peer, tallies: Tallies) -> None:
        self.name = held.name
        self.transport = held.transport
        self.ready = contextlib.nullcontext
        self._held = held
        self._peer = peer
        self._tallies = tallies
        self._certificate = hashlib.sha256(held.encoded_certificate).hexdigest()

    def begin(self) -> None:
        """Set the counters to zero."""
        self._tallies.reset(self._certificate)
        self._held.reset()

    def sample(self) -> int:
        """Make a connection without a session and return how long it took, in nanoseconds."""
        connection, duration = self._peer.connect(self._held.context, None)
        connection.close()
        return duration

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self._held.resubmissions()

    def counts(self) -> Counts:
        """Return what signer and server counted."""
        tally = self._tallies.of(self._certificate)
        failures = self._tallies.failures()
        resumed = tally.get("resumed", 0)
        return Counts(
            self._held.signatures(),
            tally.get("full", 0),
            resumed,
            fault=f"the server saw {failures} failed handshakes"
            if failures
            else self._doubt(resumed),
        )

    def _doubt(self, resumed: int) -> str | None:
        return f"{resumed} connections were resumed, unasked" if resumed else None


class ResumingArm(ConnectionArm):
    """Resumes the session of the connection before."""

    _session: ssl.SSLSession | None = None
    _made = 0

    def begin(self) -> None:
        """Start without a session."""
        super().begin()
        self._session = None
        self._made = 0

    def sample(self) -> int:
        """Make a connection that resumes, and return how long it took, in nanoseconds."""
        connection, duration = self._peer.connect(self._held.context, self._session)
        self._session = connection.session
        self._made += 1
        connection.close()
        return duration

    def _doubt(self, resumed: int) -> str | None:
        due = max(0, self._made - 1)  # the first one has nothing to resume
        return None if resumed == due else f"{resumed} of {due} connections were resumed"


class ReusingArm(ConnectionArm):
    """Sends every request over one connection."""

    _connection: ssl.SSLSocket | None = None
    _setup: tuple[int, ...] = ()

    def begin(self) -> None:
        """Open a fresh connection."""
        self._close()
        super().begin()
        self._open()

    def sample(self) -> int:
        """Send a request over the open connection and return the nanoseconds to its answer."""
        connection = self._connection or self._open()
        started = time.perf_counter_ns()
        exchange(connection)
        return time.perf_counter_ns() - started

    def counts(self) -> Counts:
        """Close the connection and return the counts."""
        self._close()
        counts = super().counts()
        return Counts(counts.signer, counts.peer, counts.resumed, self._setup, counts.fault)

    def _open(self) -> ssl.SSLSocket:
        self._connection, duration = self._peer.connect(self._held.context, None)
        self._setup = (duration,)
        return self._connection

    def _close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None


def _scenario(name: str, unit: str, kind: type[ConnectionArm]) -> Callable[[Bench], dict[str, Any]]:
    def run(bench: Bench) -> dict[str, Any]:
        with serving(bench.directory, bench.settings.deadline, bench.memory) as peer:
            tallies = Tallies(peer)
            held = each_way(bench, peer.authority, wire.client_context)
            return measure(
                name,
                bench.curve.name,
                unit,
                [kind(one, peer, tallies) for one in held],
                bench.settings.connections,
                bench.settings,
                bench.order,
                bench.watch,
            )

    return run


handshake_new = _scenario("handshake-new", "connection", ConnectionArm)
handshake_resumed = _scenario("handshake-resumed", "connection", ResumingArm)
connection_reused = _scenario("connection-reused", "request", ReusingArm)
