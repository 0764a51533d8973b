"""The deadline that AWS keeps: a one-time schedule that terminates one VM and then deletes itself.

A schedule has no tags, so its name says whose it is.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_rules import OWN_LABEL
from ansible.module_utils.ec2_errors import Ec2Error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ansible.module_utils.ec2_api import Api

TARGET = "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
# A name has 64 characters at most: a fleet's may have 40, an instance's id has 19.
_PREFIX = "tfb."
_NAME = re.compile(r"tfb\.([a-z0-9-]+)\.(i-[0-9a-f]+)")


def schedule_body(fleet: str, number: str, at: datetime, role: str) -> dict[str, Any]:
    """Build the parameters of ``CreateSchedule``.

    Args:
        fleet: whose the VM is.
        number: the VM's id.
        at: when it ends, in UTC.
        role: ARN of the role that may terminate it.
    """
    name = f"{_PREFIX}{fleet}.{number}"
    return {
        "Name": name,
        "Description": f"{OWN_LABEL}={fleet}",
        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": TARGET,
            "RoleArn": role,
            "Input": json.dumps({"InstanceIds": [number]}),
        },
    }


def scheduled(api: Api, body: dict[str, Any]) -> bool:
    """Whether this very schedule is there.

    Raises:
        Ec2Error: it cannot be read.
    """
    found = api.find("scheduler.get_schedule", Name=body["Name"]) or {}
    compared = [name for name in body if name not in ("Description", "Target")]
    return all(found.get(name) == body[name] for name in compared) and all(
        found["Target"].get(name) == value for name, value in body["Target"].items()
    )


def schedule(api: Api, body: dict[str, Any]) -> None:
    """Have it; one of that name that differs is made anew.

    Raises:
        Ec2Error: refused.
    """
    remove_schedule(api, body["Name"])
    try:
        api.call("scheduler.create_schedule", **body, ClientToken=str(uuid.uuid4()))
    except Ec2Error as error:
        # An earlier attempt got through after all.
        if error.kind != "conflict" or not scheduled(api, body):
            raise


def remove_schedule(api: Api, name: str) -> None:
    """Remove it; one that is gone already too.

    Raises:
        Ec2Error: refused.
    """
    api.find("scheduler.delete_schedule", Name=name)


def schedules(api: Api, fleet: str | None) -> Iterator[dict[str, Any]]:
    """Schedules of ours: by name, and only if what they do is to terminate.

    Yields:
        ``name``, ``fleet``, ``instance``, ``made``.

    Raises:
        Ec2Error: the list is refused.
    """
    prefix = f"{_PREFIX}{fleet}." if fleet else _PREFIX
    for item in api.each("scheduler.list_schedules", "Schedules", NamePrefix=prefix):
        name = _NAME.fullmatch(item["Name"])
        if name and item["Target"]["Arn"] == TARGET and fleet in (None, name[1]):
            yield {
                "name": item["Name"],
                "fleet": name[1],
                "instance": name[2],
                "made": item["CreationDate"],
            }
