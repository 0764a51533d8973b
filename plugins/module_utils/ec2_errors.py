"""Refusals of the EC2 and EventBridge Scheduler APIs, each a class and one sentence."""

from __future__ import annotations

import re
from typing import Any

from ansible.module_utils.cloud_errors import CloudError


class Ec2Error(CloudError):
    """What AWS refused, or what went wrong on the way to it.

    Attributes:
        code: AWS's error code; empty where the request never got there.
    """

    def __init__(
        self,
        kind: str,
        sentence: str,
        *,
        retriable: bool = False,
        after: float = 0.0,
        code: str = "",
        **details: Any,
    ) -> None:
        super().__init__(kind, sentence, retriable=retriable, after=after, **details)
        self.code = code


# (class, pattern of AWS's error code, pattern of its message, remedy); the first fits. Codes are
# those of "Error codes for the Amazon EC2 API" and of botocore's model of the scheduler; where EC2
# has one code for several things the message tells them apart.
_CLASSES = [
    ("rate", r"RequestLimitExceeded|.*Throttl.*|TooManyRequests.*|SlowDown", r"",
     "Too many requests at once; run again in a minute."),
    ("capacity", r"Insufficient.*Capacity", r"",
     "{region} has no such machine free there now; run again later or choose another zone."),
    ("quota", r"VcpuLimitExceeded|.*LimitExceeded|ServiceQuotaExceededException|.*CountExceeded",
     r"",
     ("Ask for more under Service Quotas (EC2, Running On-Demand Standard instances), or use "
     "another region or a smaller machine type.")),
    ("permission", r"UnauthorizedOperation|AccessDenied.*|Unauthorized.*|Forbidden", r"",
     "Grant {action} to the account that runs this; docs/clouds.md lists all."),
    ("credentials", r"ExpiredToken.*|RequestExpired|TokenRefreshRequired", r"",
     "The credentials have expired: log in again (aws sso login), or give fresh ones."),
    ("region", r"OptInRequired|SubscriptionCheckFailed|InvalidRegion.*", r"",
     "Is {region} enabled for the account? Account settings, AWS Regions."),
    ("credentials", (r"AuthFailure|InvalidClientTokenId|UnrecognizedClient.*|SignatureDoesNotMatch"
     r"|InvalidAccessKeyId|MissingAuthenticationToken.*|IncompleteSignature.*|InvalidSignature.*"),
     r"", ("The credentials are not accepted in {region}: check them, the clock of this machine, "
     "and that the account has the region enabled.")),
    ("image", r"InvalidAMI.*|InvalidImage.*|UnavailableImage.*", r"",
     "Choose another image of {region}."),
    ("image", r"", r"(?i)boot mode|\btpm\b|nitrotpm|\buefi\b",
     "Choose an image that boots by UEFI and has TpmSupport v2.0."),
    ("machine-type", r"Unsupported.*|InvalidParameter.*|InvalidInstanceType.*|InvalidRequest",
     r"(?i)sev|cpu ?options|instance ?type|configuration",
     "docs/clouds.md says which machine types have SEV-SNP, and where to look it up."),
    ("conflict", (r"InvalidGroup\.Duplicate|InvalidPermission\.Duplicate|Idempotent.*"
     r"|ConflictException"), r"", "Run again."),
    ("busy", (r"DependencyViolation|IncorrectInstanceState|IncorrectState|VolumeInUse"
     r"|InvalidVolume\.InUse"), r"", "Run again in a minute."),
    ("not-found", (r"Invalid\w+(ID)?\.NotFound|ResourceNotFoundException|InvalidSubnet\w*\.\w+"
     r"|DefaultVpcDoesNotExist|VPCIdNotSpecified|MissingInput"), r"",
     "Is it spelled right, and in this account and region?"),
    ("server", r"Internal(Error|Failure|ServerException)|.*Unavailable(Exception)?", r"",
     "AWS's server failed; run again."),
]  # fmt: skip
_REMEDIES = {"invalid": "", "server": "AWS's server failed; run again."}
# A refusal names whom it refuses, what, and a blob that only an administrator can decode.
_ACTION = re.compile(r"perform: ([a-z0-9-]+:[A-Za-z0-9]+)")
_BLOB = re.compile(r"\s*Encoded authorization failure message: \S+")


def refused(
    code: str,
    message: str,
    status: int,
    *,
    region: str,
    operation: str,
    service: str = "ec2",
    after: float = 0.0,
) -> Ec2Error:
    """Class a response that is no success.

    Args:
        code: AWS's error code, such as ``InsufficientInstanceCapacity``.
        message: AWS's words.
        status: HTTP status; tells where the code is unknown.
        region: named in remedies.
        operation: of the API, such as ``RunInstances``; names the missing permission where AWS
            does not.
        service: prefix of that permission.
        after: seconds of the answer's Retry-After.
    """
    kind, remedy = _class_of(code, message, status)
    action = _ACTION.search(message)
    words = _BLOB.sub("", message).strip() or f"{operation} was refused with {code or status}"
    remedy = remedy.format(region=region, action=action[1] if action else f"{service}:{operation}")
    sentence = f"{' '.join(words.split()).rstrip('. ')} ({code}). {remedy}".strip()
    retriable = kind in ("rate", "server")
    return Ec2Error(kind, sentence, retriable=retriable, after=after, code=code)


def _class_of(code: str, message: str, status: int) -> tuple[str, str]:
    for kind, pattern, text, remedy in _CLASSES:
        if (not pattern or re.fullmatch(pattern, code)) and re.search(text, message):
            return kind, remedy
    kind = "rate" if status == 429 else "server" if status >= 500 else "invalid"
    return kind, _REMEDIES.get(kind, "Too many requests at once; run again in a minute.")
