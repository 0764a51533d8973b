"""A VM as it is, brought to what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.ec2_body import differences, instance_body, managed, wanted_fields
from ansible.module_utils.ec2_errors import Ec2Error
from ansible.module_utils.ec2_image import check_machine, root_device
from ansible.module_utils.ec2_instance import ends_at, summary
from ansible.module_utils.ec2_schedule import (
    remove_schedule,
    schedule,
    schedule_body,
    scheduled,
    schedules,
)

if TYPE_CHECKING:
    from ansible.module_utils.ec2_instance import Instance


def present(instance: Instance, options: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Have the VM running as the options say.

    Raises:
        Ec2Error: see the class of the failure in RETURN.
    """
    found, gone = instance.settled()
    before, wanted = _fields(instance, found), wanted_fields(options)
    differ = differences(wanted, before) if found else {}
    fixed = [name for name in differ if name != "Tags"]
    if found and found["State"]["Name"] != "running":
        fixed.append("State")
        differ["State"] = (found["State"]["Name"], "running")
    if found and fixed and not options["recreate"]:
        raise Ec2Error(
            "needs-recreation",
            f"{instance.name} exists, and {_differs(differ, fixed)}. That needs a new VM: set "
            "recreate, or remove it first.",
        )
    unscheduled = bool(found) and not fixed and not _scheduled(instance, found, options)
    action = (
        "recreated" if fixed else "updated" if differ or unscheduled else
        "none" if found else "created"
    )  # fmt: skip
    answer: dict[str, Any] = {
        "changed": action != "none",
        "action": action,
        "diff": {"before": before, "after": before if action == "none" else wanted},
    }
    number = found["InstanceId"] if found else ""
    if action in ("created", "recreated"):
        check_machine(instance.api, options)
        body = instance_body(options, root_device(instance.api, options["image"]))
        if not check:
            if found and action == "recreated":
                _remove(instance, [found])
                gone = [*gone, number]
            begun = instance.run(body, gone)
            number = begun["InstanceId"]
            if options["schedule_role"]:  # before anything is waited for
                schedule(instance.api, _schedule_of(begun, options))
    elif differ and not check:
        instance.tag(number, wanted["Tags"])
    if check:
        return answer | ({"vm": summary(found)} if found else {})
    made = _as_asked(instance, number, wanted)
    if not _scheduled(instance, made, options):
        schedule(instance.api, _schedule_of(made, options))
    return answer | {"vm": summary(made)}


def absent(instance: Instance, *, check: bool) -> dict[str, Any]:
    """Have the VM gone, with its volume and its schedule, as far as the API can tell.

    Raises:
        Ec2Error: see the class of the failure in RETURN.
    """
    there = instance.to_remove()
    answer = {
        "changed": bool(there),
        "action": "deleted" if there else "none",
        "diff": {"before": _fields(instance, there[0] if there else None), "after": {}},
    }
    if there and not check:
        _remove(instance, there)
    return answer


def _remove(instance: Instance, there: list[dict[str, Any]]) -> None:
    instance.terminate(there)
    numbers = [item["InstanceId"] for item in there]
    for item in schedules(instance.api, instance.fleet):
        if item["instance"] in numbers:
            remove_schedule(instance.api, item["name"])


def _fields(instance: Instance, found: dict[str, Any] | None) -> dict[str, Any]:
    if not found:
        return {}
    return managed(found, instance.behaviour(found["InstanceId"]))


def _schedule_of(found: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    at = ends_at(found)
    if at is None:  # the tag was compared before
        raise Ec2Error("mismatch", f"{options['name']} has no deadline in its tags.")
    return schedule_body(options["fleet"], found["InstanceId"], at, options["schedule_role"])


def _scheduled(instance: Instance, found: dict[str, Any] | None, options: dict[str, Any]) -> bool:
    """Whether the VM has the schedule that is asked for; so it is where none is asked for."""
    if not options["schedule_role"] or found is None:
        return True
    return scheduled(instance.api, _schedule_of(found, options))


def _as_asked(instance: Instance, number: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """The VM as the API now says it is, which must be what was asked for."""
    found, _ = instance.settled(number)
    if found is None or found["State"]["Name"] != "running":
        raise Ec2Error(
            "vanished",
            f"{instance.name} was made and is {found['State']['Name'] if found else 'gone'} "
            "already; terminated by someone or by AWS, or its deadline passed. Run again.",
        )
    if differ := differences(wanted, _fields(instance, found)):
        raise Ec2Error(
            "mismatch",
            f"{instance.name} was made, but the API says that {_differs(differ, list(differ))}.",
        )
    return found


def _differs(differ: dict[str, tuple[Any, Any]], fields: list[str]) -> str:
    return "; ".join(
        f"{field} is {_text(differ[field][0])}, not {_text(differ[field][1])}" for field in fields
    )


def _text(value: Any) -> Any:
    return "unset" if value is None else value
