"""The scenarios ``message-size-*``: signing, verifying, and signing with a fresh key."""

from __future__ import annotations

import contextlib
import hashlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from tpmbench.counting import CountingSigner
from tpmbench.device import areas, ecc
from tpmbench.device.stage import Stage, primary_parameters, private_and_public
from tpmbench.measuring import Counts, measure
from tpmbench.sampling import OneByOne
from tpmtls import commands
from tpmtls.commands import password, sized
from tpmtls.errors import TpmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpmbench.context import Bench
    from tpmbench.measuring import CountedArm
    from tpmtls import Transport
    from tpmtls.public import Curve

SIZES = (17, 93, 1024)
"""Bytes: a property's value, a few properties, a kilobyte, as in the study of message sizes."""

SIGN = "message-size-sign"
VERIFY = "message-size-verify"
SINGLE_SHOT = "message-size-single-shot"
_TEXT = b"some secret value"
_FEWEST_SHOTS = 10
_SHOTS = 5  # a fresh key's signature stands for so many others, as it takes as long
_RC_SIGNATURE = 0x9B


def message(size: int) -> bytes:
    """Return the message of a size."""
    return (_TEXT * (size // len(_TEXT) + 1))[:size]


class SigningArm(OneByOne):
    """Signs; every signature is verified afterwards.

    Args:
        name: the arm's name.
        sign: makes one signature, DER-encoded.
        verify: raises InvalidSignature for a wrong one.
        transport: what it signs over, for a key in the TPM.
    """

    def __init__(
        self,
        name: str,
        sign: Callable[[], bytes],
        verify: Callable[[bytes], None],
        transport: Transport | None = None,
    ) -> None:
        self.name = name
        self.transport = transport
        self.ready = contextlib.nullcontext
        self._sign = sign
        self._verify = verify
        self._made: list[bytes] = []

    def begin(self) -> None:
        """Forget what was signed so far."""
        self._made.clear()

    def sample(self) -> int:
        """Sign once and return how long it took, in nanoseconds."""
        started = time.perf_counter_ns()
        signature = self._sign()
        duration = time.perf_counter_ns() - started
        self._made.append(signature)
        return duration

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self.transport.resubmissions if self.transport else 0

    def counts(self) -> Counts:
        """Verify every signature and return the counts."""
        good = 0
        for signature in self._made:
            with contextlib.suppress(InvalidSignature):
                self._verify(signature)
                good += 1
        return Counts(len(self._made), good)


class OtherArm(OneByOne):
    """Does what is no signature: verifies, or hashes.

    Args:
        name: the arm's name.
        do: does it once and tells whether the answer is right.
        transport: what it goes over, where it goes to the TPM.
    """

    def __init__(
        self, name: str, do: Callable[[], bool], transport: Transport | None = None
    ) -> None:
        self.name = name
        self.transport = transport
        self.ready = contextlib.nullcontext
        self._do = do
        self._wrong = 0

    def begin(self) -> None:
        """Forget what was done so far."""
        self._wrong = 0

    def sample(self) -> int:
        """Do it once and return how long it took, in nanoseconds."""
        started = time.perf_counter_ns()
        right = self._do()
        duration = time.perf_counter_ns() - started
        self._wrong += not right
        return duration

    def resubmissions(self) -> int:
        """Return how often the TPM has asked for a command again."""
        return self.transport.resubmissions if self.transport else 0

    def counts(self) -> Counts:
        """Return that nothing was signed, and what went wrong."""
        fault = f"{self._wrong} answers were wrong" if self._wrong else None
        return Counts(None, 0, fault=fault)


def _hashed(curve: Curve, data: bytes) -> bytes:
    return hashlib.new(curve.hash.name, data).digest()


def _must_verify(
    key: ec.EllipticCurvePublicKey, data: bytes, how: ec.ECDSA, signature: bytes
) -> None:
    key.verify(signature, data, how)


def _verified(key: ec.EllipticCurvePublicKey, signature: bytes, data: bytes, how: Any) -> bool:
    try:
        key.verify(signature, data, how)
    except InvalidSignature:
        return False
    return True


def signing(bench: Bench) -> dict[str, Any]:
    """Measure signing, TPM and software, every size in turn with the others."""
    arms: list[CountedArm] = []
    for size in SIZES:
        arms += [*_signing_in_tpm(bench, size), *_signing_in_software(bench.curve, size)]
    return _measure(SIGN, bench, arms)


def verifying(bench: Bench) -> dict[str, Any]:
    """Measure verifying, TPM and software, every size in turn with the others."""
    arms: list[CountedArm] = []
    for size in SIZES:
        arms += [*_verifying_in_tpm(bench, size), *_verifying_in_software(bench.curve, size)]
    return _measure(VERIFY, bench, arms)


def _measure(
    name: str, bench: Bench, arms: list[CountedArm], samples: int | None = None
) -> dict[str, Any]:
    settings = bench.settings
    return measure(
        name,
        bench.curve.name,
        "operation",
        arms,
        samples or settings.signatures,
        settings,
        bench.order,
        bench.watch,
    )


def _signing_in_tpm(bench: Bench, size: int) -> Iterator[CountedArm]:
    key, curve, data = bench.key, bench.curve, message(size)
    public: ec.EllipticCurvePublicKey = CountingSigner(key).public_key
    check = partial(_must_verify, public, data, ec.ECDSA(curve.hash))
    digest = _hashed(curve, data)
    over = key.transport
    yield SigningArm(f"tpm-{size}", lambda: key.sign(_hashed(curve, data)), check, over)
    yield SigningArm(f"tpm-digest-{size}", lambda: key.sign(digest), check, over)


def _signing_in_software(curve: Curve, size: int) -> Iterator[CountedArm]:
    key, data = ec.generate_private_key(curve.curve()), message(size)
    whole, apart = ec.ECDSA(curve.hash), ec.ECDSA(Prehashed(curve.hash))
    check = partial(_must_verify, key.public_key(), data, whole)
    digest = _hashed(curve, data)
    yield SigningArm(f"software-{size}", lambda: key.sign(data, whole), check)
    yield SigningArm(f"software-digest-{size}", lambda: key.sign(digest, apart), check)
    yield OtherArm(f"hash-{size}", lambda: _hashed(curve, data) == digest)


def _verifying_in_tpm(bench: Bench, size: int) -> Iterator[CountedArm]:
    key, curve, data = bench.key, bench.curve, message(size)
    digest, over = _hashed(curve, data), key.transport
    signature = ecc.tpm_signature(key.sign(digest), curve)

    def verify(digest: bytes) -> bool:
        what = sized(digest) + signature
        try:
            commands.run(over, "TPM2_VerifySignature", (key.handle,), what)
        except TpmError as error:
            if commands.base_code(error.code) != _RC_SIGNATURE:
                raise
            return False
        return True

    # One that takes every signature would be fast, and useless.
    takes_any = verify(bytes(len(digest)))
    yield OtherArm(f"tpm-{size}", lambda: verify(_hashed(curve, data)) and not takes_any, over)
    yield OtherArm(f"tpm-digest-{size}", lambda: verify(digest) and not takes_any, over)


def _verifying_in_software(curve: Curve, size: int) -> Iterator[CountedArm]:
    key, data = ec.generate_private_key(curve.curve()), message(size)
    public, digest = key.public_key(), _hashed(curve, data)
    whole, apart = ec.ECDSA(curve.hash), ec.ECDSA(Prehashed(curve.hash))
    signature = key.sign(data, whole)
    yield OtherArm(f"software-{size}", partial(_verified, public, signature, data, whole))
    yield OtherArm(f"software-digest-{size}", partial(_verified, public, signature, digest, apart))


def single_shot(bench: Bench) -> dict[str, Any]:
    """Measure signing with a key that is made for it: create, load, sign, flush."""
    curve, transport = bench.curve, bench.key.transport
    data = message(SIZES[0])
    publics: list[ec.EllipticCurvePublicKey] = []
    whole = ec.ECDSA(curve.hash)
    with bench.keyring.noted() as mark, contextlib.ExitStack() as ours:
        stage = Stage(transport, mark, bench.keyring.owner, bench.keyring.noted)
        ours.callback(stage.close)
        parent = stage.parent().handle
        template = primary_parameters(areas.area(ecc.algorithm(curve), areas.SIGNING, mark))

        def in_tpm() -> bytes:
            made = stage.tell("TPM2_Create", (parent,), template, (password(),)).parameters
            pair = private_and_public(made)
            loaded = stage.tell("TPM2_Load", (parent,), pair, (password(),), 1).handles[0]
            try:
                what = sized(_hashed(curve, data)) + ecc.NULL_SCHEME + ecc.NO_TICKET
                answer = stage.tell("TPM2_Sign", (loaded,), what, (password(),)).parameters
            finally:
                stage.flush(loaded)
            publics.append(ecc.public_of(pair, curve))
            return ecc.der(answer)

        def in_software() -> bytes:
            key = ec.generate_private_key(curve.curve())
            publics.append(key.public_key())
            return key.sign(data, whole)

        def verify(signature: bytes) -> None:
            if not any(_verified(key, signature, data, whole) for key in publics):
                raise InvalidSignature

        arms: list[CountedArm] = [
            SigningArm(f"tpm-{SIZES[0]}", in_tpm, verify, transport),
            SigningArm(f"software-{SIZES[0]}", in_software, verify),
        ]
        shots = max(_FEWEST_SHOTS, bench.settings.signatures // _SHOTS)
        return _measure(SINGLE_SHOT, bench, arms, shots)
