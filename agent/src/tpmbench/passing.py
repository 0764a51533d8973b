"""One pass over a transport: a key per curve, every scenario, and nothing left behind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpmtls
from tpmbench import artefacts
from tpmbench.context import Bench
from tpmbench.device.suite import Suite
from tpmbench.measuring import failed, not_applicable
from tpmbench.memory import PeakMemory
from tpmbench.outcome import BenchError, LeftBehindError, Status
from tpmbench.pqc import handshake
from tpmbench.request import ML_DSA
from tpmbench.tpmkeys import Keyring, Owner, free_handle
from tpmtls.errors import TpmTlsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpmbench.journal import Journal
    from tpmbench.platform.doubts import Warning  # noqa: A004  # the result document's own word
    from tpmbench.request import Request
    from tpmbench.sampling import Watch
    from tpmbench.scenarios import Scenario
    from tpmbench.tpminfo import TpmInfo
    from tpmtls.public import Curve
    from tpmtls.transport import Transport


def boot_id() -> str | None:
    """Return the kernel's identifier of this boot; None where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


class Pass:
    """The scenarios of one transport, curve by curve, kept also where a later one fails.

    Args:
        request: what was asked for.
        scenarios: those of it that are measured here.
        watch: is told of progress, and may end the run.
        transport: without objects of ours on it.
        journal: where what is made is written down; locked by the caller.
        directory: private, for throwaway software keys.

    Attributes:
        keyring: makes keys on the transport.
        keys: of the result document.
        scenarios: of the result document.
        memory: what helper processes took.
        trouble: what stopped it, or None.
        warnings: what makes the figures of this transport doubtful.
    """

    def __init__(
        self,
        request: Request,
        scenarios: Sequence[Scenario],
        watch: Watch,
        transport: Transport,
        journal: Journal,
        directory: Path,
    ) -> None:
        self._request = request
        self._watch = watch
        self._transport = transport
        self._directory = directory
        self._keyed = [item for item in scenarios if item.measure]
        self._operations = [item for item in scenarios if item.operation]
        self._order = random.Random(request.seed)  # noqa: S311  # draws turns, not keys
        self.keyring = Keyring(transport, journal, request.owner or Owner(), boot_id())
        self.keys: list[dict[str, Any]] = []
        self.scenarios: list[dict[str, Any]] = []
        self.memory = PeakMemory()
        self.trouble: str | None = None
        self.warnings: list[Warning] = []
        self.left_behind = False

    def go(self, info: TpmInfo) -> None:
        """Measure everything. What stops it is kept in ``trouble``.

        Raises:
            InterruptedRunError: a signal asked for the end.
        """
        for curve in self._request.curves if self._keyed else ():
            try:
                self._measure(curve, info)
            except (LeftBehindError, BenchError, TpmTlsError) as error:
                self._give_up(self._keyed, curve.name, error)
        if self._request.post_quantum:
            self._go_post_quantum()
        if self._operations:
            self._go_through_operations()
        self._look_for_artefacts()

    def _go_post_quantum(self) -> None:
        """Measure handshake-new with an ML-DSA key, where it is asked for here."""
        chosen = [item for item in self._keyed if item.name == handshake.NAME]
        if not chosen:
            return
        if self.trouble:
            self._give_up(chosen, ML_DSA, BenchError(self.trouble))
            return
        self._watch.stop.check()
        self._watch.progress.begin(f"{ML_DSA} {handshake.NAME}")
        try:
            self.scenarios.append(
                handshake.handshake_new(
                    self._transport,
                    self.keyring,
                    self._request.settings,
                    self._order,
                    self._watch,
                    self._directory,
                    self.memory,
                )
            )
        except (LeftBehindError, BenchError, TpmTlsError) as error:
            self._give_up(chosen, ML_DSA, error)
        self._watch.progress.end()

    def _go_through_operations(self) -> None:
        """Measure the operations that take no key of ours beforehand."""
        if self.trouble:
            self._give_up(self._operations, None, BenchError(self.trouble))
            return
        suite = Suite(
            self._transport, self.keyring, self._request.settings, self._order, self._watch
        )
        operations = [item.operation for item in self._operations if item.operation]
        try:
            suite.measure(operations, self.scenarios)
        except (LeftBehindError, BenchError, TpmTlsError) as error:
            self._give_up(self._operations, None, error)

    def _look_for_artefacts(self) -> None:
        """See whether the transport has made the times. At the end, as TCP begins without delay."""
        tcti = self._transport.tcti
        quantum = artefacts.of_operations(self.scenarios, tcti)
        if quantum is None and not self.trouble:
            try:
                quantum = artefacts.probe(self._transport)
            except TpmTlsError:  # what it did meanwhile stands
                return
        if quantum is not None:
            artefacts.flag(self.scenarios, quantum, tcti)
            self.warnings.append(artefacts.warning(quantum, tcti))

    def status(self) -> Status:
        """Return the exit status that it has earned."""
        if self.left_behind:
            return Status.LEFT_BEHIND
        if self.trouble and not any(item["status"] == "valid" for item in self.scenarios):
            return Status.UNUSABLE
        if any(item["status"] == "invalid" for item in self.scenarios):
            return Status.INVALID
        return Status.MEASURED

    def _measure(self, curve: Curve, info: TpmInfo) -> None:
        if self.trouble:
            raise BenchError(self.trouble)
        if curve.name not in info.curves:
            reason = f"the TPM does not have curve {curve.name}"
            for scenario in self._keyed:
                self.scenarios.append(
                    not_applicable(scenario.name, curve.name, scenario.unit, reason)
                )
            return
        handle = free_handle(self._transport, self._request.handle)
        with self.keyring.persistent(curve, handle):
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
                keyring=self.keyring,
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
        self.left_behind |= isinstance(error, LeftBehindError)
        cause = _origin(error) if isinstance(error, LeftBehindError) else None
        self.trouble = str(error)
        done = {item["name"] for item in self.scenarios if item["curve"] == curve}
        reason = str(error) if cause is None else f"{cause}; {error}"
        for scenario in scenarios:
            if scenario.name not in done:
                self.scenarios.append(failed(scenario.name, curve, scenario.unit, reason))


def _origin(error: BaseException) -> BaseException | None:
    """Return the first of our errors that led to this one; None where there was none before."""
    found, item = None, error.__context__
    while item is not None:
        if isinstance(item, BenchError | TpmTlsError):
            found = item
        item = item.__context__
    return found
