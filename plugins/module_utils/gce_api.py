"""A client of the Compute API: tokens, retries, pages and operations. It knows no resource."""

from __future__ import annotations

import re
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ansible.module_utils.cloud_errors import line
from ansible.module_utils.cloud_wait import Deadline, retry_after
from ansible.module_utils.gce_errors import GceError, failed, refused

try:
    import google.auth
    import google.auth.exceptions
    import google.auth.impersonated_credentials
    import google.auth.transport.requests
    import google.oauth2.credentials
    import google.oauth2.service_account
    import requests

    MISSING = ""
except ImportError as error:  # said by the module, in a sentence
    MISSING = str(error)

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDPOINT = "https://compute.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/compute"
CONNECT, READ = 10, 60  # seconds for one attempt

# Options that every module with this client takes.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "project": {"type": "str", "required": True},
    "auth_kind": {
        "type": "str",
        "choices": ["application", "service_account_file", "access_token"],
        "default": "application",
    },
    "service_account_file": {"type": "path"},
    "access_token": {"type": "str", "no_log": True},
    "impersonate": {"type": "str"},
    "api_endpoint": {"type": "str", "default": ENDPOINT},
    "api_ca_file": {"type": "path"},
    "timeout": {"type": "int", "default": 600},
}
REQUIRED_IF = [
    ("auth_kind", "service_account_file", ["service_account_file"]),
    ("auth_kind", "access_token", ["access_token"]),
]


def credentials(options: dict[str, Any], request: Any) -> Any:
    """The credentials that the options name.

    Args:
        options: ``auth_kind``, ``service_account_file``, ``access_token``, ``impersonate``.
        request: google-auth's transport, asked for application default credentials.

    Raises:
        GceError: there are none, or the file does not hold any; kind ``credentials``.
    """
    try:
        if options["auth_kind"] == "service_account_file":
            base = google.oauth2.service_account.Credentials.from_service_account_file(
                options["service_account_file"], scopes=[SCOPE]
            )
        elif options["auth_kind"] == "access_token":
            base = google.oauth2.credentials.Credentials(options["access_token"])
        else:
            base, _ = google.auth.default(scopes=[SCOPE], request=request)
        if options["impersonate"]:
            base = google.auth.impersonated_credentials.Credentials(
                base, options["impersonate"], [SCOPE]
            )
    except (google.auth.exceptions.GoogleAuthError, OSError, ValueError) as error:
        raise GceError(
            "credentials",
            f"No usable Google credentials: {line(error)}. Log in with gcloud auth "
            "application-default login, or set auth_kind; docs/clouds.md shows each way.",
        ) from error
    return base


