"""What this project made in a region and is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_leftovers import Selection, made_at, of_age, remove_each
from ansible.module_utils.cloud_rules import OWN_LABEL, RUN_LABEL
from ansible.module_utils.ec2_body import MADE_TAG, tags_in
from ansible.module_utils.ec2_errors import Ec2Error
from ansible.module_utils.ec2_ingress import remove_group
from ansible.module_utils.ec2_instance import GONE, ends_at, instances, terminate
from ansible.module_utils.ec2_schedule import remove_schedule, schedules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.ec2_api import Api

# In the order in which they can be removed.
KINDS = ("instances", "schedules", "volumes", "security_groups")


def leftovers(api: Api, wanted: Selection, now: datetime | None = None) -> list[dict[str, Any]]:
    """Everything of ours in the region.

    VMs, volumes and security groups are known by their tag, schedules by their name.

    Args:
        api: the client.
        wanted: which of it.
        now: the present, for tests.

    Returns:
        For each: ``kind``, ``name``, ``vm`` (name of the VM that it is or belongs to; empty for
        what is the fleet's), ``id``, ``region``, ``fleet``, ``run``, ``status``, ``age`` in
        seconds, ``path``.

    Raises:
        Ec2Error: a list is refused.
    """
    fleet = wanted.fleet
    mine = {f"tag:{OWN_LABEL}": [fleet]} if fleet else {"tag-key": [OWN_LABEL]}
    listed = [*_instances(api, mine), *_schedules(api, fleet), *_volumes(api, mine)]
    found = [item for item in listed if _ours(item, fleet)]
    there = {item["path"] for item in found if item["kind"] == "instances"}
    for item in found:
        if item["kind"] == "schedules":  # it outlives a VM that ended before
            item["users"] = there.intersection(item["users"])
    for group in _groups(api, mine):
        users = [
            item["path"]
            for item in found
            if (item["kind"], item["fleet"]) == ("instances", group["fleet"])
        ]
        if _ours(group, fleet):
            found.append(group | {"users": users})
    return of_age(found, wanted, now)


def _ours(item: dict[str, Any], fleet: str | None) -> bool:
    """Whatever became of the filter on the way: nothing goes that is not tagged so."""
    return item["fleet"] is not None and fleet in (None, item["fleet"])


def remove(apis: dict[str, Api], found: list[dict[str, Any]]) -> list[CloudError]:
    """Remove them, VMs first, and wait until each is gone; go on where one fails.

    A VM's volume goes with it, so a volume that is no longer there is no failure.

    Args:
        apis: a client for each region.
        found: of :func:`leftovers`.

    Returns:
        What failed.
    """

    def one(item: dict[str, Any]) -> None:
        _REMOVE[item["kind"]](apis[item["region"]], item["id"])

    return remove_each(found, KINDS, one)


def _remove_volume(api: Api, number: str) -> None:
    wanted = [{"Name": "volume-id", "Values": [number]}]

    def gone() -> bool:
        try:
            api.find("delete_volume", VolumeId=number)
        except Ec2Error as error:
            if error.kind != "busy":  # its VM is just going, and takes it along
                raise
        return not list(api.each("describe_volumes", "Volumes", Filters=wanted))

    api.until(gone, f"the volume {number} is still there")


_REMOVE = {
    "instances": terminate,
    "schedules": remove_schedule,
    "volumes": _remove_volume,
    "security_groups": remove_group,
}


def _instances(api: Api, mine: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for item in instances(api, mine):
        if item["State"]["Name"] != GONE:
            yield _item(api, "instances", item["InstanceId"], item) | {
                "status": item["State"]["Name"],
                "made": made_at(item.get("LaunchTime")),
                "ends": ends_at(item),
            }


def _volumes(api: Api, mine: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for item in api.each("describe_volumes", "Volumes", Filters=_filters(mine)):
        yield _item(api, "volumes", item["VolumeId"], item) | {
            "status": item.get("State", ""),
            "made": made_at(item.get("CreateTime")),
            "users": [
                _path(api, "instances", use["InstanceId"])
                for use in item.get("Attachments", [])
                if use.get("InstanceId")
            ],
        }


def _groups(api: Api, mine: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for item in api.each("describe_security_groups", "SecurityGroups", Filters=_filters(mine)):
        yield _item(api, "security_groups", item["GroupId"], item) | {
            "vm": "",
            # Without a legible tag it is ours all the same, and of any age.
            "made": made_at(None, tags_in(item).get(MADE_TAG)),
        }


def _schedules(api: Api, fleet: str | None) -> Iterator[dict[str, Any]]:
    for item in schedules(api, fleet):
        yield _item(api, "schedules", item["name"], {}) | {
            "vm": "",
            "fleet": item["fleet"],
            "made": made_at(item["made"]),
            "users": [_path(api, "instances", item["instance"])],
        }


def _item(api: Api, kind: str, number: str, resource: dict[str, Any]) -> dict[str, Any]:
    tags = tags_in(resource)
    return {
        "kind": kind,
        "name": tags.get("Name", number),
        "vm": tags.get("Name", number),
        "id": number,
        "region": api.region,
        "fleet": tags.get(OWN_LABEL),
        "run": tags.get(RUN_LABEL, ""),
        "status": "",
        "path": _path(api, kind, number),
    }


def _path(api: Api, kind: str, number: str) -> str:
    return f"{api.region}/{kind}/{number}"


def _filters(wanted: dict[str, list[str]]) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": values} for name, values in wanted.items()]
