"""What this project left in a cloud: its age, whether it may go, and its removal one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.cloud_errors import CloudError
from ansible.module_utils.cloud_rules import LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_LONG_AGO = "1970-01-01T00:00:00+00:00"
_CLOCKS_DIFFER = timedelta(minutes=5)

# What an item has for the functions below, besides what is returned of it.
_PRIVATE = ("made", "ends", "users")

# Options of every module that lists leftovers; each has "kinds" besides.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["listed", "absent"], "default": "listed"},
    "fleet": {"type": "str"},
    "min_age": {"type": "int", "default": 0},
    "keep_until_deadline": {"type": "bool", "default": False},
}


class Selection(NamedTuple):
    """Which of what is there is meant.

    Attributes:
        fleet: only what belongs to this fleet; None: to any.
        min_age: seconds since it was made, at least. What was made a moment ago is 0 s old even
            where the cloud's clock is ahead of this machine's, so that 0 leaves nothing out.
        kinds: only these; all where there are none.
        own_deadline: leave out VMs whose own deadline is still to come.
        removable: leave out what a VM uses that stays.
    """

    fleet: str | None = None
    min_age: int = 0
    kinds: Collection[str] = ()
    own_deadline: bool = False
    removable: bool = False

    @classmethod
    def of(cls, options: dict[str, Any]) -> Selection:
        """What the options of such a module select."""
        return cls(
            options["fleet"],
            options["min_age"],
            options["kinds"] or (),
            options["keep_until_deadline"],
            removable=options["state"] == "absent",
        )


def broken(options: dict[str, Any]) -> list[str]:
    """Sentences about the options of such a module.

    A name that is empty or has a wildcard in it must never come to mean other fleets.
    """
    fleet, says = options["fleet"], []
    if fleet is not None and not fleet.strip():
        says.append("fleet is empty; name one, or leave it out for every fleet.")
    elif fleet is not None and not LABEL.fullmatch(fleet):
        says.append(f"fleet must be small letters, digits and hyphens, not '{fleet}'.")
    if options["min_age"] < 0:
        says.append(f"min_age must be 0 s or more, not {options['min_age']} s.")
    return says


def moment(text: Any) -> datetime | None:
    """A time as a cloud or a label says it; None where it is none. Anyone may edit a label."""
    try:
        when = text if isinstance(text, datetime) else datetime.fromisoformat(str(text or ""))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def made_at(known: Any, edited: Any = None, now: datetime | None = None) -> str:
    """When something was made, RFC 3339; long ago where nobody can tell.

    Args:
        known: what the cloud itself says; believed even where its clock is ahead of this machine's.
        edited: what a label says, which anyone may have changed; believed unless it is to come.
        now: the present, for tests.
    """
    if (when := moment(known)) is not None:
        return when.isoformat()
    when = moment(edited)
    possible = when is not None and when <= (now or datetime.now(UTC)) + _CLOCKS_DIFFER
    return when.isoformat() if when is not None and possible else _LONG_AGO


def of_age(
    items: Iterable[dict[str, Any]], wanted: Selection, now: datetime | None = None
) -> list[dict[str, Any]]:
    """Those of the items, all of one fleet or of any, that are selected.

    Args:
        items: each with ``path``, ``kind``, ``made`` (RFC 3339), and where there is one ``ends``
            (RFC 3339, its own deadline) and ``users`` (paths of the VMs that use it).
        wanted: the selection.
        now: the present, for tests.

    Returns:
        The items, with ``age`` (s) instead.
    """
    present = now or datetime.now(UTC)
    old = []
    for item in items:
        if wanted.kinds and item["kind"] not in wanted.kinds:
            continue
        age = max(0, int((present - (moment(item["made"]) or present)).total_seconds()))
        ends = moment(item.get("ends"))
        lasts = wanted.own_deadline and ends is not None and ends > present
        if age >= wanted.min_age and not lasts:
            old.append(item | {"age": age})
    going = {item.get("path") for item in old}
    return [
        {name: value for name, value in item.items() if name not in _PRIVATE}
        for item in old
        if not wanted.removable or going.issuperset(item.get("users", ()))
    ]


def remove_each(
    found: list[dict[str, Any]], kinds: tuple[str, ...], remove: Callable[[dict[str, Any]], None]
) -> list[CloudError]:
    """Remove each, in the order of ``kinds``, and go on where one fails.

    Args:
        found: items with ``kind``.
        kinds: in the order in which they can be removed.
        remove: removes one and returns when it is gone; of one that is gone already too.

    Returns:
        What failed.
    """
    failures = []
    for item in sorted(found, key=lambda item: kinds.index(item["kind"])):
        try:
            remove(item)
        except CloudError as error:
            failures.append(error)
    return failures


def swept(
    found: list[dict[str, Any]],
    *,
    wanted: bool,
    check: bool,
    remove: Callable[[list[dict[str, Any]]], list[CloudError]],
) -> dict[str, Any]:
    """The answer of a module that lists leftovers, or removes them.

    Args:
        found: what there is.
        wanted: whether it is to be removed.
        check: whether only to say so.
        remove: removes them and returns what failed.

    Raises:
        CloudError: something could not be removed; its class is the first's.
    """
    failures = remove(found) if wanted and not check else []
    if failures:
        words = " ".join(str(failure) for failure in failures)
        raise CloudError(failures[0].kind, words, found=found)
    return {"changed": wanted and bool(found), "found": found}
