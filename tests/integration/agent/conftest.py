"""Fixtures for tests of the agent against swtpm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.agent import Agent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.swtpm import Swtpm


@pytest.fixture
def agent(swtpm: Swtpm, tmp_path: Path) -> Agent:
    """The agent, pointed at a software TPM of the test's own."""
    return Agent(swtpm.tcti, tmp_path)
