"""The request bodies that make a VM, and how a VM that exists differs from it. Pure functions."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from ansible.module_utils.azure_rules import DEADLINE_TAG, MADE_TAG

_SECURITY = ("properties", "securityProfile")
_STORAGE = ("properties", "storageProfile")
_OS = ("properties", "osProfile")
_LINUX = (*_OS, "linuxConfiguration")

# Fields of a VM that are compared, by their path in the API's answer. What Azure fills in by itself
# is not among them. Tags are changed while the VM runs; for the others it must be made anew.
COMPARED = (
    ("location",),
    ("properties", "hardwareProfile", "vmSize"),
    (*_SECURITY, "securityType"),
    (*_SECURITY, "uefiSettings", "vTpmEnabled"),
    (*_SECURITY, "uefiSettings", "secureBootEnabled"),
    (*_STORAGE, "osDisk", "managedDisk", "securityProfile", "securityEncryptionType"),
    (*_STORAGE, "osDisk", "managedDisk", "storageAccountType"),
    (*_STORAGE, "osDisk", "deleteOption"),
    (*_STORAGE, "imageReference", "publisher"),
    (*_STORAGE, "imageReference", "offer"),
    (*_STORAGE, "imageReference", "sku"),
    (*_OS, "adminUsername"),
    (*_LINUX, "disablePasswordAuthentication"),
    (*_LINUX, "ssh", "publicKeys"),
    ("properties", "networkProfile", "networkInterfaces"),
    ("properties", "diagnosticsProfile", "bootDiagnostics", "enabled"),
    ("tags",),
)
_TAGS = "tags"
# Of these the absence counts too: whether the VM is confidential is not Azure's to choose.
_NEVER_EXTRA = (
    ".".join((*_SECURITY, "securityType")),
    ".".join((*_STORAGE, "osDisk", "managedDisk", "securityProfile", "securityEncryptionType")),
)

# Minutes between the deadline and the guest's own shutdown. Azure must be first: only it
# deallocates, and a guest that is off but allocated costs as much as one that runs.
GUEST_MINUTES_LATER = 15


def names(vm: str) -> dict[str, str]:
    """Names of what a VM consists of, by the type of each."""
    return {
        "Microsoft.Compute/virtualMachines": vm,
        # Azure's portal and the service itself know an auto-shutdown by this name alone.
        "Microsoft.DevTestLab/schedules": f"shutdown-computevm-{vm}",
        "Microsoft.Network/networkInterfaces": f"{vm}-nic",
        "Microsoft.Network/publicIPAddresses": f"{vm}-ip",
        "Microsoft.Compute/disks": f"{vm}-os",
    }


def timed(tags: dict[str, str], seconds: int, now: datetime | None = None) -> dict[str, str]:
    """Tags with the time at which something is made and its deadline, a whole minute."""
    made = (now or datetime.now(UTC)).replace(microsecond=0)
    ends = made + timedelta(seconds=seconds)
    if ends.second:  # the auto-shutdown knows hours and minutes
        ends += timedelta(seconds=60 - ends.second)
    return tags | {MADE_TAG: made.isoformat(), DEADLINE_TAG: ends.isoformat()}


def vm_body(
    options: dict[str, Any], nic: str, image_version: str, tags: dict[str, str]
) -> dict[str, Any]:
    """Build the body of ``VirtualMachines_CreateOrUpdate``.

    Args:
        options: the module's options by name, each present; None where not given.
        nic: id of the network interface.
        image_version: of the image.
        tags: of the VM; see :func:`timed`.

    Returns:
        The body, in the API's spelling. Fields that were not asked for are absent.
    """
    user = options["admin_username"]
    confidential = options["confidential_computing_type"] is not None
    managed_disk: dict[str, Any] = {"storageAccountType": options["storage_account_type"]}
    if confidential:
        managed_disk["securityProfile"] = {
            "securityEncryptionType": options["security_encryption_type"]
        }
    disk: dict[str, Any] = {
        "name": names(options["name"])["Microsoft.Compute/disks"],
        "createOption": "FromImage",
        "caching": "ReadWrite",
        "deleteOption": "Delete",
        "managedDisk": managed_disk,
    }
    if options["disk_size_gb"]:
        disk["diskSizeGB"] = options["disk_size_gb"]
    key = {
        "path": f"/home/{user}/.ssh/authorized_keys",
        "keyData": options["ssh_public_key"].strip(),
    }
    properties = {
        "hardwareProfile": {"vmSize": options["vm_size"]},
        "securityProfile": {
            "securityType": "ConfidentialVM" if confidential else "TrustedLaunch",
            "uefiSettings": {
                "vTpmEnabled": True,
                "secureBootEnabled": options["secure_boot_enabled"],
            },
        },
        "storageProfile": {
            "imageReference": {
                "publisher": options["image_publisher"],
                "offer": options["image_offer"],
                "sku": options["image_sku"],
                "version": image_version,
            },
            "osDisk": disk,
        },
        "osProfile": {
            "computerName": options["name"],
            "adminUsername": user,
            "customData": guest_shutdown(options["max_run_duration"]),
            "linuxConfiguration": {
                "disablePasswordAuthentication": True,
                "ssh": {"publicKeys": [key]},
            },
        },
        "networkProfile": {
            "networkInterfaces": [
                {"id": nic, "properties": {"primary": True, "deleteOption": "Delete"}}
            ]
        },
        # Into storage of Azure's own; the serial log holds the host keys.
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
    }
    return {"location": options["location"], "tags": tags, "properties": properties}


def guest_shutdown(seconds: int) -> str:
    """cloud-init's user data for a guest that ends itself after the deadline, base64."""
    minutes = -(-seconds // 60) + GUEST_MINUTES_LATER
    text = f"#cloud-config\nruncmd:\n  - [shutdown, -P, '+{minutes}']\n"
    return base64.b64encode(text.encode()).decode()


def schedule_body(vm: dict[str, Any], tags: dict[str, str]) -> dict[str, Any]:
    """Build the body of the VM's auto-shutdown: daily, from the minute of its deadline on.

    Args:
        vm: its ``id`` and ``location``.
        tags: with the deadline.
    """
    ends = datetime.fromisoformat(tags[DEADLINE_TAG]).astimezone(UTC)
    return {
        "location": vm["location"],
        "tags": tags,
        "properties": {
            "status": "Enabled",
            "taskType": "ComputeVmShutdownTask",
            "dailyRecurrence": {"time": f"{ends:%H%M}"},
            "timeZoneId": "UTC",
            "targetResourceId": vm["id"],
            "notificationSettings": {"status": "Disabled"},
        },
    }


def schedule_holds(found: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Whether an auto-shutdown that exists does what the wanted one would."""
    there = (found or {}).get("properties", {})
    fields = ("status", "taskType", "dailyRecurrence", "timeZoneId")
    target = there.get("targetResourceId", "").lower()
    return all(there.get(field) == wanted["properties"][field] for field in fields) and (
        target == wanted["properties"]["targetResourceId"].lower()
    )


def address_body(location: str, tags: dict[str, str]) -> dict[str, Any]:
    """Build the body of a public address that is the VM's alone."""
    return {
        "location": location,
        "tags": tags,
        "sku": {"name": "Standard"},
        "properties": {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
    }


def interface_body(
    location: str, tags: dict[str, str], *, subnet: str, group: str, address: str
) -> dict[str, Any]:
    """Build the body of a network interface.

    Args:
        location: its region.
        tags: its tags.
        subnet: id of the subnet.
        group: id of the network security group; empty for none.
        address: id of the public address; empty for none.
    """
    inner: dict[str, Any] = {
        "primary": True,
        "privateIPAllocationMethod": "Dynamic",
        "subnet": {"id": subnet},
    }
    if address:
        # It goes with the interface, which goes with the VM.
        inner["publicIPAddress"] = {"id": address, "properties": {"deleteOption": "Delete"}}
    properties: dict[str, Any] = {"ipConfigurations": [{"name": "primary", "properties": inner}]}
    if group:
        properties["networkSecurityGroup"] = {"id": group}
    return {"location": location, "tags": tags, "properties": properties}


def security_group_body(
    location: str, tags: dict[str, str], source_ranges: list[str]
) -> dict[str, Any]:
    """Build the body of a network security group that lets SSH through from some addresses."""
    rule = {
        "name": "ssh",
        "properties": {
            "access": "Allow",
            "direction": "Inbound",
            "priority": 1000,
            "protocol": "Tcp",
            "sourceAddressPrefixes": sorted(source_ranges),
            "sourcePortRange": "*",
            "destinationAddressPrefix": "*",
            "destinationPortRange": "22",
        },
    }
    rules = [rule] if source_ranges else []
    return {"location": location, "tags": tags, "properties": {"securityRules": rules}}


def network_body(location: str, tags: dict[str, str], prefix: str) -> dict[str, Any]:
    """Build the body of a virtual network with one subnet."""
    # Azure's default has changed with time; packages are to be had without a public address too.
    subnet = {
        "name": "hosts",
        "properties": {"addressPrefix": prefix, "defaultOutboundAccess": True},
    }
    return {
        "location": location,
        "tags": tags,
        "properties": {"addressSpace": {"addressPrefixes": [prefix]}, "subnets": [subnet]},
    }


def managed(vm: dict[str, Any]) -> dict[str, Any]:
    """The compared fields of a VM or of a body, by dotted name; for a diff."""
    flat = {}
    for path in COMPARED:
        value = _shown(path, _at(vm, path))
        if value not in (None, {}, [], ""):
            flat[".".join(path)] = value
    return flat


def differences(body: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where a VM is not what the body asks for.

    What the body does not mention is Azure's or the user's to choose, except whether the VM is
    confidential. Tags that others added, and the times of its creation, are not looked at.

    Returns:
        By dotted name: (what is there, what is wanted); None where there is nothing.
    """
    wanted, there = managed(body), managed(found)
    differ = {}
    for name in (".".join(path) for path in COMPARED):
        asked, seen = wanted.get(name), there.get(name)
        if isinstance(asked, dict):
            seen = {key: value for key, value in (seen or {}).items() if key in asked}
        if asked != seen and (name in wanted or name in _NEVER_EXTRA):
            differ[name] = (seen, asked)
    return differ


def in_place(name: str) -> bool:
    """Whether a field can be changed while the VM runs."""
    return name == _TAGS


def tag(resource: dict[str, Any], name: str) -> str | None:
    """A tag's value. Azure keeps the case of a tag's name, and looks it up without."""
    tags = {key.lower(): value for key, value in (resource.get("tags") or {}).items()}
    return tags.get(name.lower())


def _at(vm: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = vm
    for key in path:
        value = (value or {}).get(key)
    return value


def _shown(path: tuple[str, ...], value: Any) -> Any:
    show = _SHOWN.get(path[-1])
    return show(value) if show and value is not None else value


# How a field that has several spellings is compared, by the end of its path.
_SHOWN: dict[str, Any] = {
    "location": lambda value: value.lower().replace(" ", ""),
    # Without the comment, of which Azure need not keep anything.
    "publicKeys": lambda value: sorted(" ".join(key["keyData"].split()[:2]) for key in value),
    "networkInterfaces": lambda value: [
        item.get("properties", {}).get("deleteOption") for item in value
    ],
    "securityType": lambda value: None if value == "Standard" else value,
    _TAGS: lambda value: {
        key.lower(): text
        for key, text in value.items()
        if key.lower() not in (MADE_TAG, DEADLINE_TAG)
    },
}
