"""What this project left in a cloud: how old it is, and its removal one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def of_age(
    items: Iterable[dict[str, Any]], min_age: int, now: datetime | None = None
) -> list[dict[str, Any]]:
    """Those made at least ``min_age`` seconds ago; ``made`` (RFC 3339) becomes ``age`` (s)."""
    present = now or datetime.now(UTC)
    found = [
        {name: value for name, value in item.items() if name != "made"}
        | {"age": int((present - datetime.fromisoformat(item["made"])).total_seconds())}
        for item in items
    ]
    return [item for item in found if item["age"] >= min_age]


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
