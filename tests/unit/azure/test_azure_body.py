"""The request bodies: valid by Microsoft's own description, and what they say."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pytest

from tests.support.azure_double import routes, rules, schema
from tests.support.azure_options import ED25519, options

NIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/n"
NOW = datetime(2026, 11, 30, 22, 30, 15, tzinfo=UTC)


def build(wanted: dict[str, Any]) -> dict[str, Any]:
    from ansible.module_utils.azure_body import timed, vm_body

    image = rules.IMAGES[wanted["image_offer"], wanted["image_sku"]][0][-1]
    return vm_body(wanted, NIC, image, timed(wanted["tags"], wanted["max_run_duration"], NOW))


def test_the_packages_are_the_recorded_ones() -> None:
    assert {name: version(name) for name in schema.RELEASES} == schema.RELEASES


def test_the_versions_are_those_that_the_packages_describe() -> None:
    from ansible.module_utils.azure_api import VERSIONS

    described = {route.kind: route.version for route in routes.table()}
    for kind, named in described.items():
        assert VERSIONS.get(kind, VERSIONS[kind.partition("/")[0]]) == named, kind


def test_body_is_valid_by_microsofts_description(wanted: dict[str, Any]) -> None:
    assert schema.violations("compute", "VirtualMachine", build(wanted)) == []


def test_body_obeys_the_rules_that_the_description_lacks(wanted: dict[str, Any]) -> None:
    assert rules.refusal(build(wanted)) is None


@pytest.mark.parametrize("encryption", ["DiskWithVMGuestState", "NonPersistedTPM"])
def test_other_options_are_valid_too(encryption: str) -> None:
    wanted = options("tdx", security_encryption_type=encryption, disk_size_gb=64)
    body = build(wanted)
    assert schema.violations("compute", "VirtualMachine", body) == []
    disk = body["properties"]["storageProfile"]["osDisk"]
    assert disk["diskSizeGB"] == 64
    assert disk["managedDisk"]["securityProfile"] == {"securityEncryptionType": encryption}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("securityProfile", "securityType"), "Confidential"),
        (("securityProfile", "uefiSettings", "vtpmEnabled"), True),
        (("storageProfile", "osDisk", "deleteOption"), "delete"),
        (("storageProfile", "osDisk", "diskSizeGB"), "30"),
        (("storageProfile", "osDisk", "managedDisk", "securityEncryptionType"), "VMGuestStateOnly"),
        (("diagnosticsProfile", "bootDiagnostics", "enabled"), "true"),
        (("vmId",), "only the service sets it"),
    ],
)
def test_description_catches_what_a_body_builder_gets_wrong(
    path: tuple[str, ...], value: Any
) -> None:
    body = build(options("snp"))
    inner = body["properties"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert schema.violations("compute", "VirtualMachine", body)


def test_network_bodies_are_valid_by_microsofts_description() -> None:
    from ansible.module_utils import azure_body as made

    tags = {"tpm-fleet-bench": "trial"}
    bodies = {
        "VirtualNetwork": made.network_body("westeurope", tags, "10.81.0.0/24"),
        "NetworkSecurityGroup": made.security_group_body("westeurope", tags, ["192.0.2.0/24"]),
        "PublicIPAddress": made.address_body("westeurope", tags),
        "NetworkInterface": made.interface_body(
            "westeurope", tags, subnet="/s", group="/g", address="/a"
        ),
    }
    for model, body in bodies.items():
        assert schema.violations("network", model, body) == [], model
        assert body["tags"] == tags


def test_a_confidential_vm_asks_for_its_tpm_and_a_control_for_nothing_confidential(
    wanted: dict[str, Any],
) -> None:
    properties = build(wanted)["properties"]
    security = properties["securityProfile"]
    managed_disk = properties["storageProfile"]["osDisk"]["managedDisk"]
    assert security["uefiSettings"] == {"vTpmEnabled": True, "secureBootEnabled": True}
    if wanted["confidential_computing_type"]:
        assert security["securityType"] == "ConfidentialVM"
        assert managed_disk["securityProfile"]["securityEncryptionType"] == "VMGuestStateOnly"
    else:
        assert security["securityType"] == "TrustedLaunch"
        assert "securityProfile" not in managed_disk


def test_disk_interface_and_address_go_with_the_vm(wanted: dict[str, Any]) -> None:
    from ansible.module_utils.azure_body import interface_body

    properties = build(wanted)["properties"]
    assert properties["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
    (link,) = properties["networkProfile"]["networkInterfaces"]
    assert link == {"id": NIC, "properties": {"primary": True, "deleteOption": "Delete"}}
    body = interface_body("westeurope", {}, subnet="/s", group="", address="/a")
    inner = body["properties"]["ipConfigurations"][0]["properties"]
    assert inner["publicIPAddress"]["properties"] == {"deleteOption": "Delete"}
    assert "networkSecurityGroup" not in body["properties"]


def test_the_deadline_is_a_tag_and_the_minute_of_the_auto_shutdown() -> None:
    from ansible.module_utils.azure_body import schedule_body, timed

    tags = timed({"tpm-fleet-bench": "trial"}, 7200, NOW)
    assert tags["tpm-fleet-bench-made"] == "2026-11-30T22:30:15+00:00"
    # Up to the minute, and over midnight.
    assert tags["tpm-fleet-bench-deadline"] == "2026-12-01T00:31:00+00:00"
    body = schedule_body({"id": "/vm", "location": "westeurope"}, tags)
    assert [error.message for error in schema.SCHEDULE.iter_errors(body)] == []
    assert body["properties"]["dailyRecurrence"] == {"time": "0031"}
    assert (body["properties"]["status"], body["properties"]["timeZoneId"]) == ("Enabled", "UTC")


def test_the_guest_ends_itself_only_after_azure_should_have() -> None:
    properties = build(options("snp"))["properties"]
    text = base64.b64decode(properties["osProfile"]["customData"]).decode()
    assert text.startswith("#cloud-config\n")
    assert "[shutdown, -P, '+135']" in text  # 120 minutes and a quarter of an hour


def answer(wanted: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The VM as the API would describe it: other spellings, and fields that nobody asked for."""
    body = json.loads(json.dumps(build(wanted)))
    body["location"] = "West Europe"
    body["tags"] = {key.upper(): value for key, value in body["tags"].items()} | {"theirs": "1"}
    properties = body["properties"]
    properties["osProfile"].pop("customData")
    properties["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"][0]["keyData"] = ED25519
    properties["storageProfile"]["osDisk"]["managedDisk"]["id"] = "/disk"
    properties |= {"vmId": "1", "provisioningState": "Succeeded"} | changes
    return body


