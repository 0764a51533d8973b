"""Documentation of the options that every module for Azure takes."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by ansible-doc under the name ``azure``."""

    DOCUMENTATION = r"""
options:
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  resource_group:
    description:
      - Resource group in which everything is made. It must exist; the modules neither make nor
        remove one, since there may be more in it than theirs.
    type: str
    required: true
  auth_kind:
    description:
      - Where the credentials come from, through azure-identity.
      - V(application) tries the environment (E(AZURE_CLIENT_ID) and its companions), a workload or
        managed identity, and the log-ins of command lines, in that order. V(cli) is C(az login)
        alone.
    type: str
    choices: [application, cli, service_principal, managed_identity, access_token]
    default: application
  tenant_id:
    description: Tenant, for V(service_principal) and V(cli).
    type: str
  client_id:
    description: >-
      Application id for V(service_principal); that of a user-assigned identity for
      V(managed_identity) and V(application).
    type: str
  client_secret:
    description: Secret of the service principal.
    type: str
  client_certificate_file:
    description: >-
      Certificate of the service principal with its private key, PEM or PKCS 12 without a password,
      on the control node.
    type: path
  access_token:
    description: An access token, such as C(az account get-access-token) prints.
    type: str
  authority_host:
    description: Host that gives tokens. Another one is for other clouds and for tests.
    type: str
    default: login.microsoftonline.com
  api_endpoint:
    description: Where Resource Manager is. Another one is for other clouds and for tests.
    type: str
    default: https://management.azure.com
  api_ca_file:
    description: Certificates that the endpoint's is checked against, instead of the usual ones.
    type: path
  timeout:
    description: Seconds for everything the task does, waiting for operations included.
    type: int
    default: 900
requirements:
  - azure-identity and requests on the control node; they are in requirements/control.lock.
"""