class Api:
    """One project over one session.

    Args:
        options: the options of :data:`ARGUMENTS`.
        pauses: replaces :func:`time.sleep` in tests.

    Raises:
        GceError: the endpoint is not https, or there are no credentials.
    """

    def __init__(self, options: dict[str, Any], pauses: Any = time.sleep) -> None:
        endpoint = re.sub(r"/compute/v1/?$", "", options["api_endpoint"]).rstrip("/")
        if not endpoint.startswith("https://"):
            raise GceError("invalid", f"api_endpoint must begin with https://, not {endpoint}.")
        self.project = options["project"]
        self._base = f"{endpoint}/compute/v1"
        self._deadline = Deadline(options["timeout"], pauses, GceError)
        # Only the API's certificate may be of its own making; tokens still come from Google.
        self._trust = {"verify": options["api_ca_file"]} if options["api_ca_file"] else {}
        self._session = google.auth.transport.requests.AuthorizedSession(
            credentials(options, google.auth.transport.requests.Request())
        )

    def zonal(self, zone: str, *parts: str) -> str:
        """Path of a resource in a zone."""
        return "/".join(["projects", self.project, "zones", zone, *parts])

    def of_global(self, *parts: str) -> str:
        """Path of a global resource."""
        return "/".join(["projects", self.project, "global", *parts])

    def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Read a resource.

        Raises:
            GceError: it is refused, or there is no answer until the deadline.
        """
        return self._send("GET", path, query or {}, None)

    def find(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any] | None:
        """Read a resource that may be absent.

        Raises:
            GceError: as :meth:`get`, but for ``not-found``.
        """
        try:
            return self.get(path, query)
        except GceError as error:
            if error.kind != "not-found":
                raise
            return None

    def pages(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Every page of a list.

        Raises:
            GceError: as :meth:`get`.
        """
        token = ""
        while True:
            page = self.get(path, query | ({"pageToken": token} if token else {}))
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return
            self._deadline.wait(0, "the list has still another page")

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a change and wait until its operation is done.

        The request carries one ``requestId`` over all attempts, so that one whose response was lost
        is not carried out twice.

        Returns:
            The operation.

        Raises:
            GceError: it is refused, fails, or is not done at the deadline (kind ``deadline``).
        """
        operation = self._send(method, path, {"requestId": str(uuid.uuid4())}, body)
        return self.wait(operation)

    def wait(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Look at an operation until it is done.

        Raises:
            GceError: it failed, or is not done at the deadline (kind ``deadline``).
        """
        zone = operation.get("zone", "").rpartition("/")[2]
        scope = self.zonal(zone) if zone else self.of_global()

        def look() -> bool:
            nonlocal operation
            if operation["status"] != "DONE":
                path = f"{scope}/operations/{operation['name']}"
                operation = self.soon(lambda: self.find(path)) or self.get(path)
            return operation["status"] == "DONE"

        self.until(
            look,
            lambda: (
                f"{operation.get('operationType', 'operation')} {operation['name']} is still "
                f"{operation['status']}"
            ),
        )
        if operation.get("error"):
            raise failed(operation, project=self.project, zone=zone)
        return operation

    def until(self, look: Any, waiting_for: Any) -> Any:
        """Call ``look`` until it returns something true, and return that.

        Raises:
            GceError: the deadline passed; kind ``deadline``.
        """
        return self._deadline.until(look, waiting_for)

    def soon(self, look: Any) -> Any:
        """Call ``look`` a few times until it returns something true; what it returned last.

        Raises:
            GceError: the deadline passed; kind ``deadline``.
        """
        return self._deadline.soon(look)

    def _send(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any] | None
    ) -> dict[str, Any]:
        url = f"{self._base}/{path}" + (f"?{urlencode(query)}" if query else "")
        return self._deadline.attempts(lambda: self._attempt(method, url, body))

    def _attempt(self, method: str, url: str, body: dict[str, Any] | None) -> dict[str, Any]:
        try:
            response = self._session.request(
                method, url, json=body, timeout=(CONNECT, READ), **self._trust
            )
        except google.auth.exceptions.GoogleAuthError as error:
            raise GceError(
                "credentials",
                f"Google gave no access token: {line(error)}. Log in again, or check auth_kind "
                "and the account.",
                retriable=isinstance(error, google.auth.exceptions.TransportError),
            ) from error
        except requests.exceptions.SSLError as error:
            raise GceError(
                "unreachable",
                f"The certificate of {self._base} is not trusted. Set api_ca_file if it is a "
                "private endpoint.",
            ) from error
        except requests.exceptions.RequestException as error:
            raise GceError(
                "unreachable",
                f"{self._base} does not answer: {line(error)}. Is there a network, or a proxy "
                "to set?",
                retriable=True,
            ) from error
        try:
            payload = response.json()
        except ValueError:
            payload = None
        if not response.ok:
            raise refused(
                response.status_code,
                payload,
                project=self.project,
                zone=_zone_of(url),
                after=retry_after(response.headers.get("Retry-After")),
            )
        if not isinstance(payload, dict):
            raise GceError("server", f"{self._base} answered with something else than JSON.")
        return payload


def _zone_of(url: str) -> str:
    found = re.search(r"/zones/([^/?]+)", url)
    return found[1] if found else ""
