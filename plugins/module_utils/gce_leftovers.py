"""What this project made in a Google Cloud project and is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_leftovers import Selection, made_at, of_age, remove_each
from ansible.module_utils.cloud_rules import OWN_LABEL, RUN_LABEL
from ansible.module_utils.gce_body import firewall_mark
from ansible.module_utils.gce_errors import GceError
from ansible.module_utils.gce_instance import ends_at, gone

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.gce_api import Api

KINDS = ("instances", "disks", "firewalls")  # in the order in which they can be removed


def leftovers(api: Api, wanted: Selection, now: datetime | None = None) -> list[dict[str, Any]]:
    """Everything of ours in the project.

    VMs and disks are known by their label, in every zone; firewall rules, which have none, by their
    description.

    Args:
        api: the client.
        wanted: which of it.
        now: the present, for tests.

    Returns:
        For each: ``kind``, ``name``, ``vm`` (the VM that it is or belongs to; empty for a rule),
        ``id``, ``zone`` (empty where global), ``fleet``, ``run``, ``status``, ``age`` in seconds,
        ``path``.

    Raises:
        GceError: a list is refused, or a zone could not be looked at (kind ``server``): then
            nobody can say that nothing is there.
    """
    found = [
        _zonal(api, kind, item) for kind in KINDS[:2] for item in _labelled(api, kind, wanted.fleet)
    ]
    for rule in _rules(api, wanted.fleet):
        item = _firewall(api, rule)
        # Without it nobody reaches those VMs any more.
        item["users"] = [
            other["path"]
            for other in found
            if (other["kind"], other["fleet"]) == ("instances", item["fleet"])
        ]
        found.append(item)
    return of_age(found, wanted, now)


def remove(api: Api, found: list[dict[str, Any]]) -> list[CloudError]:
    """Delete them, VMs first, and wait until each is gone; go on where one fails.

    A VM's boot disk goes with it, so a disk that is no longer there is no failure.

    Returns:
        What failed.
    """

    def one(item: dict[str, Any]) -> None:
        gone(api, item["path"], item["name"], _is(item))

    return remove_each(found, KINDS, one)


def _is(item: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Tells whether what is at a path now is still what was listed there, and still ours.

    A sweep takes minutes; meanwhile a VM may end by itself and a run make another of its name.
    """

    def same(found: dict[str, Any]) -> bool:
        if item["kind"] == "firewalls":
            ours = found.get("description") == firewall_mark(item["fleet"])
        else:
            ours = (found.get("labels") or {}).get(OWN_LABEL) == item["fleet"]
        return ours and str(found.get("id", "")) == item["id"]

    return same


def _labelled(api: Api, kind: str, fleet: str | None) -> list[dict[str, Any]]:
    wanted = f"labels.{OWN_LABEL} = {fleet}" if fleet else f"labels.{OWN_LABEL}:*"
    items = []
    path = f"projects/{api.project}/aggregated/{kind}"
    for page in api.pages(path, {"filter": wanted}):
        unseen = list(page.get("unreachables") or [])
        for scope, part in (page.get("items") or {}).items():
            items += part.get(kind) or []
            code = (part.get("warning") or {}).get("code", "NO_RESULTS_ON_PAGE")
            if code != "NO_RESULTS_ON_PAGE":
                unseen.append(scope)
        if unseen:
            raise GceError(
                "server",
                f"{', '.join(unseen)} could not be looked at, so there may be more {kind} there; "
                "run again.",
            )
    # Whatever became of the filter on the way: nothing goes that is not labelled so.
    whose = [((item.get("labels") or {}).get(OWN_LABEL), item) for item in items]
    return [item for owner, item in whose if owner is not None and fleet in (None, owner)]


def _zonal(api: Api, kind: str, item: dict[str, Any]) -> dict[str, Any]:
    zone = item.get("zone", "").rpartition("/")[2]
    shown = {
        "kind": kind,
        "name": item["name"],
        "vm": item["name"],  # a boot disk is called like its VM
        "id": str(item.get("id", "")),
        "zone": zone,
        "fleet": item["labels"][OWN_LABEL],
        "run": item["labels"].get(RUN_LABEL, ""),
        "status": item.get("status", ""),
        "made": made_at(item.get("creationTimestamp")),
        "path": api.zonal(zone, kind, item["name"]),
    }
    if kind == "instances":
        return shown | {"ends": ends_at(item)}
    # URLs, of which only the end is the same in every spelling.
    users = (user.rpartition("/projects/")[2] for user in item.get("users") or [])
    return shown | {"users": [f"projects/{user}" for user in users]}


def _rules(api: Api, fleet: str | None) -> list[dict[str, Any]]:
    rules = [
        rule
        for page in api.pages(api.of_global("firewalls"), {})
        for rule in page.get("items") or []
        if (rule.get("description") or "").startswith(firewall_mark(""))
    ]
    return [rule for rule in rules if fleet is None or rule["description"] == firewall_mark(fleet)]


def _firewall(api: Api, rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "firewalls",
        "name": rule["name"],
        "vm": "",
        "id": str(rule.get("id", "")),
        "zone": "",
        "fleet": rule["description"].removeprefix(firewall_mark("")),
        "run": "",
        "status": "",
        "made": made_at(rule.get("creationTimestamp")),
        "path": api.of_global("firewalls", rule["name"]),
    }
