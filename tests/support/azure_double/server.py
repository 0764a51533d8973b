"""The double's HTTPS server: requests checked against Azure's description, and dispatched."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.azure_double import rules
from tests.support.azure_double.faults import Fault, RefusedError, refusal
from tests.support.azure_double.routes import route_for
from tests.support.azure_double.store import VM, Outcome, Store
from tests.support.https_server import HttpsServer, QuietHandler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.azure_double.store import Vm

TOKEN = "eyJ.double"  # noqa: S105 - only the double takes it
SIGNATURE = "sIgNaTuRe%2Bof%2Fthe%3Ddouble"  # of the serial log's address


class AzureDouble:
    """Resource Manager on a free port of 127.0.0.1, until it is closed.

    Args:
        directory: for its certificate authority's file.
        boot: what a VM that is made is like; called with it as the API has it.
        halt: called with the name of a VM that is gone or stopped.

    Attributes:
        endpoint: URL, for ``api_endpoint``.
        ca_file: for ``api_ca_file``.
        requests: ``VERB path`` of every request, in order.
        bodies: the body of each request that had one, beside its ``VERB path``.
        log_requests: address and status of every reading of a serial log.
        store: what exists.
    """

    def __init__(
        self,
        directory: Path,
        boot: Callable[[dict[str, Any]], Vm] | None = None,
        halt: Callable[[str], None] | None = None,
    ) -> None:
        self.ca_file = directory / "azure-double-ca.pem"
        self._server = HttpsServer(_Handler, self, self.ca_file)
        self.endpoint = self._server.endpoint
        self.store = Store(boot, halt)
        self.requests: list[str] = []
        self.bodies: list[tuple[str, Any]] = []
        self.tokens = {TOKEN}
        self.grants: list[dict[str, str]] = []
        self.log_requests: list[str] = []
        self.log_statuses: list[int] = []  # what the next readings are answered with
        self.faults: list[Fault] = []
        self.page_size = 500
        self.by_location = False  # whether operations are followed by Location alone
        self.lock = threading.Lock()
        self._server.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def fail(self, **fault: Any) -> None:
        """Let something go wrong; see :class:`Fault`."""
        self.faults.append(Fault(**fault))

    def options(self) -> dict[str, Any]:
        """Options for the modules."""
        return {
            "subscription_id": self.store.subscription,
            "resource_group": self.store.group,
            "auth_kind": "access_token",
            "access_token": TOKEN,
            "api_endpoint": self.endpoint,
            "api_ca_file": str(self.ca_file),
        }

    def count(self, pattern: str) -> int:
        """How many requests fitted."""
        return sum(re.search(pattern, request) is not None for request in self.requests)

    def answer(
        self, verb: str, path: str, query: dict[str, str], body: Any, fault: Fault | None,
        none_match: str,
    ) -> Outcome:  # fmt: skip
        """What Azure says to a request.

        Raises:
            RefusedError: it refuses.
        """
        try:
            route, names = route_for(verb, path, query)
        except LookupError as error:
            raise RefusedError(
                400, "NoRegisteredProviderFound", f"Not described: {error}"
            ) from error
        self._scope(route.kind, names)
        if route.check and (wrong := route.check(body)):
            raise RefusedError(400, "InvalidRequestContent", "; ".join(wrong))
        if route.check is None and body is not None:
            raise RefusedError(400, "InvalidRequestContent", f"{verb} {path} takes no body.")
        store, name = self.store, list(names.values())[-1]
        if route.call == "put":
            there = (route.kind, name.lower()) in store.held
            if none_match == "*" and there:
                raise RefusedError(412, "PreconditionFailed", f"{name} exists.")
            return store.put(route.kind, name, body, fault)
        if route.call == "patch":
            return store.patch(route.kind, name, body, fault)
        if route.call == "delete":
            return store.delete(route.kind, name, fault)
        return Outcome(200, self._read(route.call, route.kind, names, query))

    def _scope(self, kind: str, names: dict[str, str]) -> None:
        """See that the subscription, its group and the provider are there."""
        if names["subscription_id"] != self.store.subscription:
            wrong = names["subscription_id"]
            raise RefusedError(
                404, "SubscriptionNotFound", f"The subscription '{wrong}' could not be found."
            )
        group = names.get("resource_group_name", self.store.group)
        if group.lower() != self.store.group:
            raise RefusedError(
                404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found."
            )
        namespace = kind.partition("/")[0]
        if namespace in self.store.unregistered:
            raise RefusedError(
                409,
                "MissingSubscriptionRegistration",
                f"The subscription is not registered to use namespace '{namespace}'.",
            )

    def _read(self, call: str, kind: str, names: dict[str, str], query: dict[str, str]) -> Any:
        name = list(names.values())[-1]
        if call == "get":
            found = self.store.get(kind, name)
            if kind == VM and query.get("$expand") != "instanceView":
                inner = {k: v for k, v in found["properties"].items() if k != "instanceView"}
                return found | {"properties": inner}
            return found
        if call == "list":
            return self._page(kind, query)
        if call == "sizes":
            match = re.fullmatch(r"location eq '([a-z0-9]+)'", query.get("$filter", ""))
            if not match:
                raise RefusedError(400, "InvalidFilter", "The filter is not one of locations.")
            here = match[1]
            return {"value": [rules.sku(here, size) for size in rules.OFFERED.get(here, {})]}
        if call == "log":
            self.store.get(VM, name := names["vm_name"])
            if name not in self.store.vms:
                raise RefusedError(409, "OperationNotAllowed", "The VM has not been started.")
            return {"serialConsoleLogBlobUri": f"{self.endpoint}/logs/{name}?sv=1&sig={SIGNATURE}"}
        return self._image(call, names, query)

    @staticmethod
    def _image(call: str, names: dict[str, str], query: dict[str, str]) -> Any:
        versions, security, generation = rules.IMAGES.get(
            (names["offer"], names["skus"]), ([], "", "")
        )
        if names["publisher_name"] != "Canonical" or not versions:
            raise RefusedError(404, "NotFound", "Artifact: VMImage was not found.")
        if call == "images":
            ordered = sorted(versions, reverse=query.get("$orderby") == "name desc")
            chosen = ordered[: int(query.get("$top", "100"))]
            return [{"name": name, "location": names["location"]} for name in chosen]
        if names["version"] not in versions:
            raise RefusedError(404, "NotFound", "Artifact: VMImage was not found.")
        features = [{"name": "SecurityType", "value": security}]
        properties = {"hyperVGeneration": generation, "features": features}
        return {"name": names["version"], "location": names["location"], "properties": properties}

    def _page(self, kind: str, query: dict[str, str]) -> dict[str, Any]:
        items = self.store.named(kind)
        start = int(query.get("$skiptoken", "0"))
        end = start + self.page_size
        page: dict[str, Any] = {"value": items[start:end]}
        if end < len(items):
            path = self.store.identity(kind, "").rstrip("/")
            version = query["api-version"]
            page["nextLink"] = f"{self.endpoint}{path}?api-version={version}&$skiptoken={end}"
        return page


class _Handler(QuietHandler):
    def serve(self) -> None:
        double = self.server.double
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if re.search(r"/oauth2/v2\.0/token$|/\.well-known/", url.path):
            self._login(url.path, raw)
            return
        if url.path.startswith("/logs/"):
            self._log(url.path.rpartition("/")[2], url.query)
            return
        with double.lock:
            line = f"{self.command} {url.path}"
            double.requests.append(line)
            body = json.loads(raw) if raw else None
            if body is not None:
                double.bodies.append((line, body))
            double.store.settle()
            fault = next(
                (item for item in double.faults if item.fits(self.command, url.path)), None
            )
            query = dict(parse_qsl(url.query, keep_blank_values=True))
            outcome = self._outcome(url.path, query, body, fault)
            if fault:
                fault.times -= 1
        if fault and fault.lose_response:
            self.close_connection = True
            return
        self._send(outcome, fault.headers if fault else {})

    def _outcome(self, path: str, query: dict[str, str], body: Any, fault: Fault | None) -> Outcome:
        double = self.server.double
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in double.tokens:
            return Outcome(
                401, refusal("InvalidAuthenticationToken", "The access token is invalid.")
            )
        if fault and fault.status:
            return Outcome(fault.status, fault.error or refusal("InternalServerError", "-"))
        try:
            if match := re.fullmatch(r"/(operations|results)/([\w-]+)", path):
                return self._progress(match[1], double.store.operation(match[2]))
            none_match = self.headers.get("If-None-Match", "")
            return double.answer(self.command, path, query, body, fault, none_match)
        except RefusedError as error:
            return Outcome(error.status, error.body)

    @staticmethod
    def _progress(where: str, answer: dict[str, Any]) -> Outcome:
        if where == "operations":
            return Outcome(200, answer)
        if answer["status"] == "Failed":
            return Outcome(409, {"error": answer["error"]})
        return Outcome(202 if answer["status"] == "InProgress" else 200, {})

    def _log(self, name: str, query: str) -> None:
        """The storage that holds serial logs: it wants the signature, and nothing else."""
        double = self.server.double
        double.log_requests.append(self.path)
        if double.log_statuses:
            self._send(Outcome(double.log_statuses.pop(0), {"address": self.path}), {})
            return
        if f"sig={SIGNATURE}" not in query or self.headers.get("Authorization"):
            self._send(Outcome(403, {"address": self.path}), {})
            return
        payload = double.store.vms[name].console.encode() if name in double.store.vms else b""
        self._write(200, payload, "text/plain", {})

    def _login(self, path: str, raw: bytes) -> None:
        base = f"{self.server.double.endpoint}/tenant"
        if "well-known" in path:
            where = {
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "issuer": f"{base}/v2.0",
            }
            self._send(Outcome(200, where), {})
            return
        form = dict(parse_qsl(raw.decode()))
        self.server.double.grants.append(form)
        if form.get("client_secret") == "wrong":
            said = "AADSTS7000215: Invalid client secret provided."
            self._send(Outcome(401, {"error": "invalid_client", "error_description": said}), {})
            return
        answer = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        self._send(Outcome(200, answer), {})

    def _send(self, outcome: Outcome, headers: dict[str, str]) -> None:
        double = self.server.double
        if outcome.operation:
            headers = headers | {"Location": f"{double.endpoint}/results/{outcome.operation}"}
            if not double.by_location:
                url = f"{double.endpoint}/operations/{outcome.operation}"
                headers |= {"Azure-AsyncOperation": url}
        payload = b"" if outcome.body is None else json.dumps(outcome.body).encode()
        # An operation that is followed by Location alone is answered with 202.
        status = 202 if outcome.operation and double.by_location else outcome.status
        self._write(status, payload, "application/json", headers)

    def _write(self, status: int, payload: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if status != 204:
            self.wfile.write(payload)
