"""Human names of what a result document names, and the order in which things are shown.

Everything here is data. A name that is not in a table is shown as it stands in
the document, after the known ones.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCENARIOS: Mapping[str, str] = {
    "raw-signing": "Signing alone, no TLS",
    "loaded-transport": "Signing beside a loaded object",
    "handshake-new": "New connection per request",
    "handshake-resumed": "Resumed connection per request",
    "connection-reused": "One connection, many requests",
    "handshake-server-key": "Listener with the key in the TPM",
    "handshake-concurrent": "New connections, many clients at once",
    "message-size-sign": "Signing a message",
    "message-size-verify": "Verifying a message",
    "message-size-single-shot": "Signing with a fresh key",
}

ARMS: Mapping[str, str] = {
    "tpm-persistent": "TPM key",
    "tpm-transient": "TPM key, transient",
    "software": "software key",
    "software-native": "software key, native",
    "floor": "bare TPM command",
    "nothing-loaded": "nothing loaded",
    "same-transport": "same transport",
    "same-transport-2-objects": "same transport, 2 objects",
    "same-transport-3-objects": "same transport, 3 objects",
    "same-transport-hmac-session": "same transport, HMAC session",
    "other-transport": "other transport",
}

# Arms of the message sizes, without the size.
MESSAGE_ARMS: Mapping[str, str] = {
    "tpm": "TPM",
    "tpm-digest": "TPM, digest only",
    "software": "software",
    "software-digest": "software, digest only",
    "hash": "hash alone",
}

# Arms of the same name for a number of clients at once: tpm-persistent-4 and the like.
_CLIENTS = re.compile(r"(?P<arm>[a-z-]+)-(?P<clients>[0-9]{1,6})")

# An ML-DSA key has no curve; the document's member of that name says which key it is.
CURVES: Mapping[str, str] = {
    "p256": "P-256",
    "p384": "P-384",
    "p521": "P-521",
    "mldsa65": "ML-DSA-65",
}

TEES: Mapping[str, str] = {
    "sev-snp": "AMD SEV-SNP",
    "sev": "AMD SEV",
    "tdx": "Intel TDX",
    "none": "none",
    "unknown": "unknown",
}

TPM_LOCATIONS: Mapping[str, str] = {
    "hypervisor": "hypervisor",
    "paravisor": "paravisor or SVSM",
    "discrete": "discrete chip",
    "firmware": "firmware",
    "software": "software TPM",
    "unknown": "unknown place",
}

RESOURCE_MANAGERS: Mapping[str, str] = {
    "kernel": "kernel",
    "tabrmd": "tpm2-abrmd",
    "none": "none",
    "unknown": "unknown",
}


def title(table: Mapping[str, str], name: str) -> str:
    """Returns the human name of ``name``, or ``name`` itself when the table has none."""
    return table.get(name, name)


def at_once(arm: str) -> tuple[str, int] | None:
    """Splits an arm's name such as ``software-4`` into the way of holding the key and the clients.

    Returns:
        None where the name has no number of clients, or starts with no arm that is known.
    """
    found = _CLIENTS.fullmatch(arm)
    if found is None or found["arm"] not in ARMS:
        return None
    return found["arm"], int(found["clients"])


@functools.cache
def arm_title(name: str) -> str:
    """Returns the human name of an arm, with its number of clients where the name has one."""
    several = at_once(name)
    if name in ARMS or several is None:
        return title(ARMS, name)
    arm, clients = several
    return f"{ARMS[arm]}, {clients} client{'' if clients == 1 else 's'}"


@functools.cache
def arm_rank(name: str) -> tuple[int, int, str]:
    """Returns an arm's sort key: the table's order, then the number of clients."""
    arm, clients = (name, 0) if name in ARMS else at_once(name) or (name, 0)
    place, _ = rank(ARMS, arm)
    return (place, clients, name)


def message_arm_title(name: str) -> str:
    """Returns an arm's human name; those of the message sizes end in the size in bytes."""
    kind, _, size = name.rpartition("-")
    if kind in MESSAGE_ARMS and size.isdigit():
        return f"{MESSAGE_ARMS[kind]}, {size} bytes"
    return arm_title(name)


def curve_title(curve: str | None) -> str:
    """Returns the curve's usual spelling, or an empty string for a scenario without a curve."""
    return "" if curve is None else title(CURVES, curve)


def rank(table: Mapping[str, str], name: str) -> tuple[int, str]:
    """Returns a sort key: the table's order first, names it does not have after it."""
    order = list(table)
    return (order.index(name) if name in table else len(order), name)


@functools.cache
def scenario_rank(name: str, curve: str | None) -> tuple[tuple[int, str], tuple[int, str]]:
    """Returns the sort key of a scenario on a curve."""
    return (rank(SCENARIOS, name), rank(CURVES, curve or ""))
