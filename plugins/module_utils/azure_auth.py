"""Access tokens for Azure Resource Manager, in every way that azure-identity gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_errors import AzureError

try:
    import azure.core.exceptions
    import azure.identity

    MISSING = ""
except ImportError as error:  # said by the module, in a sentence
    MISSING = str(error)

if TYPE_CHECKING:
    from collections.abc import Callable

LOGIN = "login.microsoftonline.com"
# Authorities that Microsoft's directory of authorities knows; others are not looked up there.
_KNOWN = (LOGIN, "login.microsoftonline.us", "login.partner.microsoftonline.cn")

# Options that every module with this client takes.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "auth_kind": {
        "type": "str",
        "choices": ["application", "cli", "service_principal", "managed_identity", "access_token"],
        "default": "application",
    },
    "tenant_id": {"type": "str"},
    "client_id": {"type": "str"},
    "client_secret": {"type": "str", "no_log": True},
    "client_certificate_file": {"type": "path"},
    "access_token": {"type": "str", "no_log": True},
    "authority_host": {"type": "str", "default": LOGIN},
}
REQUIRED_IF = [
    ("auth_kind", "service_principal", ["tenant_id", "client_id"]),
    ("auth_kind", "service_principal", ["client_secret", "client_certificate_file"], True),
    ("auth_kind", "access_token", ["access_token"]),
]


def token_source(options: dict[str, Any], scope: str) -> Callable[[], str]:
    """What gives a valid access token each time it is called.

    Args:
        options: those of :data:`ARGUMENTS`.
        scope: what the token is for.

    Raises:
        AzureError: there are no credentials (kind ``credentials``); here, or when it is called.
    """
    if options["auth_kind"] == "access_token":
        return lambda: str(options["access_token"])
    try:
        credential = _credential(options)
    except (ValueError, OSError, azure.core.exceptions.ClientAuthenticationError) as error:
        raise _unusable(error) from error

    def token() -> str:
        try:
            return str(credential.get_token(scope).token)
        except azure.core.exceptions.AzureError as error:
            raise _unusable(error) from error

    return token


def _credential(options: dict[str, Any]) -> Any:
    host = options["authority_host"]
    authority = {"authority": host, "disable_instance_discovery": host not in _KNOWN}
    kind = options["auth_kind"]
    if kind == "cli":
        return azure.identity.AzureCliCredential(tenant_id=options["tenant_id"] or "")
    if kind == "managed_identity":
        return azure.identity.ManagedIdentityCredential(client_id=options["client_id"])
    if kind == "application":
        return azure.identity.DefaultAzureCredential(
            managed_identity_client_id=options["client_id"],
            # A play has nobody in front of it, and no desktop.
            exclude_interactive_browser_credential=True,
            exclude_visual_studio_code_credential=True,
            exclude_shared_token_cache_credential=True,
            **authority,
        )
    names = (options["tenant_id"], options["client_id"])
    if options["client_certificate_file"]:
        return azure.identity.CertificateCredential(
            *names, options["client_certificate_file"], **authority
        )
    return azure.identity.ClientSecretCredential(*names, options["client_secret"], **authority)


def _unusable(error: Exception) -> AzureError:
    # azure-identity puts its advice on the lines after the first; the chain's first line says
    # nothing, and the attempts are listed below it.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = (lines or [type(error).__name__])[0].rstrip(".:")[:300]
    return AzureError(
        "credentials",
        f"No usable Azure credentials: {said}. Log in with az login, or set auth_kind; "
        "docs/clouds.md shows each way.",
    )
