"""What this project made in a Google Cloud project and is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_leftovers import of_age, remove_each
from ansible.module_utils.cloud_rules import OWN_LABEL, RUN_LABEL
from ansible.module_utils.gce_body import firewall_mark
from ansible.module_utils.gce_errors import GceError

if TYPE_CHECKING:
    from datetime import datetime

    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.gce_api import Api

KINDS = ("instances", "disks", "firewalls")  # in the order in which they can be removed


def leftovers(
    api: Api, fleet: str | None, *, min_age: int = 0, now: datetime | None = None
) -> list[dict[str, Any]]:
    """Everything of ours in the project.

    VMs and disks are known by their label, in every zone; firewall rules, which have none, by their
    description.

    Args:
        api: the client.
        fleet: only what belongs to this fleet; None: to any.
        min_age: seconds since it was made, at least.
        now: the present, for tests.

    Returns:
        For each: ``kind``, ``name``, ``zone`` (empty where global), ``fleet``, ``run``, ``status``,
        ``age`` in seconds, ``path``.

    Raises:
        GceError: a list is refused, or a zone could not be looked at (kind ``server``): then
            nobody can say that nothing is there.
    """
    found = [
        *(_zonal(api, kind, item) for kind in KINDS[:2] for item in _labelled(api, kind, fleet)),
        *(_firewall(api, rule) for rule in _rules(api, fleet)),
    ]
    return of_age(found, min_age, now)


def remove(api: Api, found: list[dict[str, Any]]) -> list[CloudError]:
    """Delete them, VMs first, and wait until each is gone; go on where one fails.

    A VM's boot disk goes with it, so a disk that is no longer there is no failure.

    Returns:
        What failed.
    """

    def one(item: dict[str, Any]) -> None:
        path = item["path"]
        try:
            if api.find(path) is None:
                return
            api.change("DELETE", path)
        except GceError as error:
            # Being deleted already, by its deadline or by someone else, is as good.
            if error.kind not in ("not-found", "busy"):
                raise
        api.until(lambda: api.find(path) is None, f"{item['name']} is still there")

    return remove_each(found, KINDS, one)


def _labelled(api: Api, kind: str, fleet: str | None) -> list[dict[str, Any]]:
    wanted = f"labels.{OWN_LABEL} = {fleet}" if fleet else f"labels.{OWN_LABEL}:*"
    items = []
    path = f"projects/{api.project}/aggregated/{kind}"
    for page in api.pages(path, {"filter": wanted}):
        unseen = list(page.get("unreachables", []))
        for scope, part in page.get("items", {}).items():
            items += part.get(kind, [])
            if part.get("warning", {}).get("code", "NO_RESULTS_ON_PAGE") != "NO_RESULTS_ON_PAGE":
                unseen.append(scope)
        if unseen:
            raise GceError(
                "server",
                f"{', '.join(unseen)} could not be looked at, so there may be more {kind} there; "
                "run again.",
            )
    return items


def _zonal(api: Api, kind: str, item: dict[str, Any]) -> dict[str, Any]:
    zone = item.get("zone", "").rpartition("/")[2]
    return {
        "kind": kind,
        "name": item["name"],
        "zone": zone,
        "fleet": item["labels"][OWN_LABEL],
        "run": item["labels"].get(RUN_LABEL, ""),
        "status": item.get("status", ""),
        "made": item["creationTimestamp"],
        "path": api.zonal(zone, kind, item["name"]),
    }


def _rules(api: Api, fleet: str | None) -> list[dict[str, Any]]:
    rules = [
        rule
        for page in api.pages(api.of_global("firewalls"), {})
        for rule in page.get("items", [])
        if rule.get("description", "").startswith(firewall_mark(""))
    ]
    return [rule for rule in rules if fleet is None or rule["description"] == firewall_mark(fleet)]


def _firewall(api: Api, rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "firewalls",
        "name": rule["name"],
        "zone": "",
        "fleet": rule["description"].removeprefix(firewall_mark("")),
        "run": "",
        "status": "",
        "made": rule["creationTimestamp"],
        "path": api.of_global("firewalls", rule["name"]),
    }
