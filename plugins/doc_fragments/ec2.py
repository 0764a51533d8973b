"""Documentation of the options that every module for the EC2 API takes."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by ansible-doc under the name ``ec2``."""

    DOCUMENTATION = r"""
options:
  region:
    description: Region, such as V(eu-west-1).
    type: str
    required: true
  profile:
    description: >-
      Profile of the shared configuration files. Not given, botocore looks where every AWS tool
      does; E(AWS_PROFILE), E(AWS_ACCESS_KEY_ID), the files, a container's or a VM's own role.
    type: str
  api_endpoint:
    description: Where the EC2 API is, if not at its usual place; for private endpoints and tests.
    type: str
  scheduler_endpoint:
    description: The same for EventBridge Scheduler. Not given, O(api_endpoint) where that is.
    type: str
  api_ca_file:
    description: Certificates that the endpoint's is checked against, instead of the usual ones.
    type: path
  timeout:
    description: Seconds for everything the task does, waiting included.
    type: int
    default: 600
requirements:
  - botocore on the control node; it is in requirements/control.lock.
"""
