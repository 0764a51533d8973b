"""A VM as it is, brought to what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.gce_body import differences, in_place, instance_body, managed
from ansible.module_utils.gce_errors import GceError
from ansible.module_utils.gce_image import find_image
from ansible.module_utils.gce_instance import summary
from ansible.module_utils.gce_rules import image_features

if TYPE_CHECKING:
    from ansible.module_utils.gce_instance import Instance


def present(instance: Instance, options: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Have the VM running as the options say.

    Raises:
        GceError: see the class of the failure in RETURN.
    """
    found = instance.settled()
    wanted = instance_body(options, "")
    differ = differences(wanted, found) if found else {}
    fixed = [name for name in differ if not in_place(name)]
    if found and found["status"] != "RUNNING":
        fixed.append("status")
        differ["status"] = (found["status"], "RUNNING")
    if found and fixed and not options["recreate"]:
        raise GceError(
            "needs-recreation",
            f"{instance.name} exists, and {_differs(differ, fixed)}. That needs a new VM: set "
            "recreate, or remove it first.",
        )
    action = "recreated" if fixed else "updated" if differ else "none" if found else "created"
    answer: dict[str, Any] = {
        "changed": action != "none",
        "action": action,
        "diff": {"before": managed(found or {}), "after": managed(wanted)},
    }
    if action == "none":
        answer["diff"]["after"] = answer["diff"]["before"]
    if action in ("created", "recreated"):
        instance.check_zone(options["min_cpu_platform"])
        image = find_image(instance.api, options, image_features(options))
        if not check:
            if action == "recreated":
                instance.delete()
            instance.insert(instance_body(options, image))
    elif action == "updated" and not check:
        for name in differ:
            instance.set(in_place(name), wanted)
    if check:
        return answer | ({"vm": summary(found)} if found else {})
    return answer | {"vm": summary(_as_asked(instance, wanted))}


def _as_asked(instance: Instance, wanted: dict[str, Any]) -> dict[str, Any]:
    """The VM as the API now says it is, which must be what was asked for."""
    found = instance.api.soon(instance.settled)
    if found is None or found["status"] != "RUNNING":
        raise GceError(
            "vanished",
            f"{instance.name} was made and is {found['status'] if found else 'gone'} already; "
            "preempted, deleted by someone, or its deadline passed. Run again.",
        )
    if differ := differences(wanted, found):
        raise GceError(
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


def absent(instance: Instance, *, check: bool) -> dict[str, Any]:
    """Have the VM gone, as far as the API can tell.

    Raises:
        GceError: see the class of the failure in RETURN.
    """
    found = instance.find()
    answer = {
        "changed": found is not None,
        "action": "deleted" if found else "none",
        "diff": {"before": managed(found or {}), "after": {}},
    }
    if found and not check:
        instance.delete()
    return answer
