"""The frame of every module for the Compute API."""

from __future__ import annotations

from functools import partial

from ansible.module_utils.cloud_module import Client, run_with
from ansible.module_utils.gce_api import ARGUMENTS, MISSING, REQUIRED_IF, Api

run = partial(
    run_with, Client(Api, ARGUMENTS, MISSING, "google-auth and requests are", REQUIRED_IF)
)
