"""What the tests of the bridge share."""

from __future__ import annotations

import pytest

import tpmtls
from tests.support.tls import Authority
from tpmtls import ec_method


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(params=["method", "provider"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which OpenSSL can be made to call back for ECDSA."""
    if request.param == "provider":

        def lacking(*_: object) -> int:
            raise tpmtls.BridgeUnavailable("OpenSSL lacks EC_KEY_METHOD_new")

        monkeypatch.setattr(ec_method, "private_key", lacking)
    return request.param
