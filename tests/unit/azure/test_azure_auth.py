"""Credentials are azure-identity's, and none is asked for a token before one is needed."""

from __future__ import annotations

from typing import Any

import pytest


def options(**changes: Any) -> dict[str, Any]:
    names = ("tenant_id", "client_id", "client_secret", "client_certificate_file", "access_token")
    return dict.fromkeys(names) | {"authority_host": "login.microsoftonline.com"} | changes


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("application", "DefaultAzureCredential"),
        ("cli", "AzureCliCredential"),
        ("managed_identity", "ManagedIdentityCredential"),
        ("service_principal", "ClientSecretCredential"),
    ],
)
def test_each_kind_is_azure_identitys(kind: str, expected: str) -> None:
    from ansible.module_utils import azure_auth

    given = options(auth_kind=kind, tenant_id="t", client_id="c", client_secret="s")  # noqa: S106
    assert type(azure_auth._credential(given)).__name__ == expected


def test_a_given_token_is_taken_as_it_is() -> None:
    from ansible.module_utils.azure_auth import token_source

    assert token_source(options(auth_kind="access_token", access_token="t"), "scope")() == "t"  # noqa: S106


def test_what_a_command_line_says_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible.module_utils.azure_auth import token_source
    from ansible.module_utils.azure_errors import AzureError

    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AzureError, match=r"az login, or set auth_kind") as failed:
        token_source(options(auth_kind="cli"), "https://management.azure.com/.default")()
    assert failed.value.kind == "credentials"
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://management.azure.com/subscriptions/s?x=1", True),
        ("https://westeurope.management.azure.com/operations/1", True),
        ("http://management.azure.com/operations/1", False),
        ("https://management.azure.com.example/operations/1", False),
        ("https://notmanagement.azure.com/operations/1", False),
        ("https://management.azure.com@192.0.2.1/operations/1", False),
    ],
)
def test_the_token_goes_to_resource_manager_alone(url: str, allowed: bool) -> None:
    from ansible.module_utils.azure_api import ENDPOINT, Api
    from ansible.module_utils.azure_errors import AzureError

    given = options(auth_kind="access_token", access_token="t") | {  # noqa: S106
        "subscription_id": "s",
        "resource_group": "g",
        "api_endpoint": ENDPOINT,
        "api_ca_file": None,
        "timeout": 10,
    }
    api = Api(given)
    if allowed:
        assert api._own(url) == url
    else:
        with pytest.raises(AzureError, match="to which no token is sent"):
            api._own(url)
