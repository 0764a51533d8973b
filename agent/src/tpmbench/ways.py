"""Further transports to the TPM: the same operations over each, side by side with the first."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tpmtls
from tpmbench import identity, tpminfo
from tpmbench.outcome import BenchError, LeftBehindError, Status
from tpmbench.passing import Pass
from tpmbench.tpmkeys import Owner, free_handle, recover
from tpmtls import commands
from tpmtls.errors import TpmTlsError

if TYPE_CHECKING:
    from pathlib import Path

    from tpmbench.identity import Identity
    from tpmbench.journal import Journal
    from tpmbench.platform.doubts import Warning  # noqa: A004  # the result document's own word
    from tpmbench.request import Request
    from tpmbench.sampling import Watch
    from tpmbench.tpminfo import TpmInfo
    from tpmtls.transport import Transport

_SESSIONS = (0x02000000, 0x03000000)  # loaded, and saved by a resource manager
_NV_FIRST = 0x01000000
_NUMBER = 0x00FFFFFF


def everything(transport: Transport) -> frozenset[int]:
    """List every object, NV index and session that is seen over a transport.

    Sessions go by their number: a resource manager saves and loads them as it pleases.

    Raises:
        TpmTlsError: the TPM cannot be asked.
    """
    objects = (commands.PERSISTENT_FIRST, commands.TRANSIENT_FIRST, _NV_FIRST)
    found = {handle for first in objects for handle in commands.handles(transport, first)}
    for first in _SESSIONS:
        found |= {_SESSIONS[0] | handle & _NUMBER for handle in commands.handles(transport, first)}
    return frozenset(found)


@dataclass
class Way:
    """What one further transport gave.

    Attributes:
        row: its entry in the result document.
        status: the exit status that it has earned.
        trouble: one sentence for the user, or None.
        warnings: for the result document.
    """

    row: dict[str, Any]
    status: Status = Status.MEASURED
    trouble: str | None = None
    warnings: list[Warning] = field(default_factory=list)

    def fail(self, reason: str, status: Status = Status.INVALID) -> None:
        """Note that it must not be relied on, and why; the first reason stands."""
        self.row["status"] = "invalid"
        self.row["reason"] = self.row["reason"] or reason
        self.status = max(self.status, status)
        self.trouble = self.trouble or reason


class Ways:
    """Measures further transports, one after the other: a software TPM takes one client at a time.

    Args:
        request: what was asked for.
        watch: is told of progress, and may end the run.
        journal: where what is made is written down; locked by the caller.
        directory: private.
    """

    def __init__(self, request: Request, watch: Watch, journal: Journal, directory: Path) -> None:
        self._request = request
        self._watch = watch
        self._journal = journal
        self._directory = directory
        self._mark = secrets.token_bytes(32)

    def identify(self, transport: Transport, over: Pass, info: TpmInfo) -> Identity:
        """Ask a TPM who it is; see :func:`tpmbench.identity.read`."""
        return identity.read(transport, over.keyring, info, self._mark)

    def measure(self, tcti: str, first: Identity) -> Way:
        """Measure over a transport that nobody has open.

        Args:
            tcti: the transport.
            first: the TPM that it should lead to.

        Raises:
            InterruptedRunError: a signal asked for the end.
        """
        way = Way(
            {
                "tcti": tcti,
                "resource_manager": tpmtls.resource_manager(tcti),
                "status": "valid",
                "reason": None,
                "tpm": None,
                "same_tpm": None,
                "same_tpm_told_by": None,
                "handles_equal": None,
                "device": [],
                "messages": [],
                "tls": [],
            }
        )
        self._watch.progress.say(f"over {tcti}")
        try:
            with tpmtls.connect(tcti, self._request.settings.deadline) as transport:
                self._over(transport, first, way)
        except LeftBehindError as error:
            way.fail(str(error), Status.LEFT_BEHIND)
        except (BenchError, TpmTlsError, ValueError) as error:
            way.fail(str(error))
        return way

    def _over(self, transport: Transport, first: Identity, way: Way) -> None:
        request, row = self._request, way.row
        info = tpminfo.read(transport)
        row["tpm"] = {
            "manufacturer": info.manufacturer,
            "vendor_string": info.vendor_string,
            "firmware_version": info.firmware_version,
        }
        recover(transport, self._journal, request.owner or Owner())
        before = everything(transport)
        scenarios = request.side_by_side
        keyed = any(scenario.measure for scenario in scenarios)
        tpminfo.check_usable(info, owner_auth_given=request.owner is not None, persistent=keyed)
        if keyed:
            free_handle(transport, request.handle)
        over = Pass(request, scenarios, self._watch, transport, self._journal, self._directory)
        found = self.identify(transport, over, info)
        row["same_tpm"], row["same_tpm_told_by"] = identity.same(first, found)
        if row["same_tpm"] is False:
            way.fail(
                f"{transport.tcti} leads to another TPM than {request.tcti}: "
                f"{row['same_tpm_told_by']}; measure it in a run of its own"
            )
            return
        over.go(info)
        suite_of = {scenario.name: scenario.suite for scenario in scenarios}
        for scenario in over.scenarios:
            row[suite_of[scenario["name"]]].append(scenario)
        way.warnings += over.warnings
        status = over.status()
        way.status = max(way.status, Status.INVALID if status is Status.UNUSABLE else status)
        if over.trouble:
            way.fail(over.trouble)
            return
        changed = everything(transport) ^ before
        row["handles_equal"] = not changed
        if changed:
            listed = ", ".join(f"{handle:#010x}" for handle in sorted(changed))
            way.fail(
                f"the TPM's handles are not as they were before: {listed} came or went; look "
                "what else uses the TPM, and run tpm-tls-bench evict"
            )
