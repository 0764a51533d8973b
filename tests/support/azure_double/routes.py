"""Which requests there are: verb, path, query and version, out of Azure's own client code."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from azure.mgmt.compute.operations import _operations as compute
from azure.mgmt.network.operations import _operations as network

from tests.support.azure_double import schema

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Route:
    """One request that the double knows.

    Attributes:
        verb: HTTP's.
        path: pattern, with a group for each name in it.
        query: names of parameters that may be there, besides the version.
        version: of the API, which must be named.
        kind: the resource type.
        call: what it does, in the double's words.
        check: says what is wrong with a body; None where there must be none.
    """

    verb: str
    path: re.Pattern[str]
    query: frozenset[str]
    version: str
    kind: str
    call: str
    check: Callable[[Any], list[str]] | None = None


# (what it does, resource type, the client's function, (package, model) of the body)
_VM, _DISK = "Microsoft.Compute/virtualMachines", "Microsoft.Compute/disks"
_NIC = "Microsoft.Network/networkInterfaces"
_IP = "Microsoft.Network/publicIPAddresses"
_NSG = "Microsoft.Network/networkSecurityGroups"
_VNET = "Microsoft.Network/virtualNetworks"
_TABLE: list[tuple[str, str, Any, tuple[str, str] | None]] = [
    ("get", _VM, compute.build_virtual_machines_get_request, None),
    (
        "put",
        _VM,
        compute.build_virtual_machines_create_or_update_request,
        ("compute", "VirtualMachine"),
    ),
    (
        "patch",
        _VM,
        compute.build_virtual_machines_update_request,
        ("compute", "VirtualMachineUpdate"),
    ),
    ("delete", _VM, compute.build_virtual_machines_delete_request, None),
    ("list", _VM, compute.build_virtual_machines_list_request, None),
    ("log", _VM, compute.build_virtual_machines_retrieve_boot_diagnostics_data_request, None),
    ("get", _DISK, compute.build_disks_get_request, None),
    ("patch", _DISK, compute.build_disks_update_request, ("compute", "DiskUpdate")),
    ("delete", _DISK, compute.build_disks_delete_request, None),
    ("list", _DISK, compute.build_disks_list_by_resource_group_request, None),
    ("sizes", "Microsoft.Compute/skus", compute.build_resource_skus_list_request, None),
    ("images", "Microsoft.Compute/images", compute.build_virtual_machine_images_list_request, None),
    ("image", "Microsoft.Compute/images", compute.build_virtual_machine_images_get_request, None),
]
for _kind, _word, _model in (
    (_NIC, "network_interfaces", "NetworkInterface"),
    (_IP, "public_ip_addresses", "PublicIPAddress"),
    (_NSG, "network_security_groups", "NetworkSecurityGroup"),
    (_VNET, "virtual_networks", "VirtualNetwork"),
):
    _TABLE += [
        ("get", _kind, getattr(network, f"build_{_word}_get_request"), None),
        (
            "put",
            _kind,
            getattr(network, f"build_{_word}_create_or_update_request"),
            ("network", _model),
        ),
        ("delete", _kind, getattr(network, f"build_{_word}_delete_request"), None),
        ("list", _kind, getattr(network, f"build_{_word}_list_request"), None),
    ]


def _check(model: tuple[str, str]) -> Callable[[Any], list[str]]:
    return lambda body: schema.violations(*model, body)


def _route(call: str, kind: str, build: Any, model: tuple[str, str] | None) -> Route:
    """Let the client build the request with a name in each place, and read off what it is."""
    parameters = inspect.signature(build).parameters.values()
    named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    optional = {
        p.name: 5 if "int" in str(p.annotation) else "x"
        for p in parameters
        if p.kind is p.KEYWORD_ONLY and p.name not in ("etag", "match_condition")
    }
    request = build(*(f"X{name}X" for name in named), **optional)
    address = urlsplit(request.url)
    pattern = re.sub(r"X([a-z_]+)X", r"(?P<\1>[^/]+)", re.escape(address.path))
    query = dict(parse_qsl(address.query))
    version = query.pop("api-version")
    return Route(
        request.method,
        re.compile(pattern, re.IGNORECASE),
        frozenset(query),
        version,
        kind,
        call,
        _check(model) if model else None,
    )


def _schedule(call: str, verb: str, *, named: bool) -> Route:
    path = (
        r"/subscriptions/(?P<subscription_id>[^/]+)/resourceGroups/(?P<resource_group_name>[^/]+)"
        r"/providers/Microsoft\.DevTestLab/schedules"
    )
    return Route(
        verb,
        re.compile(path + (r"/(?P<name>[^/]+)" if named else ""), re.IGNORECASE),
        frozenset({"$expand", "$filter", "$top", "$orderby"}),
        "2018-09-15",
        "Microsoft.DevTestLab/schedules",
        call,
        (lambda body: [error.message for error in schema.SCHEDULE.iter_errors(body)])
        if verb == "PUT"
        else None,
    )


@functools.cache
def table() -> list[Route]:
    """Every request that the double knows."""
    return [
        *(_route(*row) for row in _TABLE),
        _schedule("get", "GET", named=True),
        _schedule("put", "PUT", named=True),
        _schedule("delete", "DELETE", named=True),
        _schedule("list", "GET", named=False),
    ]


def route_for(verb: str, path: str, query: dict[str, str]) -> tuple[Route, dict[str, str]]:
    """The route that a request means, and the names in its path.

    Raises:
        LookupError: Azure has no such request, parameter or version.
    """
    for route in table():
        match = route.path.fullmatch(path)
        if route.verb != verb or not match:
            continue
        # Where a list goes on is the service's to say.
        unknown = set(query) - route.query - {"api-version", "$skiptoken"}
        if unknown:
            raise LookupError(f"{verb} {path} has no parameter {', '.join(sorted(unknown))}")
        if query.get("api-version") != route.version:
            raise LookupError(
                f"the client describes version {route.version} of {route.kind}, not "
                f"{query.get('api-version')}"
            )
        return route, match.groupdict()
    raise LookupError(f"there is no {verb} {path}")
