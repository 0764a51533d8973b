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
from tests.support.compute_double.store import Store, Vm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
        call = _METHODS.get(method["id"].removeprefix("compute."))
        if call is None:
            raise RefusedError(501, "notImplemented", f"The double has no {method['id']}.")
        return call(self, names, query, body, fault)


def _insert(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    if names["zone"] not in double.store.zones:
        raise RefusedError(404, "notFound", f"The resource 'zones/{names['zone']}' was not found")
    request_id = query.get("requestId", "")
    return double.store.insert(names["project"], names["zone"], body, request_id, fault)


def _get(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    return double.store.instance(names["zone"], names["instance"])


def _deleting(kind: str, parameter: str) -> Any:
    def call(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
        return double.store.delete(
            kind,
            names["project"],
            names.get("zone", ""),
            names[parameter],
            query.get("requestId", ""),
            fault,
        )

    return call


def _setting(part: str) -> Any:
    def call(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
        return double.store.change(
            names["project"],
            names["zone"],
            names["instance"],
            body,
            query.get("requestId", ""),
            part,
        )

    return call


def _operation(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    return double.store.operation(names["operation"])


def _zone(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    if names["zone"] not in double.store.zones:
        raise RefusedError(404, "notFound", f"The resource 'zones/{names['zone']}' was not found")
    platforms = double.store.zones[names["zone"]]
    return {"name": names["zone"], "status": "UP", "availableCpuPlatforms": platforms}


def _aggregated(kind: str) -> Any:
    def call(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
        held: dict[tuple[str, str], Any] = getattr(double.store, kind)
        chosen = [item for item in held.values() if _passes(query.get("filter", ""), item)]
        page, following = _page(double, chosen, query)
        items: dict[str, Any] = {
            f"zones/{zone}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
            for zone in double.store.zones
        }
        for item in page:
            scope = f"zones/{item['zone'].rpartition('/')[2]}"
            items[scope] = {kind: [*items[scope].get(kind, []), item]}
        return {"items": items} | following

    return call


def _listed(find: Any) -> Any:
    def call(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
        chosen = [item for item in find(double, names) if _passes(query.get("filter", ""), item)]
        page, following = _page(double, chosen, query)
        return {"items": page} | following

    return call


def _named(find: Any, parameter: str) -> Any:
    def call(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
        wanted = names[parameter]
        for item in find(double, names):
            if item["name"] == wanted:
                return item
        raise RefusedError(404, "notFound", f"The resource '{wanted}' was not found")

    return call


def _images(double: ComputeDouble, names: Any) -> list[dict[str, Any]]:
    return double.store.images.get(names["project"], [])


def _firewalls(double: ComputeDouble, names: Any) -> list[dict[str, Any]]:
    return list(double.store.firewalls.values())


def _disks(double: ComputeDouble, names: Any) -> list[dict[str, Any]]:
    return [disk for (zone, _), disk in double.store.disks.items() if zone == names["zone"]]


def _insert_firewall(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    return double.store.insert_firewall(names["project"], body, query.get("requestId", ""))


def _attributes(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    double.store.instance(names["zone"], names["instance"])
    vm = double.store.vms.get(names["instance"])
    if vm is None or not vm.attributes or not vm.host_keys:
        raise RefusedError(404, "notFound", "The resource 'hostkeys/' was not found")
    items = []
    for line in vm.host_keys:
        kind, key = line.split()[:2]
        items.append({"namespace": "hostkeys", "key": kind, "value": key})
    return {"queryPath": query["queryPath"], "queryValue": {"items": items}}


def _console(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    double.store.instance(names["zone"], names["instance"])
    vm = double.store.vms.get(names["instance"], Vm())
    start = int(query.get("start", "0"))
    part = vm.console[start : start + 1000]
    return {"contents": part, "start": str(start), "next": str(start + len(part))}


def _identity(double: ComputeDouble, names: Any, query: Any, body: Any, fault: Any) -> Any:
    double.store.instance(names["zone"], names["instance"])
    keys = double.store.vms.get(names["instance"], Vm()).endorsement_keys
    fields = ("encryptionKey", "eccP256EncryptionKey")
    return {field: {"ekPub": key} for field, key in zip(fields, keys, strict=False)}


_METHODS: dict[str, Callable[[ComputeDouble, Any, Any, Any, Any], Any]] = {
    "instances.insert": _insert,
    "instances.get": _get,
    "instances.delete": _deleting("instances", "instance"),
    "instances.setLabels": _setting("labels"),
    "instances.setMetadata": _setting("metadata"),
    "instances.aggregatedList": _aggregated("instances"),
    "instances.getGuestAttributes": _attributes,
    "instances.getSerialPortOutput": _console,
    "instances.getShieldedInstanceIdentity": _identity,
    "disks.aggregatedList": _aggregated("disks"),
    "disks.get": _named(_disks, "disk"),
    "disks.delete": _deleting("disks", "disk"),
    "firewalls.list": _listed(_firewalls),
    "firewalls.get": _named(_firewalls, "firewall"),
    "firewalls.insert": _insert_firewall,
    "firewalls.delete": _deleting("firewalls", "firewall"),
    "images.list": _listed(_images),
    "images.get": _named(_images, "image"),
    "zones.get": _zone,
    "zoneOperations.get": _operation,
    "globalOperations.get": _operation,
}


def _passes(expression: str, item: dict[str, Any]) -> bool:
    """Whether an item passes a filter of the two forms that are used here."""
    if not expression:
        return True
    if found := re.fullmatch(r"labels\.([a-z0-9_-]+):\*", expression):
        return found[1] in item.get("labels", {})
    if found := re.fullmatch(r"labels\.([a-z0-9_-]+) = ([a-z0-9_-]+)", expression):
        return bool(item.get("labels", {}).get(found[1]) == found[2])
    if found := re.fullmatch(r"family = ([a-z0-9-]+)", expression):
        return bool(item.get("family") == found[1])
    raise RefusedError(400, "invalid", f"Invalid value for field 'filter': '{expression}'.")


def _page(
    double: ComputeDouble, items: list[dict[str, Any]], query: dict[str, str]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    start = int(query.get("pageToken", "0"))
    end = start + double.page_size
    return items[start:end], {"nextPageToken": str(end)} if end < len(items) else {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    double: ComputeDouble
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(request, server_side=True) as s:
            self.RequestHandlerClass(s, client_address, self)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
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
