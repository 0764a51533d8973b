"""Every scenario: its name, its question, and what measures it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpmbench import crowds, handshakes, listening, signing
from tpmbench.device.table import OPERATIONS
from tpmbench.messages import suite as messages
from tpmbench.outcome import UsageError
from tpmbench.pqc.operations import OPERATIONS as POST_QUANTUM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpmbench.context import Bench
    from tpmbench.device.operation import Operation


@dataclass(frozen=True)
class Scenario:
    """One question.

    Attributes:
        name: its name in the result document.
        suite: the suite it belongs to.
        unit: what one sample is the duration of.
        question: a line for ``tpm-tls-bench list``.
        measure: answers it for one curve's key, as an entry of the result document.
        operation: what answers it without a key, instead.
        asked_of_tpm: it is about the TPM and the way to it, and nothing else.
    """

    name: str
    suite: str
    unit: str
    question: str
    measure: Callable[[Bench], dict[str, Any]] | None = None
    operation: Operation | None = None
    asked_of_tpm: bool = False

    @property
    def side_by_side(self) -> bool:
        """Whether it is measured over every transport, where several are given."""
        return self.asked_of_tpm or self.suite in ("device", "messages")


SCENARIOS = (
    Scenario(
        "raw-signing",
        "tls",
        "signature",
        "one signature, without TLS: persistent and transient TPM key, software key, the floor",
        signing.raw_signing,
        asked_of_tpm=True,
    ),
    Scenario(
        "loaded-transport",
        "tls",
        "signature",
        "a persistent key while an unrelated transient object is loaded, on which transport",
        signing.loaded_transport,
    ),
    Scenario(
        "handshake-new",
        "tls",
        "connection",
        "a new mutual TLS connection per request, without resumption",
        handshakes.handshake_new,
    ),
    Scenario(
        "handshake-resumed",
        "tls",
        "connection",
        "a connection per request, each resuming the session before it",
        handshakes.handshake_resumed,
    ),
    Scenario(
        "connection-reused",
        "tls",
        "request",
        "one connection for all requests",
        handshakes.connection_reused,
    ),
    Scenario(
        "handshake-server-key",
        "tls",
        "connection",
        "a new connection as the listener sees it, with the server's key in the TPM",
        listening.handshake_server_key,
    ),
    Scenario(
        "handshake-concurrent",
        "tls",
        "connection",
        "new connections by 1, 2, 4, 8 and 16 clients at once, which queue for the TPM",
        crowds.handshake_concurrent,
    ),
    Scenario(
        messages.SIGN,
        "messages",
        "operation",
        "signing messages of 17, 93 and 1024 bytes, TPM and software, hashing inside and apart",
        messages.signing,
    ),
    Scenario(
        messages.VERIFY,
        "messages",
        "operation",
        "verifying them, in the TPM and in software",
        messages.verifying,
    ),
    Scenario(
        messages.SINGLE_SHOT,
        "messages",
        "operation",
        "a signature by a key that is made for it: create, load, sign, flush",
        messages.single_shot,
    ),
    *(
        Scenario(item.name, "device", "operation", item.question, operation=item)
        for item in (*OPERATIONS, *POST_QUANTUM)
    ),
)

SUITES = tuple(dict.fromkeys(scenario.suite for scenario in SCENARIOS))


def chosen(suites: Sequence[str], names: Sequence[str]) -> list[Scenario]:
    """Return the scenarios that are asked for, in the table's order.

    Args:
        suites: whole suites; where names are given too, those that the names are of.
        names: of scenarios; none for all of the suites.

    Raises:
        UsageError: there is no such scenario, or it is in none of the suites.
    """
    by_name = {item.name: item for item in SCENARIOS}
    for name in names:
        if name not in by_name:
            like = difflib.get_close_matches(name, by_name, 1)
            hint = f"did you mean {like[0]}? " if like else ""
            raise UsageError(
                f"there is no scenario {name!r}; {hint}tpm-tls-bench list names all of them"
            )
        suite = by_name[name].suite
        if suites and suite not in suites:
            raise UsageError(
                f"the scenario {name} is of the suite {suite}, and --suite asks for "
                f"{' and '.join(suites)} only; add --suite {suite}, or leave --suite out"
            )
    if names:
        return [item for item in SCENARIOS if item.name in names]
    return [item for item in SCENARIOS if item.suite in suites]
