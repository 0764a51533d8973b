"""Where operations are carried out: the clock on the transport, and the objects in the TPM."""

from __future__ import annotations

import contextlib
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tpmbench.device import areas
from tpmbench.device.codes import status
from tpmbench.device.operation import NotRunError
from tpmbench.tpmkeys import RH_OWNER, create_primary
from tpmtls import commands
from tpmtls.errors import TpmError
from tpmtls.transport import AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tpm2_pytss import TPMT_PUBLIC

    from tpmbench.tpmkeys import Owner
    from tpmtls.transport import Transport

T = TypeVar("T")

_CAP_COMMANDS = 0x2
_CC_MASK = 0x2000FFFF  # commandIndex and V of TPMA_CC (part 2, 8.9)


@dataclass(frozen=True)
class Loaded:
    """An object in the TPM.

    Attributes:
        handle: its transient handle.
        public: its public area.
        name: its Name.
    """

    handle: int
    public: TPMT_PUBLIC
    name: bytes


class Stage:
    """One TPM, ready for operations.

    What is timed is the round trip of a command that has been marshalled before, from handing it
    to the transport to having the whole response. Everything else happens outside the span.

    Attributes:
        elapsed_ns: nanoseconds that commands of :meth:`ask` have taken since :meth:`reset`.
        asked: commands of :meth:`ask` since :meth:`reset`.
        again: commands sent again because the TPM wanted that.
        deadline: seconds to wait for an answer of :meth:`ask`.
        transport: the way to the TPM.
        mark: policy digest of every object, auth value of every sequence.
        noted: writes an NV index or a PCR down for the time of the block, gives the mark for
            it, and has it removed afterwards.
        owner: the owner hierarchy's auth value.
        algorithms: TPM_ALG_IDs that the TPM has.
        commands: command codes that the TPM has.
    """

    OWNER = RH_OWNER

    def __init__(
        self,
        transport: Transport,
        mark: bytes,
        owner: Owner,
        noted: Callable[[int], AbstractContextManager[bytes]],
    ) -> None:
        self.transport = transport
        self.noted = noted
        self.mark = mark
        self.owner = owner
        self.elapsed_ns = 0
        self.asked = 0
        self.again = 0
        self.deadline = transport.deadline
        self.algorithms = commands.algorithms(transport)
        self.commands = _command_codes(transport)
        self._parent: Loaded | None = None
        self._kept: tuple[str, int, Any] | None = None

    def reset(self) -> None:
        """Set the clock to zero."""
        self.elapsed_ns = self.asked = 0

    def ask(
        self,
        name: str,
        handles: Sequence[int] = (),
        parameters: bytes = b"",
        authorizations: Sequence[bytes] = (),
        response_handles: int = 0,
    ) -> commands.Response:
        """Exchange one command, timed.

        Raises:
            TpmError: the TPM refused it.
            TransportError: it could not be sent, or its answer not be had.
        """
        command = commands.marshal(name, handles, parameters, authorizations)
        channel, deadline = self.transport.channel, self.deadline
        clock = time.perf_counter_ns
        try:
            started = clock()
            channel.send(command)
            response = channel.receive(deadline)
            while int.from_bytes(response[6:10]) in AGAIN:
                self.again += 1
                channel.send(command)
                response = channel.receive(deadline)
            self.elapsed_ns += clock() - started
        except OSError as error:
            raise self.transport.failure(error, name) from error
        self.asked += 1
        return commands.unmarshal(response, name, response_handles)

    def tell(
        self,
        name: str,
        handles: Sequence[int] = (),
        parameters: bytes = b"",
        authorizations: Sequence[bytes] = (),
        response_handles: int = 0,
    ) -> commands.Response:
        """Exchange one command that is not part of what is measured."""
        return commands.run(
            self.transport, name, handles, parameters, authorizations, response_handles
        )

    def flush(self, handle: int) -> None:
        """Flush an object or a session."""
        commands.flush(self.transport, handle)

    def require(self, names: Sequence[str], algorithms: Sequence[int]) -> None:
        """Check that the TPM has commands and algorithms.

        Raises:
            NotRunError: it does not.
        """
        for name in names:
            if commands.CODES[name] not in self.commands:
                raise NotRunError("unsupported", f"{name} is not among the TPM's commands")
        for algorithm in algorithms:
            if algorithm not in self.algorithms:
                raise NotRunError(
                    "unsupported", f"algorithm {algorithm:#06x} is not among the TPM's"
                )

    def require_parameters(self, marshalled: bytes) -> None:
        """Check with TPM2_TestParms that the TPM takes a key's parameters.

        Raises:
            NotRunError: it does not.
            TpmError: it could not be asked.
        """
        if commands.CODES["TPM2_TestParms"] not in self.commands:
            return
        try:
            self.tell("TPM2_TestParms", parameters=marshalled)
        except TpmError as error:
            if status(error.code) != "unsupported":
                raise
            raise NotRunError("unsupported", str(error), error.code) from error

    @contextlib.contextmanager
    def long_wait(self, seconds: float) -> Iterator[None]:
        """Wait longer for answers for the time of the block."""
        before, plain = self.deadline, self.transport.deadline
        self.deadline = max(before, seconds)
        self.transport.deadline = max(plain, seconds)
        try:
            yield
        finally:
            self.deadline, self.transport.deadline = before, plain

    def parent(self) -> Loaded:
        """Return a storage key, made on first use and kept until :meth:`close`."""
        if self._parent is None:
            attributes, algorithm = areas.PARENT
            public = areas.area(algorithm, attributes, self.mark)
            self._parent = self._described(create_primary(self.transport, public, self.owner))
        return self._parent

    def keep(self, role: str, make: Callable[[], tuple[int, T]]) -> tuple[int, T]:
        """Return the object of a role. One is kept loaded: a TPM may have three slots only.

        Args:
            role: names it.
            make: makes it; returns its handle and what is known of it.
        """
        if self._kept is None or self._kept[0] != role:
            self.release()
            with self.long_wait(600):
                self._kept = (role, *make())
        return self._kept[1:]

    def key(self, role: str, make: Callable[[], int]) -> Loaded:
        """Return the key of a role, with its public area; see :meth:`keep`."""

        def made() -> tuple[int, Loaded]:
            handle = make()
            return handle, self._described(handle)

        return self.keep(role, made)[1]

    def primary(self, algorithm: str, attributes: str) -> Loaded:
        """Return the primary key of a template, made where it is not loaded yet.

        Raises:
            NotRunError: the TPM does not take its parameters.
            TpmError, BenchError: it could not be made.
        """
        public = areas.area(algorithm, attributes, self.mark)
        self.require_parameters(areas.parameters(public))
        return self.key(
            f"{algorithm} {attributes}", lambda: create_primary(self.transport, public, self.owner)
        )

    def child(self, algorithm: str, attributes: str, secret: bytes) -> Loaded:
        """Return a key with a given secret below the storage key.

        Raises:
            NotRunError: the TPM does not take its parameters.
            TpmError, BenchError: it could not be made.
        """
        public = areas.area(algorithm, attributes, self.mark)
        self.require_parameters(areas.parameters(public))
        return self.key(f"{algorithm} {attributes} child", lambda: self._create(public, secret))

    def _create(self, public: TPMT_PUBLIC, secret: bytes) -> int:
        parent = self.parent().handle
        command = areas.sensitive(secret) + areas.marshalled(public) + NO_DATA_NO_PCR
        made = self.tell("TPM2_Create", (parent,), command, (commands.password(),)).parameters
        pair = private_and_public(made)
        return self.tell("TPM2_Load", (parent,), pair, (commands.password(),), 1).handles[0]

    def _described(self, handle: int) -> Loaded:
        public, name = commands.read_public(self.transport, handle)
        return Loaded(handle, public, name)

    def release(self) -> None:
        """Flush the role's key that is kept, to make room."""
        if self._kept:
            handle, self._kept = self._kept[1], None
            self.flush(handle)

    def close(self) -> None:
        """Flush what is kept."""
        self.release()
        if self._parent:
            parent, self._parent = self._parent, None
            self.flush(parent.handle)


