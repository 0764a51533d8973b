"""What this project made in a region and is still there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_leftovers import of_age, remove_each
from ansible.module_utils.cloud_rules import OWN_LABEL, RUN_LABEL
from ansible.module_utils.ec2_body import MADE_TAG, tags_in
from ansible.module_utils.ec2_errors import Ec2Error
from ansible.module_utils.ec2_ingress import remove_group
from ansible.module_utils.ec2_instance import GONE, instances, terminate
from ansible.module_utils.ec2_schedule import remove_schedule, schedules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.ec2_api import Api

# In the order in which they can be removed.
KINDS = ("instances", "schedules", "volumes", "security_groups")


def leftovers(
    api: Api, fleet: str | None, *, min_age: int = 0, now: datetime | None = None
) -> list[dict[str, Any]]:
    """Everything of ours in the region.

    VMs, volumes and security groups are known by their tag, schedules by their name. A security
    group is as young as the youngest VM of its fleet, since it cannot go before it.

    Args:
        api: the client.
        fleet: only what belongs to this fleet; None: to any.
        min_age: seconds since it was made, at least.
        now: the present, for tests.

    Returns:
        For each: ``kind``, ``name``, ``id``, ``region``, ``fleet``, ``run``, ``status``, ``age``
        in seconds, ``path``.

    Raises:
        Ec2Error: a list is refused.
    """
    mine = {f"tag:{OWN_LABEL}": [fleet]} if fleet else {"tag-key": [OWN_LABEL]}
    found = [
        *_instances(api, mine),
        *_schedules(api, fleet),
        *_volumes(api, mine),
    ]
    youngest: dict[str, str] = {}
    for item in found:
        if item["kind"] == "instances":
            youngest[item["fleet"]] = max(item["made"], youngest.get(item["fleet"], ""))
    for group in _groups(api, mine):
        made = max(group["made"], youngest.get(group["fleet"], ""))
        found.append(group | {"made": made})
    return of_age(found, min_age, now)


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
                "made": _text(item["LaunchTime"]),
            }


def _volumes(api: Api, mine: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for item in api.each("describe_volumes", "Volumes", Filters=_filters(mine)):
        yield _item(api, "volumes", item["VolumeId"], item) | {
            "status": item["State"],
            "made": _text(item["CreateTime"]),
        }


def _groups(api: Api, mine: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for item in api.each("describe_security_groups", "SecurityGroups", Filters=_filters(mine)):
        yield _item(api, "security_groups", item["GroupId"], item) | {
            # Without the tag it is ours all the same, and of any age.
            "made": tags_in(item).get(MADE_TAG, "1970-01-01T00:00:00+00:00"),
        }


def _schedules(api: Api, fleet: str | None) -> Iterator[dict[str, Any]]:
    for item in schedules(api, fleet):
        yield _item(api, "schedules", item["name"], {}) | {
            "fleet": item["fleet"],
            "made": _text(item["made"]),
        }


def _item(api: Api, kind: str, number: str, resource: dict[str, Any]) -> dict[str, Any]:
    tags = tags_in(resource)
    return {
        "kind": kind,
        "name": tags.get("Name", number),
        "id": number,
        "region": api.region,
        "fleet": tags.get(OWN_LABEL, ""),
        "run": tags.get(RUN_LABEL, ""),
        "status": "",
        "path": f"{api.region}/{kind}/{number}",
    }


def _filters(wanted: dict[str, list[str]]) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": values} for name, values in wanted.items()]


def _text(moment: datetime) -> str:
    # All in one form, so that they can be compared as text.
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
