"""Evidence that firmware tables and the cloud's metadata service give."""

from __future__ import annotations

import http.client
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpmbench.platform import sources
from tpmbench.platform.model import Evidence
from tpmbench.platform.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tpmbench.platform.host import Host

# The link-local address that all three use; it never leaves the host.
ADDRESS = ("169.254.169.254", 80)
TIMEOUT_S = 1.0
_LONGEST_ANSWER = 1024

_DMI = "/sys/class/dmi/id/"


def _dmi(name: str) -> Callable[[Host], str | None]:
    return lambda host: host.text(_DMI + name) or None


_NO_DMI = "no firmware tables here (a container, or a machine without them)"

READERS = (
    Reader(sources.DMI_VENDOR, _dmi("sys_vendor"), (("", "the machine's maker"),), _NO_DMI),
    Reader(sources.DMI_PRODUCT, _dmi("product_name"), (("", "the machine's model"),), _NO_DMI),
    Reader(sources.DMI_BIOS, _dmi("bios_vendor"), (("", "the firmware's maker"),), _NO_DMI),
)


@dataclass(frozen=True)
class Question:
    """One thing to ask a metadata service.

    Attributes:
        name: What is asked for.
        path: Where it is, with the query.
        says: What an answer tells.
    """

    name: str
    path: str
    says: str


@dataclass(frozen=True)
class Cloud:
    """A cloud whose guests name it in their firmware tables.

    Attributes:
        name: Its name.
        dmi_file: The file below /sys/class/dmi/id that names it.
        dmi_value: What it reads there.
        questions: What is asked.
        headers: Headers that it wants.
        session_path: Where a session token comes from first; None where none is needed.
        session_headers: Headers of the request for the token.
        session_header: Header that carries the token.
    """

    name: str
    dmi_file: str
    dmi_value: str
    questions: tuple[Question, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    session_path: str | None = None
    session_headers: Mapping[str, str] = field(default_factory=dict)
    session_header: str = ""


_AZURE_PATH = "/metadata/instance/compute/{}?api-version=2021-12-13&format=text"

CLOUDS = (
    Cloud(
        "GCE",
        "product_name",
        "Google Compute Engine",
        (
            Question(
                "machine type",
                "/computeMetadata/v1/instance/machine-type",
                "the machine type; this service does not tell of a TEE",
            ),
        ),
        {"Metadata-Flavor": "Google"},
    ),
    Cloud(
        "AWS",
        "sys_vendor",
        "Amazon EC2",
        (
            Question(
                "instance type",
                "/latest/meta-data/instance-type",
                "the instance type; this service does not tell of a TEE",
            ),
        ),
        session_path="/latest/api/token",
        session_headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"},
        session_header="X-aws-ec2-metadata-token",
    ),
    Cloud(
        "Azure",
        "chassis_asset_tag",
        "7783-7084-3265-9085-8269-3286-77",  # the same on every Azure guest
        (
            Question("vmSize", _AZURE_PATH.format("vmSize"), "the size of the machine"),
            Question(
                "securityType",
                _AZURE_PATH.format("securityProfile/securityType"),
                "ConfidentialVM: what was asked of the cloud was a TEE",
            ),
        ),
        {"Metadata": "true"},
    ),
)


def cloud_of(host: Host) -> Cloud | None:
    """Returns the cloud that the host's firmware tables name, or None."""
    return next((c for c in CLOUDS if host.text(_DMI + c.dmi_file) == c.dmi_value), None)


def observe_metadata(
    host: Host, *, ask: bool, address: tuple[str, int] = ADDRESS
) -> Iterable[Evidence]:
    """Asks the metadata service of the cloud that DMI names; no other machine is asked.

    Args:
        host: The host.
        ask: False: nothing is sent.
        address: Host and port of the service.

    Yields:
        One piece of evidence for each question, or one that says why none was asked.
    """
    cloud = cloud_of(host)
    if cloud is None or not ask:
        reason = "not asked: DMI names no cloud that is known" if ask else "not asked, as requested"
        yield Evidence(sources.METADATA, None, reason)
        return
    headers: dict[str, str] | None = dict(cloud.headers)
    if cloud.session_path is not None:
        token = _request(address, "PUT", cloud.session_path, cloud.session_headers)
        headers = {cloud.session_header: token} if token else None
    for question in cloud.questions:
        answer = None if headers is None else _request(address, "GET", question.path, headers)
        # Google answers projects/NUMBER/machineTypes/NAME; whose project is not ours to tell.
        value = answer.rsplit("/", 1)[-1] or None if answer else None
        says = question.says if value else "no answer; that proves nothing"
        yield Evidence(f"{sources.METADATA}: {cloud.name} {question.name}", value, says)


def _request(
    address: tuple[str, int], method: str, path: str, headers: Mapping[str, str]
) -> str | None:
    # http.client takes no proxy from the environment: the question must not leave the host.
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        body = response.read(_LONGEST_ANSWER).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if response.status == 200 else None
