"""What Azure refuses although its description allows it, and what it offers. Seen on 2026-11-30.

Sources are named in docs/clouds.md. This shares nothing with the modules that it stands against.
"""

from __future__ import annotations

from typing import Any

# By region and size: the capability ConfidentialComputingType. And what a subscription is denied.
OFFERED: dict[str, dict[str, str | None]] = {
    "westeurope": {
        "Standard_DC2as_v5": "SNP",
        "Standard_EC2as_v5": "SNP",
        "Standard_DC2as_v6": "SNP",
        "Standard_DC2es_v6": "TDX",
        "Standard_EC2es_v6": "TDX",
        "Standard_D2as_v5": None,
        "Standard_D2s_v6": None,
    },
    "northeurope": {"Standard_DC2as_v5": "SNP", "Standard_D2as_v5": None},
}
RESTRICTED = {("northeurope", "Standard_DC2as_v5")}
# Offer, SKU: versions, and what the newest says that it can do.
IMAGES: dict[tuple[str, str], tuple[list[str], str, str]] = {
    ("ubuntu-24_04-lts", "cvm"): (
        ["24.04.202609010", "24.04.202611030"],
        "ConfidentialVmSupported",
        "V2",
    ),
    ("ubuntu-24_04-lts", "server"): (
        ["24.04.202609010", "24.04.202611050"],
        "TrustedLaunchSupported",
        "V2",
    ),
    ("ubuntu-24_04-lts", "server-gen1"): (["24.04.202611050"], "TrustedLaunchSupported", "V1"),
}
USERS_REFUSED = {"admin", "administrator", "root", "guest", "test", "user", "azure"}


def sku(location: str, size: str) -> dict[str, Any]:
    """One entry of the list of sizes."""
    technology = OFFERED[location][size]
    capabilities = [{"name": "vCPUs", "value": "2"}, {"name": "HyperVGenerations", "value": "V2"}]
    if technology:
        capabilities.append({"name": "ConfidentialComputingType", "value": technology})
    restricted = (location, size) in RESTRICTED
    restriction = {
        "type": "Location",
        "values": [location],
        "reasonCode": "NotAvailableForSubscription",
    }
    return {
        "resourceType": "virtualMachines",
        "name": size,
        "locations": [location],
        "capabilities": capabilities,
        "restrictions": [restriction] if restricted else [],
    }


def refusal(body: dict[str, Any]) -> tuple[str, str] | None:
    """Code and message with which Azure would not make this VM; None if it would.

    Args:
        body: of the PUT, valid by the description.
    """
    properties = body["properties"]
    size = properties["hardwareProfile"]["vmSize"]
    offered = OFFERED.get(body["location"], {})
    if size not in offered:
        return "InvalidParameter", f"The requested VM size {size} is not available here."
    if (body["location"], size) in RESTRICTED:
        return "SkuNotAvailable", f"The requested VM size {size} is currently not available."
    if properties["osProfile"]["adminUsername"] in USERS_REFUSED:
        return "InvalidParameter", "The Admin Username specified is not allowed."
    return _security(properties, offered[size]) or _image(properties)


def _security(properties: dict[str, Any], technology: str | None) -> tuple[str, str] | None:
    security = properties.get("securityProfile", {})
    confidential = security.get("securityType") == "ConfidentialVM"
    size = properties["hardwareProfile"]["vmSize"]
    if confidential != (technology is not None):
        kind = security.get("securityType", "Standard")
        return "BadRequest", f"The VM size {size} is not supported for security type {kind}."
    uefi = security.get("uefiSettings", {})
    disk = properties["storageProfile"]["osDisk"]["managedDisk"].get("securityProfile", {})
    encryption = disk.get("securityEncryptionType")
    if confidential and not (uefi.get("vTpmEnabled") and encryption):
        return "BadRequest", "A Confidential VM needs vTpmEnabled and securityEncryptionType."
    if not confidential and encryption:
        return "BadRequest", "securityEncryptionType can be set for Confidential VMs only."
    if encryption == "DiskWithVMGuestState" and not uefi.get("secureBootEnabled"):
        return "BadRequest", "DiskWithVMGuestState needs secureBootEnabled."
    return None


def _image(properties: dict[str, Any]) -> tuple[str, str] | None:
    reference = properties["storageProfile"]["imageReference"]
    found = IMAGES.get((reference["offer"], reference["sku"]))
    if found is None or reference["version"] not in found[0]:
        return "PlatformImageNotFound", "The platform image is not available."
    kind = properties["securityProfile"]["securityType"]
    if kind.lower() not in found[1].lower() or found[2] == "V1":
        return "BadRequest", f"The image does not support security type {kind}."
    return None
