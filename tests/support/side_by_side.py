"""Which tests run in one process where pytest-xdist has several (``-n 2 --dist loadgroup``).

Its own groups, by the mark ``xdist_group``, get lost with pytest 9.2, so they are told by the path.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# These share a machine, an image or a row of ports. Else a file is a group, for its fixtures' sake.
GROUPS = {"vm": "machines", "molecule": "machines", "playbook": "fleets"}


def group(nodeid: str) -> str:
    """Return the group of a test in the directory tests."""
    path = PurePosixPath(nodeid.partition("::")[0])
    below = path.parts[path.parts.index("tests") + 1 :] if "tests" in path.parts else path.parts
    return GROUPS.get(below[0], str(path))


class Groups(LoadScopeScheduling):
    """Gives a whole group to one process; the groups that take longest come first."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        for name in GROUPS.values():
            if name in self.workqueue:
                self.workqueue.move_to_end(name, last=False)
        super()._assign_work_unit(node)
