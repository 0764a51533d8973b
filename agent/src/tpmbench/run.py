"""One run: leftovers away, every transport measured, and nothing left behind."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpmtls
from tpmbench import document, tpminfo
from tpmbench.journal import Journal
from tpmbench.passing import Pass
from tpmbench.platform import (
    SystemProbe,
    TpmStrings,
    as_document,
    collect,
    conclude,
    host_warnings,
)
from tpmbench.tpmkeys import Owner, free_handle, recover
from tpmbench.ways import Way, Ways

if TYPE_CHECKING:
    from tpmbench.identity import Identity
    from tpmbench.outcome import Status
    from tpmbench.platform import Evidence, Platform
    from tpmbench.request import Request
    from tpmbench.sampling import Watch
    from tpmbench.tpminfo import TpmInfo


def run(request: Request, watch: Watch) -> tuple[dict[str, Any], Status, str | None]:
    """Measure, and return the result document, the status and what went wrong at the end.

    Raises:
        BenchError, TpmTlsError: nothing could be measured.
        InterruptedRunError: a signal asked for the end; the TPM is as it was before.
    """
    started_at = document.now()
    journal = Journal(request.state_directory)
    with contextlib.ExitStack() as stack:
        stack.enter_context(journal.locked())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tpm-tls-bench-")))
        further = Ways(request, watch, journal, directory)
        first = _first(request, watch, journal, directory, further)
        ways = _others(request, further, first)
    system, facts = first.probe.finish(first.over.memory.total_bytes())
    warnings = [*host_warnings(system, first.platform, facts), *first.over.warnings]
    for way in ways:
        warnings += way.warnings
    result = {
        "schema": document.SCHEMA,
        "run_id": request.run_id,
        "host": request.host,
        "agent": document.agent(),
        "started_at": started_at,
        "finished_at": document.now(),
        "system": system.as_document(),
        "platform": as_document(first.evidence, first.platform),
        "tpm": first.info.document(request.tcti, simulated=request.simulated),
        "settings": request.document(),
        "keys": first.over.keys,
        "scenarios": first.over.scenarios,
        **({"other_transports": [way.row for way in ways]} if ways else {}),
        "warnings": [warning.as_document() for warning in warnings],
    }
    troubles = filter(None, [first.over.trouble, *(way.trouble for way in ways)])
    status = max([first.over.status(), *(way.status for way in ways)])
    return result, status, "; ".join(dict.fromkeys(troubles)) or None


@dataclass(frozen=True)
class _First:
    """What the first transport gave."""

    info: TpmInfo
    evidence: list[Evidence]
    platform: Platform
    probe: SystemProbe
    over: Pass
    identity: Identity | None


def _first(
    request: Request, watch: Watch, journal: Journal, directory: Path, further: Ways
) -> _First:
    """Measure over the first transport, and close it."""
    owner = request.owner or Owner()
    with tpmtls.connect(request.tcti, request.settings.deadline) as transport:
        info = tpminfo.read(transport)
        freed = recover(transport, journal, owner)
        if freed:
            watch.progress.say(f"freed {freed} objects that an earlier run left in the TPM")
            info = tpminfo.read(transport)
        keyed = any(scenario.measure for scenario in request.scenarios)
        tpminfo.check_usable(info, owner_auth_given=request.owner is not None, persistent=keyed)
        if keyed:
            free_handle(transport, request.handle)
        strings = TpmStrings(
            info.manufacturer, info.vendor_string, info.firmware_version, request.tcti
        )
        evidence = collect(strings, metadata=request.metadata)
        platform = conclude(evidence)
        probe = SystemProbe()
        over = Pass(request, request.scenarios, watch, transport, journal, directory)
        identity = further.identify(transport, over, info) if request.further else None
        over.go(info)
    return _First(info, evidence, platform, probe, over, identity)


def _others(request: Request, further: Ways, first: _First) -> list[Way]:
    """Measure over the further transports, the first one being closed."""
    if first.identity is None:
        return []
    return [further.measure(tcti, first.identity) for tcti in request.further]
