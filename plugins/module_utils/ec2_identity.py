"""What makes a VM recognisable: its SSH host keys and the endorsement keys of its NitroTPM."""

from __future__ import annotations

import base64
import textwrap
from typing import TYPE_CHECKING

from ansible.module_utils.cloud_identity import keys_on_console, silent
from ansible.module_utils.ec2_errors import Ec2Error
from ansible.module_utils.ec2_instance import instances

if TYPE_CHECKING:
    from ansible.module_utils.ec2_api import Api

EK_TYPES = ("rsa-2048", "ecc-sec-p384")


def host_keys(api: Api, number: str) -> list[str]:
    """Wait for the VM to print its host keys on its console.

    The console is written by the VM and read through the authenticated API, so that nobody on the
    network can slip in another key.

    Raises:
        Ec2Error: it may not be read, no key appeared until the deadline, or the VM is none that
            could print any (kind ``vanished``).
    """

    def look() -> list[str]:
        # The API keeps the last 64 KiB; without Latest it is what it was right after the boot.
        answer = api.call("get_console_output", InstanceId=number, Latest=True)
        keys = keys_on_console(answer.get("Output", ""))  # botocore has decoded it
        if not keys:
            for found in instances(api, {"instance-id": [number]}):
                if found["State"]["Name"] not in ("pending", "running"):
                    raise Ec2Error("vanished", silent(number, found["State"]["Name"]))
        return keys

    return api.until(look, f"{number} has printed no SSH host keys on its console")


def endorsement_keys(api: Api, number: str) -> list[str]:
    """The public endorsement keys of the VM's NitroTPM, PEM.

    Returns:
        RSA first; empty where the API has none for this VM.

    Raises:
        Ec2Error: they may not be read.
    """
    found = []
    for kind in EK_TYPES:
        try:
            answer = api.call(
                "get_instance_tpm_ek_pub", InstanceId=number, KeyType=kind, KeyFormat="der"
            )
        except Ec2Error as error:
            if error.kind not in ("image", "invalid", "machine-type", "not-found"):
                raise
            continue
        if value := answer.get("KeyValue"):
            found.append(_pem(value))
    return found


def _pem(value: str) -> str:
    body = base64.b64encode(base64.b64decode(value)).decode()
    lines = "\n".join(textwrap.wrap(body, 64))
    return f"-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n"
