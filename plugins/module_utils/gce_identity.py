"""What makes a VM recognisable: its SSH host keys and the endorsement keys of its vTPM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.cloud_identity import keys_in, keys_on_console, silent
from ansible.module_utils.gce_errors import GceError
from ansible.module_utils.gce_instance import STARTING

if TYPE_CHECKING:
    from ansible.module_utils.gce_api import Api


def host_keys(api: Api, zone: str, name: str) -> tuple[str, list[str]]:
    """Wait for the VM to publish its host keys.

    The guest attributes are looked at first, then the serial console; each is written by the VM and
    read through the authenticated API, so that nobody on the network can slip in another key.

    Returns:
        Where they were read, and the keys as ``type base64``.

    Raises:
        GceError: neither may be read, no key appeared until the deadline, or the VM is none that
            could publish any (kind ``vanished``).
    """
    instance = api.zonal(zone, "instances", name)
    refusals: dict[str, GceError] = {}

    def look() -> tuple[str, list[str]] | None:
        for source, read in (("guest attributes", _attributes), ("serial console", _console)):
            try:
                keys = read(api, instance)
            except GceError as error:
                if error.kind not in ("permission", "invalid"):
                    raise
                refusals[source] = error
                continue
            refusals.pop(source, None)
            if keys:
                return source, keys
        if len(refusals) == 2:
            raise refusals["guest attributes"]
        state = (api.find(instance) or {}).get("status", "gone")
        if state not in (*STARTING, "RUNNING"):
            raise GceError("vanished", silent(name, state))
        return None

    found: tuple[str, list[str]] = api.until(
        look, f"{name} has published no SSH host keys (guest attributes, serial console)"
    )
    return found


def _attributes(api: Api, instance: str) -> list[str]:
    answer = api.find(f"{instance}/getGuestAttributes", {"queryPath": "hostkeys/"})
    items = (answer or {}).get("queryValue", {}).get("items", [])
    return keys_in(f"{item['key']} {item['value']}" for item in items)


def _console(api: Api, instance: str) -> list[str]:
    text = ""
    start = "0"
    while True:
        part = api.get(f"{instance}/serialPort", {"port": "1", "start": start})
        text += part.get("contents", "")
        if not part.get("contents") or part.get("next", start) == start:
            break
        start = part["next"]
    return keys_on_console(text)


def endorsement_keys(api: Api, zone: str, name: str) -> list[str]:
    """The public endorsement keys of the VM's Shielded VM vTPM, PEM.

    Returns:
        RSA first; empty where the API has none for this VM.

    Raises:
        GceError: they may not be read.
    """
    path = api.zonal(zone, "instances", name, "getShieldedInstanceIdentity")
    answer = api.find(path) or {}
    entries = [answer.get(field, {}) for field in ("encryptionKey", "eccP256EncryptionKey")]
    return [entry["ekPub"] for entry in entries if entry.get("ekPub")]
