"""What makes a VM recognisable: its SSH host keys, out of its serial log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.azure_body import names
from ansible.module_utils.azure_errors import AzureError
from ansible.module_utils.azure_pieces import VM
from ansible.module_utils.azure_vm import power
from ansible.module_utils.cloud_identity import keys_on_console, silent

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api

MINUTES = "5"  # that the signed URL of the log is good for; the shortest that does


def host_keys(api: Api, name: str) -> list[str]:
    """Wait for the VM to print its host keys.

    The log is written by the VM and its address is read through the authenticated API, so that
    nobody on the network can slip in another key. The address is a secret while it lasts.

    Returns:
        The keys as ``type base64``.

    Raises:
        AzureError: the log may not be read, no key appeared until the deadline, or the VM is none
            that could print any (kind ``vanished``).
    """
    path = api.resource(VM, names(name)[VM], "retrieveBootDiagnosticsData")

    refusal = ""

    def read() -> list[str]:
        nonlocal refusal
        try:
            answer = api.ask(path, {"sasUriExpirationTimeInMinutes": MINUTES})
        except AzureError as error:
            # Azure refuses until the machine has begun to boot.
            if error.kind not in ("conflict", "busy", "invalid"):
                raise
            refusal = f"; the last answer was: {error}"
            return []
        refusal = ""
        log = answer.get("serialConsoleLogBlobUri")
        return keys_on_console(api.read_signed(log) or "") if log else []

    def look() -> list[str]:
        if keys := read():
            return keys
        found = api.find(api.resource(VM, names(name)[VM]), {"$expand": "instanceView"})
        state = power(found) if found else "gone"
        if state in ("gone", "stopped", "stopping", "deallocated", "deallocating", "Deleting"):
            raise AzureError("vanished", silent(name, state))
        return []

    return api.deadline.until(
        look, lambda: f"{name} has printed no SSH host keys on its serial console{refusal}"
    )
