"""What every module for Azure has in common."""

from __future__ import annotations

from ansible.module_utils import azure_api, azure_auth
from ansible.module_utils.cloud_module import Client

AZURE = Client(
    make=azure_api.Api,
    arguments=azure_api.ARGUMENTS,
    missing=azure_auth.MISSING or azure_api.MISSING,
    needs="azure-identity and requests are",
    required_if=azure_auth.REQUIRED_IF,
)
