"""Options of the module as a user of each kind of VM would give them."""

from __future__ import annotations

import pytest

from tests.support import module_utils  # noqa: F401 - the import makes ec2_* importable
from tests.support.ec2_options import KINDS, options


@pytest.fixture(params=sorted(KINDS))
def wanted(request: pytest.FixtureRequest) -> dict[str, object]:
    return options(request.param)
