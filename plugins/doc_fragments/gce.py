"""Documentation of the options that every module for the Compute API takes."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by ansible-doc under the name ``gce``."""

    DOCUMENTATION = r"""
options:
  project:
    description: Id of the Google Cloud project.
    type: str
    required: true
  auth_kind:
    description:
      - Where the credentials come from.
      - V(application) are the application default credentials
        (C(gcloud auth application-default login), E(GOOGLE_APPLICATION_CREDENTIALS),
        or the account of the VM that Ansible runs on).
    type: str
    choices: [application, service_account_file, access_token]
    default: application
  service_account_file:
    description: Key file of a service account, on the control node.
    type: path
  access_token:
    description: An OAuth access token, such as C(gcloud auth print-access-token) prints.
    type: str
  impersonate:
    description: E-mail address of a service account to act as; the credentials must be allowed to.
    type: str
  api_endpoint:
    description: Where the Compute API is. Another one is for private endpoints and for tests.
    type: str
    default: https://compute.googleapis.com
  api_ca_file:
    description: Certificates that the endpoint's is checked against, instead of the usual ones.
    type: path
  timeout:
    description: Seconds for everything the task does, waiting for operations included.
    type: int
    default: 600
requirements:
  - google-auth and requests on the control node; they are in requirements/control.lock.
"""
