"""A client of Azure Resource Manager: retries, pages and operations. It knows no resource."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from ansible.module_utils import cloud_wait
from ansible.module_utils.azure_auth import ARGUMENTS as AUTHENTICATION
from ansible.module_utils.azure_auth import token_source
from ansible.module_utils.azure_errors import AzureError, refused

try:
    import requests

    MISSING = ""
except ImportError as error:  # said by the module, in a sentence
    MISSING = str(error)

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDPOINT = "https://management.azure.com"
CONNECT, READ = 10, 60  # seconds for one attempt
LARGEST_LOG = 8 << 20  # bytes that are read of a VM's serial log

# One version of each resource type's API. Those of Microsoft.Compute and Microsoft.Network are the
# ones that azure-mgmt-compute 39.0.0 and azure-mgmt-network 33.1.0 describe, against which the
# tests check every request; that of Microsoft.DevTestLab is the only one that is not a preview.
VERSIONS = {
    "Microsoft.Compute": "2026-04-01",
    "Microsoft.Compute/disks": "2026-03-02",
    "Microsoft.Compute/skus": "2021-07-01",
    "Microsoft.Network": "2026-03-01",
    "Microsoft.DevTestLab": "2018-09-15",
}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "subscription_id": {"type": "str", "required": True},
    "resource_group": {"type": "str", "required": True},
    **AUTHENTICATION,
    "api_endpoint": {"type": "str", "default": ENDPOINT},
    "api_ca_file": {"type": "path"},
    "timeout": {"type": "int", "default": 900},
}


@dataclass(frozen=True)
class Operation:
    """A change that Azure has accepted.

    Attributes:
        path: of the resource.
        watch: URL of the operation's state; empty where there is nothing to wait for.
        by_status: whether that URL answers with a state in its body, rather than by its status.
    """

    path: str
    watch: str
    by_status: bool


class Api:
    """One resource group over one session.

    Args:
        options: the options of :data:`ARGUMENTS`.
        pauses: replaces :func:`time.sleep` in tests.

    Raises:
        AzureError: the endpoint is not https, or there are no credentials.
    """

    def __init__(self, options: dict[str, Any], pauses: Any = time.sleep) -> None:
        self._endpoint = options["api_endpoint"].rstrip("/")
        if not self._endpoint.startswith("https://"):
            raise AzureError(
                "invalid", f"api_endpoint must begin with https://, not {self._endpoint}."
            )
        self.subscription = options["subscription_id"]
        self.group = options["resource_group"]
        self.deadline = cloud_wait.Deadline(options["timeout"], pauses, AzureError)
        # Only the API's certificate may be of its own making; tokens still come from Microsoft.
        self._trust = {"verify": options["api_ca_file"]} if options["api_ca_file"] else {}
        self._token = token_source(options, f"{self._endpoint}/.default")
        self._session = requests.Session()

    def resource(self, kind: str, name: str = "", *rest: str) -> str:
        """Path of a resource of the group, or of all of a kind.

        Args:
            kind: such as ``Microsoft.Compute/virtualMachines``.
            name: its name.
            rest: what follows.
        """
        of_group = f"resourceGroups/{quote(self.group)}/providers/{kind}"
        return self.of_subscription(of_group, *([quote(name)] if name else []), *rest)

    def of_subscription(self, *parts: str) -> str:
        """Path of something that the subscription has."""
        return "/".join(["/subscriptions", quote(self.subscription), *parts])

    def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Read a resource.

        Raises:
            AzureError: it is refused, or there is no answer until the deadline.
        """
        answer: dict[str, Any] = self._json(self._send("GET", self._url(path, query or {})))
        return answer

    def find(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any] | None:
        """Read a resource that may be absent.

        Raises:
            AzureError: as :meth:`get`, but for ``not-found``.
        """
        try:
            return self.get(path, query)
        except AzureError as error:
            if error.kind != "not-found":
                raise
            return None

    def every(self, path: str, query: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """Every entry of a list, page after page.

        Raises:
            AzureError: as :meth:`get`.
        """
        url = self._url(path, query or {})
        while url:
            page = self._json(self._send("GET", self._own(url)), (dict, list))
            if isinstance(page, list):  # some lists have no pages
                yield from page
                return
            yield from page.get("value") or []
            url = page.get("nextLink") or ""
            if url:
                self.deadline.wait(0, "the list has still another page")

    def ask(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        """Send a POST that is answered at once.

        Raises:
            AzureError: as :meth:`get`.
        """
        answer: dict[str, Any] = self._json(self._send("POST", self._url(path, query)))
        return answer

    def change(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a change and wait until it is done; see :meth:`begin`, :meth:`wait`."""
        self.wait(self.begin(method, path, body, headers))

    def begin(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Operation:
        """Send a change. PUT, PATCH and DELETE mean the same when they are sent twice.

        Raises:
            AzureError: it is refused, or there is no answer until the deadline.
        """
        response = self._send(method, self._url(path, {}), body, headers)
        status, location = (
            response.headers.get(name, "") for name in ("Azure-AsyncOperation", "Location")
        )
        if status:
            return Operation(path, self._own(status), by_status=True)
        # A finished change may name its resource's location too.
        if location and response.status_code == 202:
            return Operation(path, self._own(location), by_status=False)
        return Operation(path, "", by_status=False)

    def wait(self, operation: Operation) -> None:
        """Look at an operation until it is done.

        Raises:
            AzureError: it failed, or is not done at the deadline (kind ``deadline``).
        """
        every = cloud_wait.FIRST_PAUSE
        while operation.watch:
            response = self.deadline.soon(lambda: self._looked(operation.watch)) or self._send(
                "GET", operation.watch
            )
            answer = self._json(response) if operation.by_status else {}
            state = answer.get("status", "") if operation.by_status else ""
            if state in ("Failed", "Canceled"):
                raise refused(0, answer or {"error": {"code": state}}, group=self.group)
            if state == "Succeeded" or (not operation.by_status and response.status_code != 202):
                return
            self.deadline.wait(
                max(every, cloud_wait.retry_after(response.headers.get("Retry-After"))),
                f"{operation.path.rpartition('/')[2]} is still {state or 'under way'}",
            )
            every = min(every * 2, cloud_wait.LONGEST_LOOK)

    def _looked(self, watch: str) -> requests.Response | None:
        """What an operation's URL answers; None while it is not known there."""
        try:
            return self._send("GET", watch)
        except AzureError as error:
            if error.kind != "not-found":
                raise
            return None

    def read_signed(self, url: str) -> str | None:
        """Read what a signed URL leads to, of which nothing may get into a message.

        No token is sent, no redirection followed.

        Returns:
            The text; None where there is nothing yet.

        Raises:
            AzureError: it cannot be read; the sentence names the host alone.
        """
        host, trust = self._storage(url)
        status, body = 0, b""
        try:
            with requests.get(
                url, timeout=(CONNECT, READ), allow_redirects=False, stream=True, **trust
            ) as response:
                status = response.status_code
                if status in (404, 409):
                    return None
                body = response.raw.read(LARGEST_LOG, decode_content=True)
        except (requests.exceptions.RequestException, OSError, ValueError):
            status = 0  # the cause's words contain the address, so they are not passed on
        if status != 200:
            said = f"answers with HTTP status {status}" if status else "does not answer"
            raise AzureError(
                "unreachable",
                f"The serial log cannot be read: {host} {said}. Is a proxy or a firewall in "
                "between? Run again.",
            )
        return body.decode(errors="replace")

    def _storage(self, url: str) -> tuple[str, dict[str, Any]]:
        """The host of a signed URL, and the certificates that it is checked against."""
        try:
            address = urlsplit(url)
        except ValueError:
            address = urlsplit("")
        if address.scheme != "https":
            raise AzureError("invalid", "Azure names no https address for the serial log.")
        own = address.netloc == urlsplit(self._endpoint).netloc
        return str(address.hostname), self._trust if own else {}

    def _url(self, path: str, query: dict[str, str]) -> str:
        kinds = path.rpartition("/providers/")[2].split("/")
        version = VERSIONS.get("/".join(kinds[:2])) or VERSIONS[kinds[0]]
        return (
            f"{self._endpoint}{path}?{urlencode({'api-version': version} | query, quote_via=quote)}"
        )

    def _own(self, url: str) -> str:
        """A URL that Azure named, if the token may be sent there: the endpoint or a host in it."""
        named, here = urlsplit(url), urlsplit(self._endpoint)
        inside = named.netloc == here.netloc or named.netloc.endswith(f".{here.netloc}")
        if named.scheme != "https" or not inside:
            raise AzureError(
                "server",
                f"{self._endpoint} names an address on {named.hostname}, to which no token is "
                "sent; set api_endpoint to the one that it uses.",
            )
        return url

    def _send(
        self,
        method: str,
        url: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> requests.Response:
        return self.deadline.attempts(lambda: self._attempt(method, url, body, headers or {}))

    def _attempt(
        self, method: str, url: str, body: dict[str, Any] | None, headers: dict[str, str]
    ) -> requests.Response:
        try:
            response = self._session.request(
                method,
                url,
                json=body,
                headers=headers | {"Authorization": f"Bearer {self._token()}"},
                timeout=(CONNECT, READ),
                allow_redirects=False,
                **self._trust,
            )
        except requests.exceptions.SSLError as error:
            raise AzureError(
                "unreachable",
                f"The certificate of {self._endpoint} is not trusted. Set api_ca_file if it is a "
                "private endpoint.",
            ) from error
        except requests.exceptions.RequestException as error:
            raise AzureError(
                "unreachable",
                f"{self._endpoint} does not answer ({type(error).__name__}). Is there a network, "
                "or a proxy to set?",
                retriable=True,
            ) from error
        if not response.ok:
            try:
                payload = response.json()
            except ValueError:
                payload = None
            raise refused(
                response.status_code,
                payload,
                group=self.group,
                after=cloud_wait.retry_after(response.headers.get("Retry-After")),
            )
        return response

    def _json(self, response: requests.Response, kinds: tuple[type, ...] = (dict,)) -> Any:
        try:
            payload = response.json()
        except ValueError:
            payload = None
        if not isinstance(payload, kinds):
            raise AzureError("server", f"{self._endpoint} answered with something else than JSON.")
        return payload
