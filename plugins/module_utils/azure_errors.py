"""Refusals of Azure Resource Manager, each a class and one sentence with its remedy."""

from __future__ import annotations

import re
from typing import Any

from ansible.module_utils.cloud_errors import CloudError


class AzureError(CloudError):
    """What went wrong with a request to Azure, or with an operation.

    Besides the classes of :class:`CloudError`: policy, provider, no-group, no-subscription, in-use.
    """


# (class, pattern of the error code, pattern of the message, remedy); the first fits. The codes are
# those of "Troubleshoot common Azure deployment errors" and of the resource providers; where one
# code stands for several things (OperationNotAllowed, InvalidParameter) the message tells.
_MORE = "Ask for more under Quotas in the portal, or use another region or a smaller size."
_IMAGE = "Choose another image; az vm image list shows them."
_CLASSES = [
    (
        "provider",
        r"MissingSubscriptionRegistration|SubscriptionNotRegistered|NoRegisteredProvider.*",
        r"",
        "Register it: az provider register --namespace {named}",
    ),
    ("quota", r".*QuotaExceeded.*|.*(CountLimit|LimitReached|LimitExceeded).*", r"", _MORE),
    ("quota", r"OperationNotAllowed", r"(?i)quota", _MORE),
    (
        "capacity",
        r"SkuNotAvailable|(Zonal)?AllocationFailed|Overconstrained.*|AllocationTimeout|Capacity.*",
        r"",
        "The region has none free, or not for you; run again later or choose another region.",
    ),
    (
        "permission",
        r"(Linked)?Authorization(Failed|PermissionMismatch)|Forbidden",
        r"",
        "Grant {action} to the account that runs this; docs/clouds.md lists all.",
    ),
    (
        "policy",
        r"RequestDisallowedByPolicy",
        r"",
        "A policy of your subscription forbids it; ask who keeps it.",
    ),
    ("image", r"\w*ImageNotFound|VMMarketplace.*|Marketplace.*|ResourcePurchase.*", r"", _IMAGE),
    ("image", r"", r"(?i)image.*(security ?type|confidential|trusted ?launch|generation)", _IMAGE),
    (
        "no-group",
        r"ResourceGroupNotFound",
        r"",
        "Make it: az group create --name {group} --location REGION",
    ),
    (
        "no-subscription",
        r"SubscriptionNotFound|InvalidSubscriptionId",
        r"",
        "az account list shows those of this account.",
    ),
    (
        "credentials",
        r"(Invalid|Expired)AuthenticationToken.*|AuthenticationFailed",
        r"",
        "The credentials are not accepted: log in again, or give a fresh token.",
    ),
    (
        "in-use",
        r"(?i).*InUse.*|.*CannotBeDeleted.*|NicReservedForAnotherVm|.*AttachedToVM",
        r"",
        "Remove what uses it first, or run again in three minutes.",
    ),
    (
        "busy",
        r"AnotherOperation.*|Retryable.*|Referenced.*|OperationPreempted|Canceled|OperationNot.*",
        r"",
        "Run again in a minute.",
    ),
    (
        "rate",
        r"TooManyRequests|.*Throttled.*",
        r"",
        "Too many requests at once; run again in a minute.",
    ),
    ("conflict", r"Conflict|PreconditionFailed|ConditionNotMet|ResourceExists", r"", "Run again."),
    (
        "machine-type",
        r"",
        r"(?i)vm ?size|security ?type|confidential|trusted ?launch",
        "docs/clouds.md says which sizes have which technology, and where to look it up.",
    ),
    (
        "not-found",
        r".*NotFound",
        r"",
        "Is it spelled right, and in this subscription and resource group?",
    ),
]
_BY_STATUS = {401: "credentials", 403: "permission", 404: "not-found", 409: "conflict",
              412: "conflict", 429: "rate"}  # fmt: skip
_REMEDIES = {kind: remedy for kind, _, _, remedy in reversed(_CLASSES)} | {
    "invalid": "",
    "server": "Azure's server failed; run again.",
}
# Sent again unchanged, these may succeed: all requests here are idempotent.
_RETRIABLE = ("rate", "server")
_RETRIABLE_CODES = {"AnotherOperationInProgress", "RetryableError"}


def refused(status: int, payload: Any, *, group: str = "", after: float = 0.0) -> AzureError:
    """Class a response that is not 2xx, or the end of an operation that failed.

    Args:
        status: HTTP status; 0 for an operation.
        payload: the decoded JSON body, or None.
        group: resource group, named in remedies.
        after: seconds of the answer's Retry-After.
    """
    errors = _errors(payload)
    codes = [code for code, _ in errors]
    # The innermost message says most; an outer one only that something inside failed.
    message = errors[-1][1] if errors else ""
    message = " ".join(message.split()) or ", ".join(filter(None, codes)) or f"HTTP status {status}"
    kind = _kind(codes, message, status)
    action = re.search(r"Microsoft\.\w+(?:/[\w*]+){2,}(?=['\"\s])", f"{message} ")
    named = re.search(r"Microsoft\.\w+", message)
    remedy = _REMEDIES[kind].format(
        group=group or "NAME",
        action=action[0] if action else "the permission named above",
        named=named[0] if named else "NAMESPACE",
    )
    return AzureError(
        kind,
        f"{message.rstrip('. ')}. {remedy}".strip(),
        retriable=kind in _RETRIABLE or not _RETRIABLE_CODES.isdisjoint(codes),
        after=after,
    )


def _errors(payload: Any) -> list[tuple[str, str]]:
    """Code and message of an error and of those inside it, outermost first."""
    error = payload.get("error", payload) if isinstance(payload, dict) else None
    if isinstance(error, str):  # as OAuth answers
        return [(error, str(payload.get("error_description", error)))]
    if not isinstance(error, dict) or not (error.get("code") or error.get("message")):
        return []
    inside = [item for item in error.get("details") or [] if isinstance(item, dict)]
    return [
        (str(error.get("code", "")), str(error.get("message", ""))),
        *(_errors(inside[0]) if inside else []),
    ]


def _kind(codes: list[str], message: str, status: int) -> str:
    for kind, code, text, _ in _CLASSES:
        by_code = not code or any(re.fullmatch(code, item) for item in codes)
        if by_code and re.search(text, message):
            # A text alone says nothing about a request that was refused for its status.
            if not code and (status in _BY_STATUS or status >= 500):
                continue
            return kind
    return "server" if status >= 500 else _BY_STATUS.get(status, "invalid")
