"""Fixtures that tests of several parts share."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import guard
from tests.support import swtpm as software_tpm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.swtpm import Swtpm

_FIXTURES = {"swtpm", "make_swtpm"}
_HERE = Path(__file__).parent
# What is not tested side by side: these share a machine, an image or a row of ports. Else a file is
# a group, for its fixtures' sake.
_GROUPS = {"vm": "machines", "molecule": "machines", "playbook": "fleets"}


def pytest_configure() -> None:
    """Run alike however the run was started, and leave no process however it ends."""
    guard.ordinary_signals()
    guard.watch()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs swtpm, and skip it where there is none; group what must share a process."""
    for item in items:
        place = Path(item.path).relative_to(_HERE)
        group = _GROUPS.get(place.parts[0], str(place.with_suffix("")))
        item.add_marker(pytest.mark.xdist_group(group))
        if _FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.swtpm)
        if item.get_closest_marker("swtpm") and not software_tpm.available:
            item.add_marker(pytest.mark.skip(reason="the program swtpm is not installed"))


@pytest.fixture
def make_swtpm(tmp_path: Path) -> Iterator[Callable[..., Swtpm]]:
    """Start software TPMs (arguments of :class:`Swtpm`); they end with the test."""
    with contextlib.ExitStack() as stack:
        made: list[Swtpm] = []

        def make(**options: object) -> Swtpm:
            tpm = software_tpm.Swtpm(tmp_path / f"swtpm-{len(made)}", **options)  # type: ignore[arg-type]
            stack.callback(tpm.stop)
            made.append(tpm)
            tpm.start()
            return tpm

        yield make


@pytest.fixture
def swtpm(make_swtpm: Callable[..., Swtpm]) -> Swtpm:
    """A started software TPM of the test's own."""
    return make_swtpm()
