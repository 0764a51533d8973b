"""The request body: valid by Google's own schema, and what it says."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.support.compute_double import discovery, rules
from tests.support.compute_double.store import FEATURES
from tests.support.gce_options import options

IMAGE = "projects/ubuntu-os-cloud/global/images/ubuntu-2404-v2"


def build(wanted: dict[str, Any]) -> dict[str, Any]:
    from ansible.module_utils.gce_body import instance_body

    return instance_body(wanted, IMAGE)


def test_discovery_document_is_the_recorded_one() -> None:
    assert discovery.document()["revision"] == discovery.REVISION
    assert hashlib.sha256(discovery.document_bytes()).hexdigest() == discovery.SHA256


def test_body_is_valid_by_googles_schema(wanted: dict[str, Any]) -> None:
    assert discovery.violations("Instance", build(wanted)) == []


def test_body_obeys_the_rules_that_the_schema_lacks(wanted: dict[str, Any]) -> None:
    assert rules.refusal(build(wanted), set(FEATURES)) is None


def test_every_option_at_once_is_valid_by_googles_schema() -> None:
    body = build(
        options(
            "snp",
            confidential_tpm_type="EPHEMERAL",
            subnetwork="projects/p/regions/europe-west4/subnetworks/bench",
            network="bench",
            external_address=False,
            provisioning_model="SPOT",
            enable_secure_boot=True,
            tags=["ssh", "bench"],
            service_account="bench@p.iam.gserviceaccount.com",
        )
    )
    assert discovery.violations("Instance", body) == []
    assert body["networkInterfaces"] == [
        {
            "nicType": "GVNIC",
            "subnetwork": "projects/p/regions/europe-west4/subnetworks/bench",
            "network": "global/networks/bench",
        }
    ]
    assert body["confidentialInstanceConfig"] == {
        "confidentialInstanceType": "SEV_SNP",
        "confidentialParavisorConfig": {"confidentialTpmType": "EPHEMERAL"},
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("confidentialInstanceConfig", "confidentialInstanceType"), "SEV-SNP"),
        (("confidentialInstanceConfig", "confidential_instance_type"), "SEV_SNP"),
        (("scheduling", "maxRunDuration", "seconds"), 7200),
        (("scheduling", "instanceTerminationAction"), "delete"),
        (("shieldedInstanceConfig", "enableVTPM"), True),
    ],
)
def test_schema_catches_what_a_body_builder_gets_wrong(path: tuple[str, ...], value: Any) -> None:
    body = build(options("snp"))
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert discovery.violations("Instance", body)


def test_every_vm_has_a_deadline_and_takes_its_disk_along(wanted: dict[str, Any]) -> None:
    body = build(wanted)
    assert body["scheduling"]["maxRunDuration"] == {"seconds": "7200"}
    assert body["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert [disk["autoDelete"] for disk in body["disks"]] == [True]
    assert body["labels"] == body["disks"][0]["initializeParams"]["labels"] == wanted["labels"]


def test_a_control_asks_for_nothing_confidential() -> None:
    assert "confidentialInstanceConfig" not in build(options("snp-control"))
    assert "confidentialInstanceConfig" not in build(options("tdx-control"))


def answer(wanted: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The VM as the API would describe it: URLs, and fields that nobody asked for."""
    body = json.loads(json.dumps(build(wanted)))
    body["machineType"] = f"https://x/compute/v1/projects/p/{body['machineType']}"
    body["metadata"]["items"].append({"key": "added-by-google", "value": "1"})
    body["labels"]["goog-added"] = "1"
    body["tags"] = {"fingerprint": "AAAA"}
    body["minCpuPlatform"] = body.get("minCpuPlatform", "Automatic")
    return body | {"cpuPlatform": "AMD Milan", "status": "RUNNING"} | changes


def test_what_google_adds_is_no_difference(wanted: dict[str, Any]) -> None:
    from ansible.module_utils.gce_body import differences

    assert differences(build(wanted), answer(wanted)) == {}


def test_a_tpm_that_is_not_in_the_tee_is_the_same_as_none() -> None:
    from ansible.module_utils.gce_body import differences

    config = {
        "confidentialInstanceType": "SEV_SNP",
        "confidentialParavisorConfig": {"confidentialTpmType": "NO_CC_TPM"},
    }
    found = answer(options("snp"), confidentialInstanceConfig=config)
    assert differences(build(options("snp")), found) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"confidentialInstanceConfig": {"confidentialInstanceType": "SEV"}},
            {"confidentialInstanceConfig.confidentialInstanceType": ("SEV", "SEV_SNP")},
        ),
        (
            {"confidentialInstanceConfig": {}},
            {"confidentialInstanceConfig.confidentialInstanceType": (None, "SEV_SNP")},
        ),
        (
            {"machineType": "x/n2d-standard-4"},
            {"machineType": ("n2d-standard-4", "n2d-standard-2")},
        ),
        (
            {"labels": {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-0"}},
            {
                "labels": (
                    {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-0"},
                    {"tpm-fleet-bench": "trial", "tpm-fleet-bench-run": "run-1"},
                )
            },
        ),
    ],
)
def test_differences_name_both_values(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    from ansible.module_utils.gce_body import differences

    wanted = options("snp")
    assert differences(build(wanted), answer(wanted, **changes)) == expected


def test_a_control_that_became_confidential_differs() -> None:
    from ansible.module_utils.gce_body import differences

    wanted = options("snp-control")
    config = {"confidentialInstanceType": "SEV_SNP"}
    assert differences(build(wanted), answer(wanted, confidentialInstanceConfig=config)) == {
        "confidentialInstanceConfig.confidentialInstanceType": ("SEV_SNP", None)
    }