# outsideInfo and creationPCR, both empty (part 3, 12.1 and 24.1)
NO_DATA_NO_PCR = commands.sized(b"") + struct.pack(">I", 0)


def private_and_public(made: bytes) -> bytes:
    """Return TPM2B_PRIVATE and TPM2B_PUBLIC, as TPM2_Load takes them, of TPM2_Create's answer."""
    private = 2 + int.from_bytes(made[:2])
    public = 2 + int.from_bytes(made[private : private + 2])
    return made[: private + public]


def primary_parameters(public: TPMT_PUBLIC) -> bytes:
    """Marshal the parameters of TPM2_CreatePrimary and TPM2_Create."""
    return areas.sensitive() + areas.marshalled(public) + NO_DATA_NO_PCR


def _command_codes(transport: Transport) -> frozenset[int]:
    found: set[int] = set()
    first, more = 0, True
    while more:
        wanted = struct.pack(">III", _CAP_COMMANDS, first, 64)
        data = commands.run(transport, "TPM2_GetCapability", parameters=wanted).parameters
        count = struct.unpack_from(">I", data, 5)[0]
        page = [code & _CC_MASK for code in struct.unpack_from(f">{count}I", data, 9)]
        if not page:
            break
        more, first = bool(data[0]), page[-1] + 1
        found.update(page)
    return frozenset(found)
