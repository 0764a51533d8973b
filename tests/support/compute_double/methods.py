"""What each of the API's methods does to the double's state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.support.compute_double.faults import RefusedError
from tests.support.compute_double.store import Vm

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.compute_double.server import ComputeDouble


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


METHODS: dict[str, Callable[[ComputeDouble, Any, Any, Any, Any], Any]] = {
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
