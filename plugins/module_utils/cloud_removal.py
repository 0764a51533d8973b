"""How one resource of a cloud is removed, whatever else is done to it meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.cloud_errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Found = dict[str, Any]


class Removal(NamedTuple):
    """A resource that is to go.

    Attributes:
        find: what is at its place; None where nothing is.
        delete: asks for its removal, and may wait for it.
        same: whether what is at its place now is what is to go. Names are given again; another
            one is left alone, and means that ours is gone.
        going: whether it is being removed already.
        passing: kinds of refusals that pass: someone was first, or something else is being done
            to it. It is asked again.
        words: the sentence for the time that it is still there.
    """

    find: Callable[[], Found | None]
    delete: Callable[[], object]
    same: Callable[[Found], bool]
    going: Callable[[Found], bool]
    passing: Collection[str]
    words: str


def gone(until: Callable[..., object], what: Removal) -> None:
    """Have a resource removed, also one that is being removed already.

    Args:
        until: calls a function until it returns something true, or the deadline passes; see
            :meth:`cloud_wait.Deadline.until`.
        what: the resource.

    Raises:
        CloudError: refused, or still there at the deadline (with the last refusal).
    """
    refusal = ""

    def is_gone(found: Found | None) -> bool:
        return found is None or not what.same(found)

    def look() -> bool:
        nonlocal refusal
        found = what.find()
        if found is None or is_gone(found):
            return True
        if what.going(found):
            return False
        try:
            what.delete()
            refusal = ""
        except CloudError as error:
            if error.kind not in what.passing:
                raise
            refusal = f"; the last answer was: {error}"
        return is_gone(what.find())

    until(look, lambda: f"{what.words}{refusal}")
