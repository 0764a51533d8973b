"""The frame of every module for the EC2 API."""

from __future__ import annotations

from functools import partial

from ansible.module_utils.cloud_module import Client, run_with
from ansible.module_utils.ec2_api import ARGUMENTS, MISSING, Api

run = partial(run_with, Client(Api, ARGUMENTS, MISSING, "botocore is", []))
