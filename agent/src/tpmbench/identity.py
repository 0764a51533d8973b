"""Whether two transports lead to one TPM.

A primary key is derived from the hierarchy's seed and its template (TPM 2.0 part 1, 23.6), so
that one template gives the same Name again in the same TPM, and in no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpmbench.outcome import BenchError
from tpmbench.tpmkeys import create_primary, template
from tpmtls import commands
from tpmtls.errors import NotFound, TpmError
from tpmtls.public import CURVES

if TYPE_CHECKING:
    from tpmbench.tpminfo import TpmInfo
    from tpmbench.tpmkeys import Keyring
    from tpmtls.transport import Transport


@dataclass(frozen=True)
class Identity:
    """What one TPM is told from another by.

    Attributes:
        description: manufacturer, vendor string and firmware version.
        primary: the Name of a primary key from the template asked for; None where the TPM
            makes none.
        persistent: Names of persistent objects, by handle.
    """

    description: tuple[str, str, str]
    primary: bytes | None
    persistent: dict[int, bytes]


def read(transport: Transport, keyring: Keyring, info: TpmInfo, mark: bytes) -> Identity:
    """Ask a TPM who it is. The key that it makes for that is gone afterwards.

    Args:
        transport: the way to it.
        keyring: writes the key down, on the same transport.
        info: its description of itself.
        mark: 32 bytes in the key's template, the same for TPMs to be compared.

    Raises:
        LeftBehindError: the key could not be removed.
        TransportError: the TPM does not answer.
    """
    description = (info.manufacturer, info.vendor_string, info.firmware_version)
    persistent = {}
    for handle in list(commands.handles(transport, commands.PERSISTENT_FIRST)):
        try:
            persistent[handle] = commands.read_public(transport, handle)[1]
        except (NotFound, TpmError):
            continue
    return Identity(description, _primary(transport, keyring, mark), persistent)


def _primary(transport: Transport, keyring: Keyring, mark: bytes) -> bytes | None:
    with keyring.noted(mark=mark):
        try:
            handle = create_primary(transport, template(CURVES[0], mark), keyring.owner)
        except (BenchError, TpmError):  # a disabled hierarchy, another curve, no room
            return None
        try:
            return commands.read_public(transport, handle)[1]
        finally:
            commands.flush(transport, handle)


def same(one: Identity, other: Identity) -> tuple[bool | None, str]:
    """Tell whether two are one TPM, and by what; None where that cannot be told."""
    if one.description != other.description:
        first, second = (" ".join(item.description) for item in (one, other))
        return False, f"by their own description they are {first!r} and {second!r}"
    if one.primary and other.primary:
        if one.primary == other.primary:
            return True, "a primary key made from one template has the same Name over both"
        return False, "a primary key made from one template has another Name over each"
    for handle in sorted(set(one.persistent) & set(other.persistent)):
        if one.persistent[handle] == other.persistent[handle]:
            return True, f"the object at {handle:#010x} has the same Name over both"
    return None, (
        "they describe themselves alike, but let no primary key be made and hold no persistent "
        "object that would tell"
    )
