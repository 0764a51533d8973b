"""From arms to a scenario: what makes it invalid, and what ends the run."""

from __future__ import annotations

import contextlib
import io
import random
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from tpmbench.measuring import Absent, Counts, Settings, failed, measure, not_applicable
from tpmbench.outcome import InterruptedRunError
from tpmbench.progress import Progress
from tpmbench.sampling import OneByOne, Watch
from tpmtls import Transport
from tpmtls.errors import DeadlineExceeded, SignatureFailed, TpmError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

SIGN = bytes.fromhex("80020000000e0000015d") + bytes(4)
OTHER = bytes.fromhex("80020000000e0000017a") + bytes(4)


class Quiet:
    def check(self) -> None:
        pass


class Echo:
    """A channel that answers everything with success."""

    def send(self, command: bytes) -> None:
        pass

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002  # as every channel has it
        return bytes.fromhex("80010000000a00000000")

    def close(self) -> None:
        pass


class Arm(OneByOne):
    """Sends commands as it is told, and says what it is told to say it counted."""

    def __init__(
        self,
        name: str = "tpm-persistent",
        *,
        sends: tuple[bytes, ...] = (SIGN,),
        says: Callable[[int], Counts] = lambda count: Counts(count, count),
        raises: BaseException | None = None,
        software: bool = False,
    ) -> None:
        self.name = name
        self.transport = None if software else Transport(Echo(), "device:fake")
        self.ready = contextlib.nullcontext
        self._sends, self._says, self._raises = sends, says, raises
        self._count = 0

    def begin(self) -> None:
        self._count = 0

    def sample(self) -> int:
        if self._raises:
            raise self._raises
        self._count += 1
        if self.transport:
            for command in self._sends:
                self.transport.exchange(command)
        return 1000 + self._count

    def resubmissions(self) -> int:
        return 0

    def counts(self) -> Counts:
        return self._says(self._count)


def scenario(*arms: Arm, absent: tuple[Absent, ...] = ()) -> dict[str, Any]:
    settings = Settings(signatures=6, connections=6, warmup=2, block=4, deadline=1.0)
    watch = Watch(Quiet(), Progress(io.StringIO()))  # type: ignore[arg-type]
    return measure(
        "raw-signing", "p256", "signature", arms, 6, settings, random.Random(1), watch, absent
    )


def test_agreeing_counts_make_it_valid() -> None:
    measured = scenario(Arm(), Arm("software", software=True))
    assert (measured["status"], measured["reason"]) == ("valid", None)
    tpm, software = measured["arms"]
    assert tpm["signatures"] == {"signer": 6, "transport": 6, "peer": 6}
    assert tpm["tpm_commands"] == 6
    assert software["signatures"] == {"signer": 6, "transport": None, "peer": 6}
    assert software["tpm_commands"] is None
    assert tpm["samples_ns"] == [1001, 1002, 1003, 1004, 1005, 1006]
    assert tpm["warmup_ns"] == [1001, 1002]
    assert sorted(measured["turns"]) == ["software"] * 2 + ["tpm-persistent"] * 2


def test_other_commands_are_counted_apart_from_signatures() -> None:
    (arm,) = scenario(Arm(sends=(OTHER, SIGN, OTHER)))["arms"]
    assert arm["signatures"]["transport"] == 6
    assert arm["tpm_commands"] == 18


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        (
            Arm(sends=(SIGN, SIGN)),
            "the signature counts of tpm-persistent disagree: signer 6, transport 12, peer 6",
        ),
        (
            Arm(sends=()),
            "the signature counts of tpm-persistent disagree: signer 6, transport 0, peer 6",
        ),
        (
            Arm(says=lambda count: Counts(count, count - 1)),
            "the signature counts of tpm-persistent disagree: signer 6, transport 6, peer 5",
        ),
        (
            Arm(says=lambda count: Counts(None, count - 1)),
            "the signature counts of tpm-persistent disagree: transport 6, peer 5",
        ),
        (
            Arm("software", software=True, says=lambda count: Counts(count + 1, count)),
            "the signature counts of software disagree: signer 7, peer 6",
        ),
        (
            Arm(says=lambda count: Counts(count, count, fault="2 connections were resumed")),
            "tpm-persistent: 2 connections were resumed",
        ),
    ],
)
def test_disagreeing_counts_make_it_invalid_and_are_told(arm: Arm, reason: str) -> None:
    measured = scenario(arm, Arm("other", software=True))
    assert (measured["status"], measured["reason"]) == ("invalid", reason)
    assert len(measured["arms"]) == 2, "the samples are kept all the same"


@pytest.mark.parametrize(
    "error",
    [
        TpmError(0x902, "TPM2_Sign", "response code 0x902"),
        ssl.SSLError(1, "handshake failure"),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("timed out"),
    ],
)
def test_a_failed_sample_makes_it_invalid_and_is_told(error: Exception) -> None:
    measured = scenario(Arm(raises=error), absent=(Absent("tpm-transient", "no slot"),))
    assert measured["status"] == "invalid"
    assert measured["reason"].startswith("a sample failed: ")
    assert str(error) in measured["reason"]
    assert measured["arms"] == []
    assert measured["absent_arms"] == [{"name": "tpm-transient", "reason": "no slot"}]


def _caused(cause: Exception) -> Exception:
    error = SignatureFailed(1, "the private key could not sign")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        DeadlineExceeded("no answer"),
        TransportError("it broke"),
        _caused(DeadlineExceeded("no answer")),
        _caused(TransportError("it broke")),
        InterruptedRunError(15),
    ],
)
def test_a_tpm_that_is_gone_or_a_signal_ends_the_run(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        scenario(Arm(raises=error))
    assert caught.value is error


def test_a_refused_signature_inside_a_handshake_does_not_end_the_run() -> None:
    refused = _caused(TpmError(0x922, "TPM2_Sign", "retry"))
    assert scenario(Arm(raises=refused))["status"] == "invalid"


def test_the_transport_is_as_before_after_counting() -> None:
    arm = Arm()
    assert arm.transport
    channel = arm.transport.channel
    scenario(arm)
    assert arm.transport.channel is channel


def test_what_cannot_be_asked_has_no_arm() -> None:
    assert not_applicable("loaded-transport", "p256", "signature", "no resource manager") == {
        "name": "loaded-transport",
        "curve": "p256",
        "status": "not-applicable",
        "reason": "no resource manager",
        "unit": "signature",
        "turns": [],
        "arms": [],
        "absent_arms": [],
    }
    assert failed("x", "p384", "request", "r")["status"] == "invalid"