def test_what_azure_adds_is_no_difference(wanted: dict[str, Any]) -> None:
    from ansible.module_utils.azure_body import differences

    assert differences(build(wanted), answer(wanted)) == {}


def test_differences_name_both_values() -> None:
    from ansible.module_utils.azure_body import differences

    wanted = options("snp")
    found = answer(wanted, hardwareProfile={"vmSize": "Standard_DC4as_v5"})
    found["tags"]["TPM-FLEET-BENCH-RUN"] = "run-0"
    assert differences(build(wanted), found) == {
        "properties.hardwareProfile.vmSize": ("Standard_DC4as_v5", "Standard_DC2as_v5"),
        "tags": (
            {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-0"},
            {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-1"},
        ),
    }


def test_a_control_that_became_confidential_differs() -> None:
    from ansible.module_utils.azure_body import differences

    wanted = options("snp-control")
    found = answer(wanted, securityProfile=build(options("snp"))["properties"]["securityProfile"])
    disk = found["properties"]["storageProfile"]["osDisk"]["managedDisk"]
    disk["securityProfile"] = {"securityEncryptionType": "VMGuestStateOnly"}
    assert differences(build(wanted), found) == {
        "properties.securityProfile.securityType": ("ConfidentialVM", "TrustedLaunch"),
        "properties.storageProfile.osDisk.managedDisk.securityProfile.securityEncryptionType": (
            "VMGuestStateOnly",
            None,
        ),
    }


@pytest.mark.parametrize(
    ("field", "value", "holds"),
    [
        ("status", "Enabled", True),
        ("status", "Disabled", False),
        ("dailyRecurrence", {"time": "0030"}, False),
        ("timeZoneId", "W. Europe Standard Time", False),
        ("targetResourceId", "/VM", True),  # ids have no case
        ("targetResourceId", "/other", False),
    ],
)
def test_an_auto_shutdown_that_was_changed_is_seen(field: str, value: Any, holds: bool) -> None:
    from ansible.module_utils.azure_body import schedule_body, schedule_holds, timed

    wanted = schedule_body({"id": "/vm", "location": "westeurope"}, timed({}, 7200, NOW))
    found = {"properties": wanted["properties"] | {field: value, "createdDate": "x"}}
    assert schedule_holds(found, wanted) is holds
    assert schedule_holds(None, wanted) is False
