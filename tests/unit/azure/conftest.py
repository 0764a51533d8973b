"""Options of the module as a user of each kind of VM would give them."""

from __future__ import annotations

import pytest

from tests.support import module_utils  # noqa: F401 - the import makes azure_* importable
from tests.support.azure_options import KINDS, options


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def wanted(kind: str) -> dict[str, object]:
    return options(kind)
