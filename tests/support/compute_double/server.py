"""The double's HTTPS server: requests checked against the discovery document, and dispatched."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import trustme

from tests.support.compute_double import discovery
from tests.support.compute_double.faults import Fault, RefusedError
from tests.support.compute_double.methods import METHODS
from tests.support.compute_double.store import Store

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
        authority = trustme.CA()
        self.ca_file = directory / "compute-double-ca.pem"
        authority.cert_pem.write_to_path(self.ca_file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.double = self
        self._server.context = context
        self.endpoint = f"https://127.0.0.1:{self._server.server_port}"
        self.store = Store(f"{self.endpoint}/compute/v1", boot, halt)
        self.requests: list[str] = []
        self.bodies: list[tuple[str, Any]] = []
        self.tokens = {TOKEN}
        self.faults: list[Fault] = []
        self.page_size = 500
        self.lock = threading.Lock()
        serve = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        serve.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    double: ComputeDouble
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(request, server_side=True) as s:
            self.RequestHandlerClass(s, client_address, self)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write an answer; the second of two would wait for an acknowledgement
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
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
