"""One run: leftovers away, a key per curve, every scenario, and nothing left behind."""

from __future__ import annotations

import contextlib
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tpmtls
from tpmbench import document, tpminfo
from tpmbench.context import Bench
from tpmbench.device.suite import Suite
from tpmbench.journal import Journal
from tpmbench.measuring import Settings, failed, not_applicable
from tpmbench.memory import PeakMemory
from tpmbench.outcome import BenchError, LeftBehindError, Status
from tpmbench.platform import (
    SystemProbe,
    TpmStrings,
    as_document,
    clock_resolution_ns,
    collect,
    conclude,
    host_warnings,
)
from tpmbench.tpmkeys import Keyring, Owner, free_handle, recover
from tpmtls.errors import TpmTlsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpmbench.sampling import Watch
    from tpmbench.scenarios import Scenario
    from tpmbench.tpminfo import TpmInfo
    from tpmtls.public import Curve
    from tpmtls.transport import Transport


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Attributes:
        tcti: the transport.
        curves: curves to measure.
        scenarios: scenarios to measure.
        handle: the persistent handle to use, or None for the first free one.
        settings: how many samples, and how.
        seed: seed of the order of turns.
        run_id: the run.
        host: the host's name.
        state_directory: where the journal is.
        owner: the owner hierarchy's auth value; None where none was given.
        metadata: whether a cloud's metadata service may be asked.
        simulated: the user says that the device alters timings on purpose.
    """

    tcti: str
    curves: Sequence[Curve]
    scenarios: Sequence[Scenario]
    handle: int | None
    settings: Settings
    seed: int
    run_id: str
    host: str
    state_directory: Path
    owner: Owner | None
    metadata: Literal["auto", "never"]
    simulated: bool


def run(request: Request, watch: Watch) -> tuple[dict[str, Any], Status, str | None]:
    """Measure, and return the result document, the status and what went wrong at the end.

    Raises:
        BenchError, TpmTlsError: nothing could be measured.
        InterruptedRunError: a signal asked for the end; the TPM is as it was before.
    """
    started_at = document.now()
    owner = request.owner or Owner()
    journal = Journal(request.state_directory)
    with contextlib.ExitStack() as stack:
        stack.enter_context(journal.locked())
        transport = stack.enter_context(tpmtls.connect(request.tcti, request.settings.deadline))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tpm-tls-bench-")))
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
        keyring = Keyring(transport, journal, owner, _boot_id())
        pass_over = _Pass(request, watch, transport, keyring, directory, info)
        pass_over.go()
        pass_over.go_through_operations()
        system, facts = probe.finish(pass_over.memory.total_bytes())
        warnings = host_warnings(system, platform, facts)
        result = {
            "schema": document.SCHEMA,
            "run_id": request.run_id,
            "host": request.host,
            "agent": document.agent(),
            "started_at": started_at,
            "finished_at": document.now(),
            "system": system.as_document(),
            "platform": as_document(evidence, platform),
            "tpm": info.document(request.tcti, simulated=request.simulated),
            "settings": _settings(request),
            "keys": pass_over.keys,
            "scenarios": pass_over.scenarios,
            "warnings": [warning.as_document() for warning in warnings],
        }
    return result, pass_over.status(), pass_over.trouble


class _Pass:
    """The scenarios of one run, curve by curve, kept also where a later one fails."""

    def __init__(
        self,
        request: Request,
        watch: Watch,
        transport: Transport,
        keyring: Keyring,
        directory: Path,
        info: TpmInfo,
    ) -> None:
        self._request = request
        self._watch = watch
        self._transport = transport
        self._keyring = keyring
        self._directory = directory
        self._info = info
        self._keyed = [item for item in request.scenarios if item.measure]
        self._order = random.Random(request.seed)  # noqa: S311  # draws turns, not keys
        self.keys: list[dict[str, Any]] = []
        self.scenarios: list[dict[str, Any]] = []
        self.memory = PeakMemory()
        self.trouble: str | None = None
        self._left_behind = False

    def go(self) -> None:
        """Measure every curve. What stops the run is kept in ``trouble``."""
        for curve in self._request.curves if self._keyed else ():
            try:
                self._measure(curve)
            except (LeftBehindError, BenchError, TpmTlsError) as error:
                self._give_up(self._keyed, curve.name, error)

    def go_through_operations(self) -> None:
        """Measure the operations that take no key of ours beforehand."""
        chosen = [item for item in self._request.scenarios if item.operation]
        if not chosen:
            return
        suite = Suite(
            self._transport,
            self._keyring,
            self._request.settings,
            self._order,
            self._watch,
        )
        if self.trouble:
            self._give_up(chosen, None, BenchError(self.trouble))
            return
        try:
            suite.measure([item.operation for item in chosen if item.operation], self.scenarios)
        except (LeftBehindError, BenchError, TpmTlsError) as error:
            self._give_up(chosen, None, error)

    def status(self) -> Status:
        """Return the exit status that the run has earned."""
        if self._left_behind:
            return Status.LEFT_BEHIND
        if self.trouble and not any(item["status"] == "valid" for item in self.scenarios):
            return Status.UNUSABLE
        if any(item["status"] == "invalid" for item in self.scenarios):
            return Status.INVALID
        return Status.MEASURED

    def _measure(self, curve: Curve) -> None:
        if self.trouble:
            raise BenchError(self.trouble)
        if curve.name not in self._info.curves:
            reason = f"the TPM does not have curve {curve.name}"
            for scenario in self._keyed:
                self.scenarios.append(
                    not_applicable(scenario.name, curve.name, scenario.unit, reason)
                )
            return
        handle = free_handle(self._transport, self._request.handle)
        with self._keyring.persistent(curve, handle):
            key = tpmtls.attach(self._transport, handle)
            self.keys.append(
                {
                    "curve": curve.name,
                    "handle": f"{handle:#010x}",
                    "name": key.name.hex(),
                    "non_exportable": key.non_exportable(),
                    "generated_in_tpm": key.generated_in_tpm(),
                }
            )
            bench = Bench(
                key=key,
                curve=curve,
                keyring=self._keyring,
                settings=self._request.settings,
                order=self._order,
                watch=self._watch,
                directory=self._directory,
                memory=self.memory,
            )
            for scenario in self._keyed:
                if scenario.measure is None:
                    continue
                self._watch.stop.check()
                self._watch.progress.begin(f"{curve.name} {scenario.name}")
                self.scenarios.append(scenario.measure(bench))
                self._watch.progress.end()

    def _give_up(self, scenarios: Sequence[Scenario], curve: str | None, error: Exception) -> None:
        """Keep what there is, and say of the rest why it is missing."""
        self._left_behind |= isinstance(error, LeftBehindError)
        cause = error.__context__ if isinstance(error, LeftBehindError) else None
        self.trouble = str(error)
        done = {item["name"] for item in self.scenarios if item["curve"] == curve}
        reason = str(error) if cause is None else f"{cause}; {error}"
        for scenario in scenarios:
            if scenario.name not in done:
                self.scenarios.append(failed(scenario.name, curve, scenario.unit, reason))


def _settings(request: Request) -> dict[str, Any]:
    settings = request.settings
    return {
        "scenarios": [scenario.name for scenario in request.scenarios],
        "curves": [curve.name for curve in request.curves],
        "handle": "auto" if request.handle is None else f"{request.handle:#010x}",
        "signatures": settings.signatures,
        "connections": settings.connections,
        "warmup": settings.warmup,
        "block": settings.block,
        "operations": settings.operations,
        "max_duration_ns": settings.max_duration_ns,
        "seed": request.seed,
        "deadline_ns": round(settings.deadline * 1e9),
        "clock_resolution_ns": clock_resolution_ns(),
    }


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
