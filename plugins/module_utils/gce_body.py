"""The request body that makes a VM, and how a VM that exists differs from it. Pure functions."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.cloud_rules import OWN_LABEL

# Fields of an instance that are compared, by their path in the API's answer. What the API fills in
# by itself is not among them. Those with a method can be changed while the VM runs.
COMPARED = {
    ("machineType",): None,
    ("minCpuPlatform",): None,
    ("confidentialInstanceConfig", "confidentialInstanceType"): None,
    ("confidentialInstanceConfig", "confidentialParavisorConfig", "confidentialTpmType"): None,
    ("shieldedInstanceConfig", "enableVtpm"): None,
    ("shieldedInstanceConfig", "enableSecureBoot"): None,
    ("scheduling", "onHostMaintenance"): None,
    ("scheduling", "instanceTerminationAction"): None,
    ("scheduling", "maxRunDuration", "seconds"): None,
    ("scheduling", "provisioningModel"): None,
    ("disks", "autoDelete"): None,
    ("metadata",): "setMetadata",
    ("tags",): None,
    ("labels",): "setLabels",
}


def instance_body(options: dict[str, Any], image: str) -> dict[str, Any]:
    """Build the body of ``instances.insert``.

    Args:
        options: the module's options by name, each present; None where not given.
        image: ``projects/PROJECT/global/images/NAME``.

    Returns:
        The body, in the API's spelling. Fields that were not asked for are absent.
    """
    zone = f"zones/{options['zone']}"
    body: dict[str, Any] = {
        "name": options["name"],
        "machineType": f"{zone}/machineTypes/{options['machine_type']}",
        "scheduling": {
            "provisioningModel": options["provisioning_model"],
            "onHostMaintenance": options["on_host_maintenance"],
            "automaticRestart": False,
            "instanceTerminationAction": "DELETE",
            "maxRunDuration": {"seconds": str(options["max_run_duration"])},
        },
        "shieldedInstanceConfig": {
            "enableVtpm": True,
            "enableSecureBoot": options["enable_secure_boot"],
            "enableIntegrityMonitoring": True,
        },
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "type": "PERSISTENT",
                "initializeParams": {
                    "sourceImage": image,
                    "diskType": f"{zone}/diskTypes/{options['disk_type']}",
                    "diskSizeGb": str(options["disk_size_gb"]),
                    "labels": dict(options["labels"]),
                },
            }
        ],
        "networkInterfaces": [_interface(options)],
        "labels": dict(options["labels"]),
        "metadata": {
            "items": [
                {"key": key, "value": value} for key, value in sorted(options["metadata"].items())
            ]
        },
    }
    if options["min_cpu_platform"]:
        body["minCpuPlatform"] = options["min_cpu_platform"]
    if options["confidential_instance_type"]:
        body["confidentialInstanceConfig"] = _confidential(options)
    if options["tags"]:
        body["tags"] = {"items": sorted(options["tags"])}
    if options["service_account"]:
        body["serviceAccounts"] = [
            {"email": options["service_account"], "scopes": options["service_account_scopes"]}
        ]
    return body


def _confidential(options: dict[str, Any]) -> dict[str, Any]:
    # The type alone. enableConfidentialCompute alone would mean SEV, whatever the machine type.
    config: dict[str, Any] = {"confidentialInstanceType": options["confidential_instance_type"]}
    if options["confidential_tpm_type"]:
        config["confidentialParavisorConfig"] = {
            "confidentialTpmType": options["confidential_tpm_type"]
        }
    return config


def _interface(options: dict[str, Any]) -> dict[str, Any]:
    interface: dict[str, Any] = {"nicType": options["nic_type"]}
    if options["subnetwork"]:
        interface["subnetwork"] = options["subnetwork"]
    if options["network"] or not options["subnetwork"]:
        interface["network"] = _network(options["network"] or "default")
    if options["external_address"]:
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface


def _network(name: str) -> str:
    """A network's partial URL; its bare name is looked for in the project itself."""
    return name if "/" in name else f"global/networks/{name}"


def firewall_body(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Build the body of ``firewalls.insert``: SSH from ``source_ranges`` to VMs with ``tag``.

    Firewall rules have no labels, so the description says whose the rule is.
    """
    return {
        "name": name,
        "description": firewall_mark(options["fleet"]),
        "network": _network(options["network"] or "default"),
        "direction": "INGRESS",
        "sourceRanges": sorted(options["source_ranges"]),
        "targetTags": [options["tag"]],
        "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
    }


def firewall_mark(fleet: str) -> str:
    """The description of a firewall rule of ours."""
    return f"{OWN_LABEL}={fleet}"


def managed(instance: dict[str, Any]) -> dict[str, Any]:
    """The compared fields of an instance or of a body, by dotted name; for a diff.

    Values are put into one form: names instead of URLs, metadata and labels as mappings.
    """
    flat = {}
    for path in COMPARED:
        value = _shown(path, _at(instance, path))
        if value not in (None, {}, [], ""):
            flat[".".join(path)] = value
    return flat


def differences(body: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where an instance is not what the body asks for.

    What the body does not mention is Google's or the user's to choose, except whether the VM is
    confidential. Labels and metadata that others added are not looked at.

    Returns:
        By dotted name: (what is there, what is wanted); None where there is nothing.
    """
    wanted, there = managed(body), managed(found)
    differ = {}
    for name in (".".join(path) for path in COMPARED):
        asked, seen = wanted.get(name), there.get(name)
        if isinstance(asked, dict):
            seen = {key: value for key, value in (seen or {}).items() if key in asked}
        if asked != seen and (name in wanted or name.startswith("confidentialInstanceConfig")):
            differ[name] = (seen, asked)
    return differ


def in_place(name: str) -> str | None:
    """The API's method that changes a field of a running VM; None: the VM must be made anew."""
    return COMPARED[tuple(name.split("."))]


def _at(instance: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = instance
    for key in path:
        if isinstance(value, list):  # disks: the boot disk
            value = next((item for item in value if item.get("boot")), {})
        value = (value or {}).get(key)
    return value


def _shown(path: tuple[str, ...], value: Any) -> Any:
    if path == ("machineType",):
        return (value or "").rpartition("/")[2]
    if path == ("metadata",):
        return {item["key"]: item["value"] for item in (value or {}).get("items", [])}
    if path == ("tags",):
        return sorted((value or {}).get("items", []))
    if value == "NO_CC_TPM":  # the same as not asking for one
        return None
    return value
