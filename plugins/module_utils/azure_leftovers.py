"""What this project made in a resource group and is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_body import names, tag
from ansible.module_utils.azure_pieces import (
    ADDRESS,
    DISK,
    INTERFACE,
    NETWORK,
    SCHEDULE,
    SECURITY_GROUP,
    VM,
    gone,
    identity,
)
from ansible.module_utils.azure_rules import DEADLINE_TAG, MADE_TAG
from ansible.module_utils.cloud_leftovers import Selection, made_at, of_age, remove_each
from ansible.module_utils.cloud_rules import OWN_LABEL, RUN_LABEL

if TYPE_CHECKING:
    from datetime import datetime

    from ansible.module_utils.azure_api import Api
    from ansible.module_utils.cloud_errors import CloudError

# In the order in which they can be removed, and where the API says when one was made.
KINDS = {
    VM: "timeCreated",
    SCHEDULE: "createdDate",
    INTERFACE: "",
    ADDRESS: "",
    DISK: "timeCreated",
    SECURITY_GROUP: "",
    NETWORK: "",
}
_AROUND = names("{}")  # of kinds of which each belongs to one VM: what is around its name in theirs


def leftovers(api: Api, wanted: Selection, now: datetime | None = None) -> list[dict[str, Any]]:
    """Everything of ours in the resource group, known by its tag.

    Each type is listed by the provider that has it, not through Resource Manager's own list, which
    lags behind. What has no legible time of its making counts as old.

    Args:
        api: the client.
        wanted: which of it.
        now: the present, for tests.

    Returns:
        For each: ``kind``, ``name``, ``vm`` (name of the VM that it is or belongs to; empty for
        what is the fleet's), ``id``, ``location``, ``fleet``, ``run``, ``status``, ``age`` in
        seconds, ``path``.

    Raises:
        AzureError: a list is refused: then nobody can say that nothing is there.
    """
    there = {kind: list(api.every(api.resource(kind))) for kind in KINDS}
    ours = [
        _item(api, kind, resource, owner, now)
        for kind, resources in there.items()
        for resource in resources
        if (owner := tag(resource, OWN_LABEL)) is not None and wanted.fleet in (None, owner)
    ]
    aged = of_age(ours, wanted, now)
    kept = _used(there, {item["path"].lower() for item in aged}) if wanted.removable else set()
    return [item for item in aged if item["path"].lower() not in kept]


def remove(api: Api, found: list[dict[str, Any]]) -> list[CloudError]:
    """Delete them in the order in which that works, and wait until each is gone.

    What goes with a VM and is no longer there is no failure.

    Returns:
        What failed.
    """

    def one(item: dict[str, Any]) -> None:
        # A sweep takes minutes; meanwhile a VM may go and a run make another of its name.
        def same(found: dict[str, Any]) -> bool:
            return tag(found, OWN_LABEL) == item["fleet"] and identity(found) == item["id"]

        gone(api, item["path"], f"{item['kind'].rpartition('/')[2]} {item['name']}", same)

    return remove_each(found, tuple(KINDS), one)


def _item(
    api: Api, kind: str, resource: dict[str, Any], owner: str, now: datetime | None
) -> dict[str, Any]:
    properties = resource.get("properties") or {}
    name = resource["name"]
    item = {
        "kind": kind,
        "name": name,
        "vm": _vm_of(kind, name),
        "id": identity(resource),
        "location": resource.get("location", ""),
        "fleet": owner,
        "run": tag(resource, RUN_LABEL) or "",
        "status": str(properties.get("provisioningState", "")),
        "made": made_at(properties.get(KINDS[kind]), tag(resource, MADE_TAG), now),
        "path": api.resource(kind, name),
    }
    return item | ({"ends": tag(resource, DEADLINE_TAG)} if kind == VM else {})


def _vm_of(kind: str, name: str) -> str:
    """The VM that a resource belongs to, by its name; see :func:`azure_body.names`."""
    before, _, after = _AROUND.get(kind, "").partition("{}")
    whole = kind in _AROUND and name.startswith(before) and name.endswith(after)
    return name.removeprefix(before).removesuffix(after) if whole else ""


def _used(there: dict[str, list[dict[str, Any]]], going: set[str]) -> set[str]:
    """Lower-case ids of what something uses that stays; removing those would only fail."""
    machines = {vm["id"].lower() for vm in there[VM]}
    kept: set[str] = set()
    for kind in (VM, INTERFACE):  # an interface's turn comes when the VMs' is over
        for resource in there[kind]:
            here = resource["id"].lower()
            # An interface goes with its VM, whatever its own age.
            user = resource.get("properties", {}).get("virtualMachine", {}).get("id", "").lower()
            if here in kept or (here not in going and user not in going):
                kept |= _ids(resource.get("properties", {}), here)
    networks = {text.partition("/subnets/")[0] for text in kept}
    schedules = {
        schedule["id"].lower()
        for schedule in there[SCHEDULE]
        if _targets(schedule) in machines - going
    }
    return (kept | networks | schedules) - machines


def _targets(schedule: dict[str, Any]) -> str:
    return str(schedule.get("properties", {}).get("targetResourceId", "")).lower()


def _ids(value: Any, own: str) -> set[str]:
    """Every id of another resource that is mentioned anywhere inside."""
    if isinstance(value, dict):
        here = value.get("id")
        found = (
            {here.lower()} if isinstance(here, str) and not here.lower().startswith(own) else set()
        )
        return found.union(*(_ids(inner, own) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(_ids(inner, own) for inner in value))
    return set()
