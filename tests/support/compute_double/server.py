"""The double's HTTPS server: requests checked against the discovery document, and dispatched."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.compute_double import discovery
from tests.support.compute_double.faults import Fault, RefusedError
from tests.support.compute_double.methods import METHODS
from tests.support.compute_double.store import Store
from tests.support.https_server import HttpsServer, QuietHandler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.compute_double.store import Vm

TOKEN = "ya29.double"  # noqa: S105 - only the double takes it


class ComputeDouble:
    """The API on a free port of 127.0.0.1, until it is closed.

    Args:
        directory: for its certificate authority's file.
        boot: what a VM that is made is like; called with the instance as the API has it.
        halt: called with the name of a VM that is gone.

    Attributes:
        endpoint: URL, for ``api_endpoint``.
        ca_file: for ``api_ca_file``.
        requests: ``VERB path`` of every request, in order.
        bodies: the body of each request that had one, beside its ``VERB path``.
        store: what exists.
    """

    def __init__(
        self,
        directory: Path,
        boot: Callable[[dict[str, Any]], Vm] | None = None,
        halt: Callable[[str], None] | None = None,
    ) -> None:
        self.ca_file = directory / "compute-double-ca.pem"
        self._server = HttpsServer(_Handler, self, self.ca_file)
        self.endpoint = self._server.endpoint
        self.store = Store(f"{self.endpoint}/compute/v1", boot, halt)
        self.requests: list[str] = []
        self.bodies: list[tuple[str, Any]] = []
        self.tokens = {TOKEN}
        self.faults: list[Fault] = []
        self.page_size = 500
        self.lock = threading.Lock()
        self._server.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def fail(self, **fault: Any) -> None:
        """Let something go wrong; see :class:`Fault`."""
        self.faults.append(Fault(**fault))

    def fault(self, verb: str, path: str, body: Any) -> Fault | None:
        """What is to go wrong with this request."""
        return next((item for item in self.faults if item.fits(verb, path, body)), None)

    def options(self) -> dict[str, Any]:
        """Options for the modules, and variables for the role without its prefix."""
        return {
            "project": "test-project",
            "auth_kind": "access_token",
            "access_token": TOKEN,
            "api_endpoint": self.endpoint,
            "api_ca_file": str(self.ca_file),
        }

    def count(self, pattern: str) -> int:
        """How many requests fitted."""
        return sum(re.search(pattern, request) is not None for request in self.requests)

    def answer(self, verb: str, path: str, query: dict[str, str], body: Any) -> dict[str, Any]:
        """What the API says to a request.

        Raises:
            RefusedError: it refuses.
        """
        try:
            method, names = discovery.method_for(verb, path, set(query))
        except LookupError as error:
            raise RefusedError(
                404, "notFound", f"Not in the discovery document: {error}"
            ) from error
        if "request" in method:
            if wrong := discovery.violations(method["request"]["$ref"], body):
                raise RefusedError(400, "invalid", f"Invalid JSON payload: {'; '.join(wrong)}")
        elif body is not None:
            raise RefusedError(400, "invalid", f"{method['id']} takes no body.")
        fault = self.fault(verb, path, body)
        if (earlier := self.store.repeated(query.get("requestId", ""))) is not None:
            return earlier
        call = METHODS.get(method["id"].removeprefix("compute."))
        if call is None:
            raise RefusedError(501, "notImplemented", f"The double has no {method['id']}.")
        return call(self, names, query, body, fault)


class _Handler(QuietHandler):
    def serve(self) -> None:
        double = self.server.double
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if url.path == "/token":
            self._token(raw)
            return
        path = url.path.removeprefix("/compute/v1/")
        with double.lock:
            line = f"{self.command} {path}"
            double.requests.append(line)
            body = json.loads(raw) if raw else None
            if body is not None:
                double.bodies.append((line, body))
            double.store.settle()
            fault = next(
                (item for item in double.faults if item.fits(self.command, path, body)), None
            )
            status, answer = self._outcome(path, dict(parse_qsl(url.query)), body, fault)
            if fault:
                fault.times -= 1
        if fault and fault.lose_response:
            self.close_connection = True
            return
        self._send(status, answer)

    def _outcome(
        self, path: str, query: dict[str, str], body: Any, fault: Fault | None
    ) -> tuple[int, dict[str, Any]]:
        double = self.server.double
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in double.tokens:
            refused = RefusedError(401, "authError", "Request had invalid credentials.")
            return 401, refused.body
        if fault and fault.status:
            return fault.status, fault.error or {"error": {"code": fault.status, "message": "-"}}
        try:
            return 200, double.answer(self.command, path, query, body)
        except RefusedError as error:
            return error.status, error.body

    def _token(self, raw: bytes) -> None:
        form = dict(parse_qsl(raw.decode()))
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            self._send(400, {"error": "unsupported_grant_type"})
            return
        self._send(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        payload = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
