"""A VM as it is, brought to what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_body import differences, in_place, managed, tag, vm_body
from ansible.module_utils.azure_errors import AzureError
from ansible.module_utils.azure_offer import check_size, find_image
from ansible.module_utils.azure_rules import DEADLINE_TAG, MADE_TAG
from ansible.module_utils.azure_vm import ends_at, overdue, power

if TYPE_CHECKING:
    from ansible.module_utils.azure_vm import Machine

_DEADLINE, _DISK = "deadline", "disk"


def present(machine: Machine, options: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Have the VM running as the options say.

    Raises:
        AzureError: see the class of the failure in RETURN.
    """
    found = machine.settled()
    wanted = vm_body(options, "", options["image_version"], options["tags"])
    differ, fixed = _compared(machine, found, wanted) if found else ({}, [])
    if found and fixed and not options["recreate"]:
        raise AzureError(
            "needs-recreation",
            f"{machine.name} exists, and {_differs(differ, fixed)}. That needs a new VM: set "
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
        check_size(machine.api, options)
        version = find_image(machine.api, options)
        if not check:
            if action == "recreated":
                machine.delete()
            machine.create(options, version)
    elif action == "updated" and found and not check:
        _update(machine, found, differ, options["tags"])
    if check:
        return answer | ({"vm": machine.summary(found)} if found else {})
    return answer | {"vm": machine.summary(_as_asked(machine, wanted))}


def _compared(
    machine: Machine, found: dict[str, Any], wanted: dict[str, Any]
) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """Where the VM differs, and what of that only a new one can change."""
    differ = differences(wanted, found)
    states = _states(found)
    fixed = [name for name in differ if not in_place(name)] + list(states)
    if not states:
        if not machine.has_deadline(found):
            differ[_DEADLINE] = ("not set in Azure", ends_at(found))
        if not machine.disk_is_named():
            differ[_DISK] = ("without tags", "tagged")
    return differ | states, fixed


def _states(found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is wrong with the VM's state; only a new one helps."""
    states: dict[str, tuple[Any, Any]] = {}
    if power(found) != "running":
        states["status"] = (power(found), "running")
    elif overdue(found):
        states[_DEADLINE] = (f"over since {ends_at(found)}", "in the future")
    return states


def _update(
    machine: Machine, found: dict[str, Any], differ: dict[str, Any], tags: dict[str, str]
) -> None:
    every = tags | {MADE_TAG: tag(found, MADE_TAG) or "", DEADLINE_TAG: ends_at(found)}
    if _DEADLINE in differ:
        machine.set_deadline(found, every)
    if _DISK in differ:
        machine.name_disk(every)
    if "tags" in differ:
        machine.set_tags(tags)


def _as_asked(machine: Machine, wanted: dict[str, Any]) -> dict[str, Any]:
    """The VM as the API now says it is, which must be what was asked for."""
    found = machine.api.deadline.soon(machine.settled)
    if found is None or power(found) != "running":
        raise AzureError(
            "vanished",
            f"{machine.name} was made and is {power(found) if found else 'gone'} already; stopped "
            "or deleted by someone, or its deadline passed. Run again.",
        )
    if differ := differences(wanted, found):
        raise AzureError(
            "mismatch",
            f"{machine.name} was made, but the API says that {_differs(differ, list(differ))}.",
        )
    if not machine.has_deadline(found):
        raise AzureError(
            "mismatch",
            f"{machine.name} was made, but Azure will not end it at {ends_at(found)}: its "
            "auto-shutdown is not what was set. Remove it, or run again.",
        )
    return found


def _differs(differ: dict[str, tuple[Any, Any]], fields: list[str]) -> str:
    return "; ".join(
        f"{field.removeprefix('properties.')} is {_text(differ[field][0])}, not "
        f"{_text(differ[field][1])}"
        for field in fields
    )


def _text(value: Any) -> Any:
    return "unset" if value is None else value


def absent(machine: Machine, *, check: bool) -> dict[str, Any]:
    """Have the VM gone and all that belonged to it, as far as the API can tell.

    Raises:
        AzureError: see the class of the failure in RETURN.
    """
    found = machine.find()
    there = [piece for piece in machine.pieces.values() if piece.find() is not None]
    if there and not check:
        machine.delete()
    return {
        "changed": bool(there),
        "action": "deleted" if there else "none",
        "diff": {
            "before": managed(found or {}) | {piece.kind: piece.name for piece in there},
            "after": {},
        },
    }
