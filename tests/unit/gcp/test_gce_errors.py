"""Refusals as the API words them, and the class and remedy that each gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.compute_double.faults import refusal


@pytest.mark.parametrize(
    ("status", "payload", "kind", "words"),
    [
        (
            403,
            refusal(
                403,
                "forbidden",
                "Required 'compute.instances.create' permission for 'projects/p/zones/z'",
            ),
            "permission",
            "Grant compute.instances.create",
        ),
        (
            403,
            refusal(
                403,
                "accessNotConfigured",
                "Compute Engine API has not been used in project 1 before or it is disabled.",
                info="SERVICE_DISABLED",
            ),
            "api-disabled",
            "gcloud services enable compute.googleapis.com --project my-project",
        ),
        (403, refusal(403, "quotaExceeded", "Quota 'CPUS' exceeded."), "quota", "Quotas"),
        (403, refusal(403, "rateLimitExceeded", "Rate Limit Exceeded"), "rate", "minute"),
        (429, None, "rate", "HTTP status 429"),
        (503, None, "server", "run again"),
        (500, refusal(500, "backendError", "Internal"), "server", "Internal."),
        (404, refusal(404, "notFound", "The resource 'x' was not found"), "not-found", "spelled"),
        (409, refusal(409, "alreadyExists", "exists already"), "conflict", "Run again."),
        (401, refusal(401, "authError", "Invalid Credentials"), "credentials", "log in again"),
        (
            400,
            refusal(400, "invalid", "Confidential instance type TDX is not supported by n1."),
            "machine-type",
            "docs/clouds.md",
        ),
        (
            400,
            refusal(400, "invalid", "The image lacks the guest OS feature TDX_CAPABLE."),
            "image",
            "another image",
        ),
        (400, refusal(400, "invalid", "Invalid value for field 'x'"), "invalid", "field 'x'."),
        (400, {"error": "invalid_grant"}, "invalid", "invalid_grant."),
        (502, "<html>", "server", "HTTP status 502."),
    ],
)
def test_refusals(status: int, payload: Any, kind: str, words: str) -> None:
    from ansible.module_utils.gce_errors import refused

    error = refused(status, payload, project="my-project", zone="europe-west4-b")
    assert error.kind == kind
    assert words in str(error)
    assert error.retriable == (kind in ("rate", "server"))


@pytest.mark.parametrize(
    ("code", "message", "kind", "words"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "Not enough resources.", "capacity", "europe-west4-b has"),
        (
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "The zone does not have enough resources available to fulfill the request.",
            "capacity",
            "choose another zone",
        ),
        ("QUOTA_EXCEEDED", "Quota 'N2D_CPUS' exceeded. Limit: 0.0", "quota", "N2D_CPUS"),
        ("INTERNAL_ERROR", "Internal error.", "invalid", "Internal error."),
    ],
)
def test_failed_operations(code: str, message: str, kind: str, words: str) -> None:
    from ansible.module_utils.gce_errors import failed

    operation = {"name": "o", "error": {"errors": [{"code": code, "message": message}]}}
    error = failed(operation, project="p", zone="europe-west4-b")
    assert (error.kind, words in str(error)) == (kind, True), str(error)


def test_a_stockout_is_not_taken_for_a_broken_server() -> None:
    from ansible.module_utils.gce_errors import failed

    operation = {
        "name": "o",
        "httpErrorStatusCode": 503,
        "error": {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "None left"}]},
    }
    assert failed(operation, project="p").kind == "capacity"
