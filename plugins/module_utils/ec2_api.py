"""A client of the EC2 and EventBridge Scheduler APIs through botocore. It knows no resource."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_errors import line
from ansible.module_utils.cloud_wait import Deadline, retry_after
from ansible.module_utils.ec2_errors import Ec2Error, refused

try:
    import botocore.config
    import botocore.exceptions
    import botocore.parsers
    import botocore.session

    MISSING = ""
except ImportError as error:  # said by the module, in a sentence
    MISSING = str(error)

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT, READ = 10, 60  # seconds for one attempt

# Options that every module with this client takes.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "region": {"type": "str", "required": True},
    "profile": {"type": "str"},
    "api_endpoint": {"type": "str"},
    "scheduler_endpoint": {"type": "str"},
    "api_ca_file": {"type": "path"},
    "timeout": {"type": "int", "default": 600},
}
_HOW = "Log in (aws sso login, aws configure), or set AWS_PROFILE; docs/clouds.md shows each way."


class Api:
    """One region of one account.

    Args:
        options: the options of :data:`ARGUMENTS`.
        pauses: replaces :func:`time.sleep` in tests.

    Raises:
        Ec2Error: an endpoint is not https, or the profile does not exist.
    """

    def __init__(self, options: dict[str, Any], pauses: Any = time.sleep) -> None:
        self.region = options["region"]
        self._deadline = Deadline(options["timeout"], pauses, Ec2Error)
        self._options = options
        self._clients: dict[str, Any] = {}
        self._endpoints = {
            "ec2": options["api_endpoint"],
            "scheduler": options["scheduler_endpoint"] or options["api_endpoint"],
        }
        for endpoint in self._endpoints.values():
            if endpoint and not endpoint.startswith("https://"):
                raise Ec2Error("invalid", f"An endpoint must begin with https://, not {endpoint}.")
        self._session = botocore.session.Session(profile=options["profile"])
        self.until = self._deadline.until

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Send a request, again while it fails with what may pass.

        Args:
            operation: in snake case, ``run_instances``; the scheduler's by ``scheduler.NAME``.
            parameters: in the API's spelling. A change carries its ``ClientToken``, so that one
                whose response was lost is not carried out twice.

        Raises:
            Ec2Error: it is refused, or there is no answer until the deadline.
        """
        return self._deadline.attempts(lambda: self._attempt(operation, parameters))

    def find(self, operation: str, **parameters: Any) -> dict[str, Any] | None:
        """As :meth:`call`, of something that may be absent.

        Raises:
            Ec2Error: as :meth:`call`, but for ``not-found``.
        """
        try:
            return self.call(operation, **parameters)
        except Ec2Error as error:
            if error.kind != "not-found":
                raise
            return None

    def each(self, operation: str, field: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Every item of a list, over all its pages.

        Args:
            operation: as for :meth:`call`.
            field: of the answer that holds the items.
            parameters: as for :meth:`call`.

        Raises:
            Ec2Error: as :meth:`call`.
        """
        token: dict[str, str] = {}
        while True:
            page = self.call(operation, **parameters, **token)
            yield from page.get(field) or []
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
            self._deadline.wait(0, "the list has still another page")

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            options = self._options
            self._clients[service] = self._session.create_client(
                service,
                region_name=self.region,
                endpoint_url=self._endpoints[service],
                verify=options["api_ca_file"] or None,
                config=botocore.config.Config(
                    connect_timeout=CONNECT,
                    read_timeout=READ,
                    # Repeated by the deadline's own rule, the same in every cloud.
                    retries={"total_max_attempts": 1, "mode": "standard"},
                    user_agent_extra="tpm-fleet-bench",
                ),
            )
        return self._clients[service]

    def _attempt(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        service, _, name = operation.rpartition(".")
        service = service or "ec2"
        try:
            answer: dict[str, Any] = getattr(self._client(service), name)(**parameters)
        except botocore.exceptions.ClientError as error:
            said = error.response.get("Error", {})
            answered = error.response.get("ResponseMetadata", {})
            raise refused(
                str(said.get("Code", "")),
                str(said.get("Message", "")),
                int(answered.get("HTTPStatusCode", 0)),
                region=self.region,
                operation=error.operation_name,
                service=service,
                after=retry_after(answered.get("HTTPHeaders", {}).get("retry-after")),
            ) from error
        except (
            botocore.parsers.ResponseParserError,
            botocore.exceptions.IncompleteReadError,
        ) as error:
            raise Ec2Error(
                "server",
                f"What answers for AWS is not its API, or was cut off: {line(error)}. Is a proxy "
                "in between? Run again.",
                retriable=True,
            ) from error
        except botocore.exceptions.BotoCoreError as error:
            raise self._not_sent(error) from error
        return answer

    def _not_sent(self, error: Any) -> Ec2Error:
        """Class what botocore could not send, or got no answer to."""
        exceptions, words = botocore.exceptions, line(error)
        if isinstance(error, exceptions.SSLError):
            return Ec2Error(
                "unreachable",
                f"The certificate of {self._endpoints['ec2'] or 'AWS'} is not trusted. Set "
                "api_ca_file if it is a private endpoint.",
            )
        if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError):
            known = self.region in self._session.get_available_regions("ec2")
            doubt = "" if known else f" Does AWS have a region {self.region}?"
            return Ec2Error(
                "unreachable" if known else "region",
                f"AWS does not answer: {words}. Is there a network, or a proxy to set?{doubt}",
                retriable=known,
            )
        if isinstance(error, exceptions.ParamValidationError | exceptions.InvalidRegionError):
            return Ec2Error("invalid", f"{words}.")
        # What is left comes from the chain of credentials: none, half of them, no such profile,
        # a role or a single sign-on that gave none.
        return Ec2Error("credentials", f"No usable AWS credentials: {words}. {_HOW}")
