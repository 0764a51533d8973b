"""What a scenario is handed: the key, the way to the TPM, and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tpmtls

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tpmbench.measuring import Settings
    from tpmbench.memory import PeakMemory
    from tpmbench.sampling import Watch
    from tpmbench.tpmkeys import Keyring
    from tpmtls import Key, Transport
    from tpmtls.public import Curve


@dataclass(frozen=True)
class Bench:
    """One curve's key on one TPM, ready to be measured.

    Attributes:
        key: the persistent key, attached.
        curve: its curve.
        keyring: makes further keys.
        settings: how many samples, and how.
        order: draws the order of turns.
        watch: is told of progress, and may end the run.
        directory: private, for throwaway software keys.
        memory: is shown the helper processes.
    """

    key: Key
    curve: Curve
    keyring: Keyring
    settings: Settings
    order: Random
    watch: Watch
    directory: Path
    memory: PeakMemory

    @property
    def has_resource_manager(self) -> bool:
        """Whether something swaps objects, so that transports do not see each other's."""
        return tpmtls.resource_manager(self.key.transport.tcti) in ("kernel", "tabrmd")

    def another_transport(self) -> Transport:
        """Open a second transport to the same TPM."""
        return tpmtls.connect(self.key.transport.tcti, self.settings.deadline)
