"""The arms that sign without TLS, over a channel that can be made to fail."""

from __future__ import annotations

import pytest

from tests.support.fake_tpm import FakeObject, FakeTpm
from tpmbench.signing import FloorArm, SigningArm, SoftwareSigner
from tpmtls import Transport, attach, commands
from tpmtls.errors import DeadlineExceeded, TransportError
from tpmtls.public import CURVES

HANDLE = 0x81000004


class Late(FakeTpm):
    """Can hold answers back: they come, in order, when they are read next."""

    def __init__(self) -> None:
        super().__init__({HANDLE: FakeObject()})
        self.late = False
        self.broken_pipe = False
        self._answers: list[bytes] = []

    def send(self, command: bytes) -> None:
        if self.broken_pipe:
            raise BrokenPipeError(32, "Broken pipe")
        super().send(command)
        self._answers.append(self._response)

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002  # as every channel has it
        if self.late:
            raise TimeoutError
        return self._answers.pop(0)


@pytest.fixture
def channel() -> Late:
    return Late()


@pytest.fixture
def floor(channel: Late) -> FloorArm:
    key = attach(Transport(channel, "device:fake", 0.5), HANDLE)
    return FloorArm(key, CURVES[0])


def test_the_floors_signatures_verify(floor: FloorArm) -> None:
    floor.begin()
    assert all(floor.sample() > 0 for _ in range(3))
    assert floor.counts().peer == 3
    assert floor.counts().signer is None


def test_the_floor_waits_where_the_tpm_asks_again(floor: FloorArm, channel: Late) -> None:
    channel.codes = [0x922, 0x908]
    floor.sample()
    assert floor.resubmissions() == 2
    assert floor.counts().peer == 1


def test_an_answer_that_came_too_late_is_not_taken_for_another(
    floor: FloorArm, channel: Late
) -> None:
    channel.late = True
    with pytest.raises(DeadlineExceeded, match=r"did not answer TPM2_Sign within 0\.5 s"):
        floor.sample()
    channel.late = False
    # The held-back signature comes first; the public area must still be read as one.
    area, _ = commands.read_public(floor.transport, HANDLE)
    assert int(area.parameters.eccDetail.curveID) == CURVES[0].tpm_id


def test_a_broken_transport_ends_the_floor_with_a_sentence(floor: FloorArm, channel: Late) -> None:
    channel.broken_pipe = True
    with pytest.raises(TransportError, match="device:fake broke during TPM2_Sign: Broken pipe"):
        floor.sample()


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_wrong_signatures_are_not_counted_as_verified(curve: object) -> None:
    signer = SoftwareSigner(curve)  # type: ignore[arg-type]
    arm = SigningArm("software", signer, curve)  # type: ignore[arg-type]
    arm.begin()
    for _ in range(4):
        arm.sample()
    assert (arm.counts().signer, arm.counts().peer) == (4, 4)
    digest, signature = arm._made[1]
    arm._made[1] = (digest[::-1], signature)
    assert (arm.counts().signer, arm.counts().peer) == (4, 3)
