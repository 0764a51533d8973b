"""The double's HTTPS server: requests checked against botocore's models, and dispatched."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.ec2_double import model
from tests.support.ec2_double.faults import Fault, RefusedError
from tests.support.ec2_double.methods import METHODS
from tests.support.ec2_double.store import Store
from tests.support.https_server import HttpsServer, QuietHandler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.ec2_double.store import Vm

KEY, SECRET = "AKIADOUBLE", "no-secret"
_SCOPE = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request, ")


class Ec2Double:
    """The APIs on a free port of 127.0.0.1, until it is closed.

    Args:
        directory: for its certificate authority's file.
        boot: what a VM that is made is like; called with the instance as the API has it.
        halt: called with the name of a VM that is gone.

    Attributes:
        endpoint: URL, for ``api_endpoint``.
        ca_file: for ``api_ca_file``.
        requests: the operation of every request, in order.
        bodies: operation and parameters of each request, read by the model.
        stores: what exists, by region.
    """

    def __init__(
        self,
        directory: Path,
        boot: Callable[[dict[str, Any]], Vm] | None = None,
        halt: Callable[[str], None] | None = None,
    ) -> None:
        self.ca_file = directory / "ec2-double-ca.pem"
        self._server = HttpsServer(_Handler, self, self.ca_file)
        self.endpoint = self._server.endpoint
        self.stores = {
            region: Store(region, boot, halt) for region in ("eu-west-1", "us-east-2", "eu-north-1")
        }
        self.requests: list[str] = []
        self.bodies: list[tuple[str, Any]] = []
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        self._server.start()

    @property
    def store(self) -> Store:
        """What exists in the region that most tests use."""
        return self.stores["eu-west-1"]

    def page(self, size: int) -> None:
        """Have this many items at most in an answer."""
        for store in self.stores.values():
            store.page_size = size

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def fail(self, **fault: Any) -> None:
        """Let something go wrong; see :class:`Fault`."""
        self.faults.append(Fault(**fault))

    def options(self) -> dict[str, Any]:
        """Options for the modules."""
        return {
            "region": "eu-west-1",
            "api_endpoint": self.endpoint,
            "api_ca_file": str(self.ca_file),
        }

    @staticmethod
    def environment() -> dict[str, str]:
        """Credentials that it takes, and nothing that leads anywhere else."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def count(self, pattern: str) -> int:
        """How many requests fitted."""
        return sum(re.search(pattern, request) is not None for request in self.requests)

    def made(self) -> list[dict[str, Any]]:
        """The parameters of every request that makes a VM."""
        return [body for operation, body in self.bodies if operation == "RunInstances"]


class _Handler(QuietHandler):
    def serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        service = "scheduler" if self.path.startswith("/schedules") else "ec2"
        headers: dict[str, str] = {}
        with self.server.double.lock:
            try:
                fault, payload = self._answer(service, raw)
                status = 200
            except model.Invalid as error:
                fault, status = None, 400
                payload = _refusal(service, "ValidationError", f"By botocore's model: {error}")
            except RefusedError as error:
                fault, status = None, error.status
                payload = _refusal(service, error.code, error.message)
                headers["x-amzn-ErrorType"] = error.code
        if fault and fault.lose_response:
            self.close_connection = True
            return
        self.send_response(status)
        kind = "application/json" if service == "scheduler" else "text/xml"
        headers |= {"Content-Type": kind, "Content-Length": str(len(payload))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def _answer(self, service: str, raw: str) -> tuple[Fault | None, bytes]:
        """What is to go wrong, and what the API says."""
        double = self.server.double
        store = self._store(service)
        store.settle()
        operation, body = self._scheduler(raw) if service == "scheduler" else self._ec2(raw)
        double.requests.append(operation)
        double.bodies.append((operation, body))
        fault = next((item for item in double.faults if item.fits(operation, body)), None)
        if fault:
            fault.times -= 1
        if fault and fault.status:
            raise RefusedError(fault.status, fault.code, fault.message)
        if operation not in METHODS:
            raise RefusedError(501, "InvalidAction", f"The double has no {operation}.")
        return fault, _written(service, operation, METHODS[operation](store, body, fault))

    def _store(self, service: str) -> Store:
        scope = _SCOPE.match(self.headers.get("Authorization", ""))
        if scope is None:
            raise RefusedError(403, "MissingAuthenticationToken", "The request is not signed.")
        if scope[1] != KEY:
            raise RefusedError(401, "AuthFailure", "AWS was not able to validate the credentials")
        store = self.server.double.stores.get(scope[2])
        if store is None or scope[3] != service:
            raise RefusedError(403, "SignatureDoesNotMatch", "Credential should be scoped right.")
        return store

    def _ec2(self, raw: str) -> tuple[str, dict[str, Any]]:
        form = dict(parse_qsl(raw, keep_blank_values=True))
        operation, version = form.pop("Action", ""), form.pop("Version", "")
        service = model.model("ec2")
        if version != service.api_version or operation not in service.operation_names:
            raise RefusedError(400, "InvalidAction", f"There is no {operation} in {version}.")
        shape = service.operation_model(operation).input_shape
        return operation, model.from_query(shape, form)

    def _scheduler(self, raw: str) -> tuple[str, dict[str, Any]]:
        url = urlsplit(self.path)
        name = unquote(url.path).removeprefix("/schedules").strip("/")
        service = model.model("scheduler")
        for operation in service.operation_names:
            http = service.operation_model(operation).http
            path = http["requestUri"].replace("{Name}", name) if name else http["requestUri"]
            if (http["method"], path) == (self.command, unquote(url.path)):
                body = json.loads(raw) if raw else {}
                body |= dict(parse_qsl(url.query)) | ({"Name": name} if name else {})
                if "clientToken" in body:  # in the query of a deletion
                    body["ClientToken"] = body.pop("clientToken")
                shape = service.operation_model(operation).input_shape
                return operation, model.from_json(shape, body)
        raise RefusedError(404, "UnknownOperationException", f"{self.command} {self.path}")


def _written(service: str, operation: str, answer: dict[str, Any]) -> bytes:
    shape = model.model(service).operation_model(operation).output_shape
    if service == "scheduler":
        return json.dumps(model.to_json(shape, answer)).encode()
    inside = model.to_xml(shape, answer) if shape is not None else ""
    space = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
    return (
        f"<{operation}Response {space}><requestId>0</requestId>{inside}</{operation}Response>"
    ).encode()


def _refusal(service: str, code: str, message: str) -> bytes:
    if service == "scheduler":
        return json.dumps({"Message": message}).encode()
    said = f"<Code>{code}</Code><Message>{model.escape(message)}</Message>"
    return (
        f"<Response><Errors><Error>{said}</Error></Errors><RequestID>0</RequestID></Response>"
    ).encode()
