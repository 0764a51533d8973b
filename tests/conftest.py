"""Fixtures that tests of several parts share."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import guard
from tests.support import swtpm as software_tpm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.swtpm import Swtpm

_FIXTURES = {"swtpm", "make_swtpm"}


def pytest_configure() -> None:
    """Run alike however the run was started, and leave no process however it ends."""
    guard.ordinary_signals()
    guard.watch()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep together what must share a process."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.support.side_by_side import Groups

    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs swtpm, and skip it where there is none."""
    for item in items:
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
