"""Refusals as Azure words them, and the class and remedy that each gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.azure_double.faults import refusal

DENIED = (
    "The client 'a@b' with object id 'c' does not have authorization to perform action "
    "'Microsoft.Compute/virtualMachines/write' over scope '/subscriptions/s'."
)
QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardDCASv5Family "
    "Cores quota. Current Limit: 0, Additional Required: 2."
)


@pytest.mark.parametrize(
    ("status", "payload", "kind", "words"),
    [
        (
            403,
            refusal("AuthorizationFailed", DENIED),
            "permission",
            "Grant Microsoft.Compute/virtualMachines/write to the account",
        ),
        (
            409,
            refusal(
                "MissingSubscriptionRegistration",
                "The subscription is not registered to use namespace 'Microsoft.DevTestLab'.",
            ),
            "provider",
            "az provider register --namespace Microsoft.DevTestLab",
        ),
        (409, refusal("OperationNotAllowed", QUOTA), "quota", "Quotas in the portal"),
        (400, refusal("PublicIPCountLimitReached", "Cannot create more."), "quota", "Quotas"),
        (
            409,
            refusal("SkuNotAvailable", "Size is currently not available."),
            "capacity",
            "another region",
        ),
        (0, refusal("AllocationFailed", "We do not have enough."), "capacity", "run again later"),
        (0, refusal("OverconstrainedAllocationRequest", "x"), "capacity", "another region"),
        (404, refusal("PlatformImageNotFound", "The image is not there."), "image", "az vm image"),
        (
            400,
            refusal("BadRequest", "The image does not support security type TrustedLaunch."),
            "image",
            "another image",
        ),
        (
            404,
            refusal("ResourceGroupNotFound", "Resource group 'g' could not be found."),
            "no-group",
            "az group create --name my-group",
        ),
        (404, refusal("SubscriptionNotFound", "x"), "no-subscription", "az account list"),
        (404, refusal("ResourceNotFound", "The Resource x was not found."), "not-found", "spelled"),
        (401, refusal("ExpiredAuthenticationToken", "x"), "credentials", "log in again"),
        (401, None, "credentials", "HTTP status 401"),
        (403, refusal("RequestDisallowedByPolicy", "x"), "policy", "policy of your subscription"),
        (429, refusal("TooManyRequests", "x"), "rate", "in a minute"),
        (429, None, "rate", "HTTP status 429"),
        (503, None, "server", "run again"),
        (500, refusal("InternalServerError", "Oh."), "server", "Oh. Azure's"),
        (400, refusal("NicInUse", "It is in use."), "in-use", "three minutes"),
        (409, refusal("OperationNotAllowed", "The disk is attached."), "busy", "in a minute"),
        (412, refusal("PreconditionFailed", "x"), "conflict", "Run again."),
        (
            400,
            refusal("BadRequest", "The VM size Standard_B1s cannot boot with it."),
            "machine-type",
            "docs/clouds.md",
        ),
        (400, refusal("InvalidParameter", "Invalid value for 'x'"), "invalid", "'x'."),
        (502, "<html>", "server", "HTTP status 502."),
    ],
)
def test_refusals(status: int, payload: Any, kind: str, words: str) -> None:
    from ansible.module_utils.azure_errors import refused

    error = refused(status, payload, group="my-group")
    assert error.kind == kind, str(error)
    assert words in str(error)
    assert error.retriable == (kind in ("rate", "server"))


def test_what_is_inside_says_what_it_was() -> None:
    from ansible.module_utils.azure_errors import refused

    outer = refusal("DeploymentFailed", "At least one resource deployment operation failed.")
    outer["error"]["details"] = [{"code": "SkuNotAvailable", "message": "No room for it."}]
    error = refused(409, outer)
    assert (error.kind, str(error).startswith("No room for it. ")) == ("capacity", True)


def test_another_change_under_way_is_waited_for() -> None:
    from ansible.module_utils.azure_errors import refused

    error = refused(409, refusal("AnotherOperationInProgress", "Another one is."), after=3)
    assert (error.kind, error.retriable, error.after) == ("busy", True, 3)
