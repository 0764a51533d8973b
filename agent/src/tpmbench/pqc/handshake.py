"""``handshake-new`` with an ML-DSA-65 client certificate, its key in the TPM."""

from __future__ import annotations

import contextlib
import importlib
import ssl
from typing import TYPE_CHECKING, Any

import cryptography
from cryptography.exceptions import UnsupportedAlgorithm

from tpmbench import wire
from tpmbench.client import serving
from tpmbench.device.operation import NotRunError
from tpmbench.device.stage import Stage
from tpmbench.handshakes import ConnectionArm, Tallies
from tpmbench.holding import Keys, hold
from tpmbench.measuring import failed, measure, not_applicable
from tpmbench.outcome import BenchError
from tpmbench.pqc import software
from tpmbench.pqc.operations import make, require, sign_sequence
from tpmbench.pqc.structures import KINDS, raw_signature
from tpmbench.request import ML_DSA
from tpmtls.errors import BridgeUnavailable, TpmError

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tpmbench.measuring import Settings
    from tpmbench.memory import PeakMemory
    from tpmbench.sampling import Watch
    from tpmbench.tpmkeys import Keyring
    from tpmtls.transport import Transport

NAME = "handshake-new"
_UNIT = "connection"
_KIND = next(kind for kind in KINDS if kind.name == "ML-DSA-65")
_OPENSSL = (3, 5)  # the first with ML-DSA


class TpmSigner:
    """A loaded ML-DSA key of the TPM's, which signs each message by a sequence.

    Args:
        stage: the TPM.
        handle: the key's.
        public_key: its public half.
    """

    def __init__(self, stage: Stage, handle: int, public_key: Any) -> None:
        self._stage = stage
        self._handle = handle
        self.public_key = public_key

    def sign(self, message: bytes) -> bytes:
        """Return the signature over a message."""
        made = sign_sequence(self._stage, _KIND, self._handle, message, timed=False)
        return raw_signature(_KIND, made)


class SoftwareSigner:
    """A key of the cryptography package as a signer."""

    def __init__(self, key: Any) -> None:
        self._key = key
        self.public_key = key.public_key()

    def sign(self, message: bytes) -> bytes:
        """Return the signature over a message."""
        signature: bytes = self._key.sign(message)
        return signature


def handshake_new(
    transport: Transport,
    keyring: Keyring,
    settings: Settings,
    order: Random,
    watch: Watch,
    directory: Path,
    memory: PeakMemory,
) -> dict[str, Any]:
    """Measure it where this Python and the TPM can, else say which of them lacks what.

    Args:
        transport: the way to the TPM.
        keyring: notes what is made, and removes it.
        settings: how many samples, and how.
        order: draws the order of turns.
        watch: is told of progress, and may end the run.
        directory: private, for throwaway software keys.
        memory: is shown the helper processes.

    Raises:
        InterruptedRunError: a signal asked for the end.
        TransportError: the TPM cannot be reached any more.
        LeftBehindError: something of ours could not be removed.
    """
    with keyring.noted() as mark, contextlib.ExitStack() as ours:
        stage = Stage(transport, mark, keyring.owner, keyring.noted)
        ours.callback(stage.close)
        lacking = [*_python_lacks(), *_tpm_lacks(stage)]
        if lacking:
            return not_applicable(NAME, ML_DSA, _UNIT, "; ".join(lacking))
        try:
            handle, raw = make(stage, _KIND, external_mu=False)
            ours.callback(stage.flush, handle)
            public = software.public(_KIND, raw)
            keys = Keys(
                ("tpm-transient", TpmSigner(stage, handle, public)),
                transport,
                SoftwareSigner(_new_key()),
                _new_key(),
            )
            peer = ours.enter_context(serving(directory, settings.deadline, memory))
            held = hold(keys, directory, peer.authority, wire.client_context)
        except BridgeUnavailable as error:
            return not_applicable(NAME, ML_DSA, _UNIT, str(error))
        except (BenchError, TpmError, ValueError, ssl.SSLError) as error:
            return failed(NAME, ML_DSA, _UNIT, f"the keys could not be put in place: {error}")
        tallies = Tallies(peer)
        arms = [ConnectionArm(one, peer, tallies) for one in held]
        count = settings.connections
        return measure(NAME, ML_DSA, _UNIT, arms, count, settings, order, watch)


def _new_key() -> Any:
    module = importlib.import_module("cryptography.hazmat.primitives.asymmetric.mldsa")
    return module.MLDSA65PrivateKey.generate()


def _python_lacks() -> list[str]:
    lacking = []
    if ssl.OPENSSL_VERSION_INFO < _OPENSSL:
        lacking.append(f"this Python's OpenSSL ({ssl.OPENSSL_VERSION}) has no ML-DSA; 3.5 has")
    try:
        _new_key()
    except (ImportError, UnsupportedAlgorithm):
        lacking.append(f"cryptography {cryptography.__version__} here has no ML-DSA; 47 has")
    return lacking


def _tpm_lacks(stage: Stage) -> list[str]:
    try:
        stage.require(("TPM2_SignSequenceStart", "TPM2_SignSequenceComplete"), (_KIND.algorithm,))
        require(stage, _KIND)
    except (NotRunError, TpmError) as error:
        return [f"the TPM has no {_KIND.name}, which came with TPM 2.0 v1.85 ({error})"]
    return []
