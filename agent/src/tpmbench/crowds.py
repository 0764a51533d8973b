"""The scenario ``handshake-concurrent``: many clients at once, one TPM."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any

from tpmbench import wire
from tpmbench.client import Peer, serving
from tpmbench.handshakes import ConnectionArm, Tallies
from tpmbench.holding import Held, each_way
from tpmbench.measuring import Counts, Crowd, measure
from tpmbench.sampling import Series

if TYPE_CHECKING:
    from tpmbench.context import Bench
    from tpmbench.stopping import Stop

CLIENTS = (1, 2, 4, 8, 16)
# A turn must be long against its ragged end, where clients run out of work one by one.
_TURN = 2 * max(CLIENTS)


class CrowdArm(ConnectionArm):
    """New connections by several clients at once, in threads that share the key.

    Args:
        held: the key, in a client context.
        clients: how many.
        peer: the server.
        tallies: the server's counts.
    """

    def __init__(self, held: Held, clients: int, peer: Peer, tallies: Tallies) -> None:
        super().__init__(held, peer, tallies)
        self.name = f"{held.name}-{clients}"
        self._clients = clients
        self._elapsed_ns = 0
        self._waited_ns = 0

    def begin(self) -> None:
        """Set the counters to zero."""
        super().begin()
        self._elapsed_ns = self._waited_ns = 0

    def block(self, count: int, stop: Stop) -> Series:
        """Share ``count`` connections out to the clients, which start together.

        Returns:
            The samples, in the order in which they ended.

        Raises:
            InterruptedRunError: a signal asked for the end.
            OSError: a connection failed.
        """
        tickets = iter(range(count))
        taken = Series()
        failures: list[BaseException] = []
        started: list[int] = []
        together = threading.Barrier(
            self._clients, action=lambda: started.append(time.perf_counter_ns())
        )

        def work() -> None:
            together.wait()
            try:
                for _ in tickets:  # each goes to one thread
                    if failures:
                        return
                    stop.check()
                    taken.samples_ns.append(self.sample())
            except BaseException as error:  # raised in the main thread below
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(self._clients)]
        waited = self.transport.waited if self.transport else 0.0
        again = self.resubmissions()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._elapsed_ns += time.perf_counter_ns() - started[0]
        if failures:
            raise failures[0]
        if self.transport:
            self._waited_ns += round((self.transport.waited - waited) * 1e9)
        if self.resubmissions() != again:  # whose it was cannot be told apart
            taken.resubmitted = list(range(count))
        return taken

    def counts(self) -> Counts:
        """Return the counts, and how long the crowd took."""
        waited = self._waited_ns if self.transport else None
        crowd = Crowd(self._clients, self._elapsed_ns, waited)
        return dataclasses.replace(super().counts(), crowd=crowd)


def handshake_concurrent(bench: Bench) -> dict[str, Any]:
    """Measure new connections by 1, 2, 4, 8 and 16 clients at once."""
    settings = dataclasses.replace(bench.settings, block=max(_TURN, bench.settings.block))
    turns = -(-settings.connections // settings.block)  # whole turns only
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(serving(bench.directory, bench.settings.deadline, bench.memory))
        tallies = Tallies(peer)
        arms = [
            CrowdArm(held, clients, peer, tallies)
            for clients in CLIENTS
            # a certificate for each arm, since the server counts by certificate
            for held in each_way(bench, peer.authority, wire.client_context)
            if held.name != "software-native"
        ]
        return measure(
            "handshake-concurrent",
            bench.curve.name,
            "connection",
            arms,
            turns * settings.block,
            settings,
            bench.order,
            bench.watch,
        )
