"""The scenarios that sign without TLS: ``raw-signing`` and ``loaded-transport``."""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

import tpmtls
from tpmbench.counting import CountingSigner
from tpmbench.measuring import Absent, Counts, measure, not_applicable
from tpmbench.outcome import BenchError
from tpmbench.sampling import OneByOne
from tpmbench.tpmkeys import idle_session
from tpmtls.public import CURVES
from tpmtls.transport import AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tpmbench.context import Bench
    from tpmbench.measuring import CountedArm
    from tpmtls import Key, Signer, Transport
    from tpmtls.public import Curve


class SoftwareSigner:
    """A key of the cryptography package as a signer."""

    def __init__(self, curve: Curve) -> None:
        self._key = ec.generate_private_key(curve.curve())
        self._algorithm = ec.ECDSA(Prehashed(curve.hash))

    @property
    def public_key(self) -> ec.EllipticCurvePublicKey:
        """The public half."""
        return self._key.public_key()

    def sign(self, digest: bytes) -> bytes:
        """Return the DER-encoded ECDSA signature over a digest."""
        return self._key.sign(digest, self._algorithm)


class SigningArm(OneByOne):
    """Signs random digests; the signatures are verified afterwards, in software.

    Args:
        name: the arm's name.
        signer: what signs.
        curve: its curve.
        transport: what it signs over, for a key in the TPM.
        ready: what must hold during a block.
    """

    def __init__(
        self,
        name: str,
        signer: Signer,
        curve: Curve,
        transport: Transport | None = None,
        ready: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self.name = name
        self.transport = transport
        self.ready = ready
        self._signer = CountingSigner(signer)
        self._size = curve.hash.digest_size
        self._algorithm = ec.ECDSA(Prehashed(curve.hash))
        self._made: list[tuple[bytes, bytes]] = []

    def begin(self) -> None:
        """Forget what was signed so far."""
        self._signer.count = 0
        self._made.clear()

    def sample(self) -> int:
        """Sign a fresh digest and return how long it took, in nanoseconds."""
        digest = os.urandom(self._size)
        started = time.perf_counter_ns()
        signature = self._signer.sign(digest)
        duration = time.perf_counter_ns() - started
        self._made.append((digest, signature))
        return duration

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self.transport.resubmissions if self.transport else 0

    def counts(self) -> Counts:
        """Verify every signature and return the counts."""
        return Counts(self._signer.count, _verified(self._signer, self._algorithm, self._made))


class FloorArm(OneByOne):
    """The same TPM2_Sign, marshalled beforehand, with nothing around its round trip."""

    name = "floor"

    def __init__(self, key: Key, curve: Curve) -> None:
        self.transport = key.transport
        self.ready = contextlib.nullcontext
        self._key = key
        self._algorithm = ec.ECDSA(Prehashed(curve.hash))
        self._made: list[tuple[bytes, bytes]] = []
        self._again = 0

    def begin(self) -> None:
        """Forget what was signed so far."""
        self._made.clear()

    def sample(self) -> int:
        """Exchange one prepared command; its response is parsed after the clock stops."""
        digest = os.urandom(self._key.digest_size)
        command = self._key.sign_command(digest)
        channel, deadline = self.transport.channel, self.transport.deadline
        try:
            started = time.perf_counter_ns()
            channel.send(command)
            response = channel.receive(deadline)
            while int.from_bytes(response[6:10]) in AGAIN:
                self._again += 1
                channel.send(command)
                response = channel.receive(deadline)
            duration = time.perf_counter_ns() - started
        except OSError as error:
            raise self.transport.failure(error, "TPM2_Sign") from error
        self._made.append((digest, self._key.parse_signature(response)))
        return duration

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self._again

    def counts(self) -> Counts:
        """Verify every signature and return the counts."""
        return Counts(None, _verified(self._key, self._algorithm, self._made))


def _verified(signer: Signer, algorithm: ec.ECDSA, made: list[tuple[bytes, bytes]]) -> int:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    count = 0
    for digest, signature in made:
        with contextlib.suppress(InvalidSignature):
            signer.public_key.verify(signature, digest, algorithm)
            count += 1
    return count


def raw_signing(bench: Bench) -> dict[str, Any]:
    """Measure the bare signature: in the TPM both ways, in software, and the floor."""
    key, curve = bench.key, bench.curve
    arms: list[CountedArm] = [
        SigningArm("tpm-persistent", key, curve, key.transport),
        SigningArm("software", SoftwareSigner(curve), curve),
        FloorArm(key, curve),
    ]
    absent = []
    with contextlib.ExitStack() as stack:
        try:
            transient = stack.enter_context(_transient_key(bench))
            arms.append(SigningArm("tpm-transient", transient, curve, transient.transport))
        except (BenchError, tpmtls.TpmError) as error:
            absent.append(Absent("tpm-transient", str(error)))
        return measure(
            "raw-signing",
            curve.name,
            "signature",
            arms,
            bench.settings.signatures,
            bench.settings,
            bench.order,
            bench.watch,
            absent,
        )


@contextlib.contextmanager
def _transient_key(bench: Bench) -> Any:
    """Attach to a transient key, on a transport of its own where the way to the TPM has room."""
    with contextlib.ExitStack() as stack:
        transport = bench.key.transport
        if bench.has_resource_manager:
            transport = stack.enter_context(bench.another_transport())
        handle = stack.enter_context(bench.keyring.transient(bench.curve, transport))
        key = tpmtls.attach(transport, handle)
        bench.key.sign(bytes(bench.key.digest_size))  # raises where the TPM has no room for both
        yield key


def loaded_transport(bench: Bench) -> dict[str, Any]:
    """Measure a persistent key while something unrelated is loaded, or is not."""
    curve, signing = bench.curve, bench.key.transport
    if not bench.has_resource_manager:
        return not_applicable(
            "loaded-transport", curve.name, "signature", "no resource manager on this transport"
        )
    arms, absent = [], []
    with bench.another_transport() as other:
        for name, objects, sessions, elsewhere in _LOADS:
            where = other if elsewhere else signing
            load = partial(_loaded, bench, where, objects, sessions)
            arm = SigningArm(name, bench.key, curve, signing, load)
            try:
                with arm.ready():
                    arm.sample()
            except (BenchError, tpmtls.TpmError) as error:
                absent.append(Absent(name, str(error)))
            else:
                arms.append(arm)
        return measure(
            "loaded-transport",
            curve.name,
            "signature",
            arms,
            bench.settings.signatures,
            bench.settings,
            bench.order,
            bench.watch,
            absent,
        )


# Arm, transient objects, idle HMAC sessions, and whether they are on another transport than
# the one that signs.
_LOADS = (
    ("nothing-loaded", 0, 0, False),
    ("same-transport", 1, 0, False),
    ("same-transport-2-objects", 2, 0, False),
    ("same-transport-3-objects", 3, 0, False),
    ("same-transport-hmac-session", 0, 1, False),
    ("other-transport", 1, 0, True),
)


@contextlib.contextmanager
def _loaded(bench: Bench, where: Transport, objects: int, sessions: int) -> Iterator[None]:
    """Keep unrelated things loaded on a transport for the time of the block."""
    unrelated = CURVES[0]
    with contextlib.ExitStack() as stack:
        for _ in range(objects):
            stack.enter_context(bench.keyring.transient(unrelated, where))
        for _ in range(sessions):
            stack.enter_context(idle_session(where))
        yield
