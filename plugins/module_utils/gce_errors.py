"""Refusals of the Compute API, each a class and one sentence with its remedy."""

from __future__ import annotations

import re
from typing import Any

from ansible.module_utils.cloud_errors import CloudError


class GceError(CloudError):
    """What Google refused, or what went wrong on the way to it."""


# (class, pattern of the API's reason or code, pattern of its message, remedy); the first fits.
# Reasons and codes are those of the Compute API's "Troubleshooting API errors"; where it has one
# code for several things ("invalid", "forbidden") the message tells them apart.
_CLASSES = [
    ("api-disabled", r"SERVICE_DISABLED|accessNotConfigured", r"",
     "Enable it: gcloud services enable compute.googleapis.com --project {project}"),
    ("rate", r"rateLimitExceeded|userRateLimitExceeded|RATE_LIMIT_EXCEEDED", r"",
     "Too many requests at once; run again in a minute."),
    ("quota", r"quotaExceeded|QUOTA_EXCEEDED|limitExceeded", r"",
     "Ask for more under IAM & Admin, Quotas, or use another region or a smaller machine type."),
    ("capacity", r"ZONE_RESOURCE_POOL_EXHAUSTED|resourcePoolExhausted|STOCKOUT", r"",
     "{zone} has no such machine free now; run again later or choose another zone."),
    ("permission", r"forbidden|PERMISSION_DENIED|required|IAM_PERMISSION_DENIED",
     r"(?i)permission|forbidden|denied",
     "Grant {permission} to the account that runs this; docs/clouds.md lists all."),
    ("image", r"", r"(?i)guest ?os ?features?|(SEV|SEV_SNP|TDX)_CAPABLE",
     "Choose another image or family."),
    ("machine-type", r"", r"(?i)confidential|cpu platform|machine ?type .*(support|compatible)",
     "docs/clouds.md says which machine types have which technology, and where to look it up."),
    ("conflict", r"alreadyExists|RESOURCE_ALREADY_EXISTS|resourceInUse|conditionNotMet", r"",
     "Run again."),
    ("busy", r"resourceNotReady|RESOURCE_NOT_READY", r"", "Run again in a minute."),
    ("not-found", r"notFound|RESOURCE_NOT_FOUND", r"",
     "Is it spelled right, and in this project and zone?"),
]  # fmt: skip
_BY_STATUS = {401: "credentials", 403: "permission", 404: "not-found", 409: "conflict",
              412: "conflict", 429: "rate"}  # fmt: skip
_REMEDIES = {kind: remedy for kind, _, _, remedy in _CLASSES} | {
    "credentials": "The credentials are not accepted: log in again, or give a fresh token.",
    "invalid": "",
    "server": "Google's server failed; run again.",
}


def refused(
    status: int, payload: Any, *, project: str, zone: str = "", after: float = 0.0
) -> GceError:
    """Class a response that is not 2xx.

    Args:
        status: HTTP status.
        payload: the decoded JSON body, or None.
        project: named in remedies.
        zone: named in remedies.
        after: seconds of the answer's Retry-After.
    """
    error = (payload.get("error") or {}) if isinstance(payload, dict) else {}
    if not isinstance(error, dict):  # as OAuth answers
        error = {"message": str(error)}
    reasons = [
        *(str(item.get("reason", "")) for item in error.get("errors") or []),
        *(str(item.get("reason", "")) for item in error.get("details") or []),
        str(error.get("status", "")),
    ]
    message = str(error.get("message") or f"HTTP status {status}")
    return _classed(reasons, message, status, project=project, zone=zone, after=after)


def failed(operation: dict[str, Any], *, project: str, zone: str = "") -> GceError:
    """Class an operation that ended with an error."""
    errors = (operation.get("error") or {}).get("errors") or [{}]
    reasons = [str(item.get("code", "")) for item in errors]
    message = " ".join(str(item.get("message", "")) for item in errors).strip()
    return _classed(
        reasons,
        message or f"operation {operation.get('name')} failed",
        int(operation.get("httpErrorStatusCode") or 0),
        project=project,
        zone=zone,
    )


def _classed(
    reasons: list[str], message: str, status: int, *, project: str, zone: str, after: float = 0.0
) -> GceError:
    kind = _kind(reasons, message, status)
    permission = re.search(r"[a-z]+\.[a-zA-Z]+\.[a-zA-Z]+", message)
    remedy = _REMEDIES[kind].format(
        project=project,
        zone=zone or "The zone",
        permission=permission[0] if permission else "the permission named above",
    )
    sentence = f"{message.rstrip('. ')}. {remedy}".strip()
    return GceError(kind, sentence, retriable=kind in ("rate", "server"), after=after)


def _kind(reasons: list[str], message: str, status: int) -> str:
    if status >= 500 and not any(re.search("EXHAUSTED", reason) for reason in reasons):
        return "server"
    for kind, reason, text, _ in _CLASSES:
        by_reason = not reason or any(re.fullmatch(f"(?:{reason}).*", item) for item in reasons)
        if by_reason and re.search(text, message):
            return kind
    return _BY_STATUS.get(status, "invalid")
