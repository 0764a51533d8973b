"""The six things that TLS with a TPM key assumes, each looked at. Changes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import tpmtls
from tpmbench import tpminfo
from tpmbench.outcome import BenchError
from tpmbench.platform import Evidence, Platform, TpmStrings, as_document, collect, conclude
from tpmtls import commands, public
from tpmtls.errors import NotFound, TpmError, TpmTlsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tpm2_pytss import TPMT_PUBLIC

    from tpmtls.transport import Transport


@dataclass(frozen=True)
class Finding:
    """One assumption.

    Attributes:
        assumption: what is assumed.
        holds: whether it does; None where it could not be looked at.
        found: what was seen.
        remedy: what to do, where it does not hold.
    """

    assumption: str
    holds: bool | None
    found: str
    remedy: str | None = None


@dataclass(frozen=True)
class Report:
    """What the doctor found.

    Attributes:
        findings: the six assumptions.
        evidence: every observation about the platform.
        platform: what it adds up to.
    """

    findings: list[Finding]
    evidence: list[Evidence]
    platform: Platform

    @property
    def holds(self) -> bool:
        """Whether all six hold, as far as they could be looked at; one that fails always shows."""
        return all(finding.holds is not False for finding in self.findings)

    def document(self) -> dict[str, Any]:
        """Return it as JSON's objects."""
        return {
            "holds": self.holds,
            "assumptions": [asdict(finding) for finding in self.findings],
            "platform": as_document(self.evidence, self.platform),
        }

    def text(self) -> str:
        """Return it as text, a line or two per finding."""
        lines = []
        for number, finding in enumerate(self.findings, 1):
            mark = {True: "ok", False: "NO", None: "??"}[finding.holds]
            lines.append(f"{number}. [{mark}] {finding.assumption}: {finding.found}")
            if finding.remedy:
                lines.append(f"        remedy: {finding.remedy}")
        lines.append("")
        lines.append(f"TEE: {self.platform.tee}   the TPM lives in: {self.platform.tpm_location}")
        width = max(len(item.source) for item in self.evidence)
        lines.extend(
            f"  {item.source:<{width}}  {item.value or '-'}  ({item.says})"
            for item in self.evidence
        )
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Candidate:
    handle: int
    area: TPMT_PUBLIC


@dataclass(frozen=True)
class _Assumption:
    text: str
    holds: Callable[[TPMT_PUBLIC], bool]
    found: Callable[[TPMT_PUBLIC], str]
    remedy: str


def _fits_tls(area: TPMT_PUBLIC) -> bool:
    try:
        public.check_scheme(area)
    except tpmtls.UnusableKey:
        return False
    return True


def _kind(area: TPMT_PUBLIC) -> str:
    if int(area.type) == public.ALG_RSA:
        return f"RSA, {int(area.parameters.rsaDetail.keyBits)} bits"
    curve = public.curve_of(area)
    detail = area.parameters.eccDetail
    return (
        f"ECC, {curve.name if curve else f'curve {int(detail.curveID):#06x}'}, "
        f"scheme {int(detail.scheme.scheme):#06x}"
    )


# In the order of the text that they come from; each is asked of one key's public area.
_OF_A_KEY = (
    _Assumption(
        "the key is unrestricted",
        lambda area: not int(area.objectAttributes) & public.RESTRICTED,
        lambda area: "restricted" if int(area.objectAttributes) & public.RESTRICTED else "it is",
        "attach to the TLS key rather than the attestation key, or provision one without "
        "TPMA_OBJECT_restricted",
    ),
    _Assumption(
        "the key is ECDSA on P-256, P-384 or P-521",
        _fits_tls,
        _kind,
        "provision an ECDSA key on P-256 or P-384 with SHA-256 or SHA-384",
    ),
)


def examine(
    tcti: str, deadline: float, handle: int | None, *, metadata: Literal["auto", "never"] = "auto"
) -> Report:
    """Look at the assumptions and the platform.

    Args:
        tcti: the transport.
        deadline: seconds to wait for the TPM.
        handle: the key meant; None for the best of all persistent keys.
        metadata: whether a cloud's metadata service may be asked.
    """
    strings = None
    try:
        with tpmtls.connect(tcti, deadline) as transport:
            info = tpminfo.read(transport)
            strings = TpmStrings(info.manufacturer, info.vendor_string, info.firmware_version, tcti)
            findings = _findings(transport, handle)
    except (BenchError, TpmTlsError) as error:
        findings = _out_of_reach(str(error))
    evidence = collect(strings, metadata=metadata)
    return Report(findings, evidence, conclude(evidence))


def _out_of_reach(reason: str) -> list[Finding]:
    unseen = [
        Finding(text, None, "not looked at: the TPM is out of reach")
        for text in (_EXISTS, *(item.text for item in _OF_A_KEY), _OPEN, _PERSISTENT)
    ]
    text, _, remedy = reason.partition("; ")
    return [*unseen, Finding(_REACHABLE, holds=False, found=text, remedy=remedy or None)]


_EXISTS = "a signing key exists in the TPM"
_OPEN = "the key needs no second credential"
_PERSISTENT = "the key is at a persistent handle"
_REACHABLE = "this process can use the TPM"


def _findings(transport: Transport, handle: int | None) -> list[Finding]:
    reachable = Finding(_REACHABLE, holds=True, found=f"{transport.tcti} answers")
    candidates = _candidates(transport, handle)
    if not candidates:
        where = "no persistent key" if handle is None else f"no key at {handle:#010x}"
        remedy = "let the attestation agent provision the key, or give the handle it used"
        unseen = [
            Finding(text, None, "not looked at: there is no key")
            for text in (*(item.text for item in _OF_A_KEY), _OPEN, _PERSISTENT)
        ]
        return [Finding(_EXISTS, holds=False, found=where, remedy=remedy), *unseen, reachable]
    best = max(candidates, key=_merit)
    findings = [Finding(_EXISTS, holds=True, found=f"at {best.handle:#010x}")]
    for check in _OF_A_KEY:
        holds = check.holds(best.area)
        findings.append(
            Finding(check.text, holds, check.found(best.area), None if holds else check.remedy)
        )
    return [*findings, _openness(transport, best), _persistence(best.handle), reachable]


def _merit(candidate: _Candidate) -> int:
    used_by_auth = bool(int(candidate.area.objectAttributes) & public.USER_WITH_AUTH)
    return used_by_auth + sum(check.holds(candidate.area) for check in _OF_A_KEY)


def _openness(transport: Transport, candidate: _Candidate) -> Finding:
    """Look whether the key signs without an auth value. Tried only where that does no harm."""
    attributes = int(candidate.area.objectAttributes)
    if not attributes & public.USER_WITH_AUTH:
        return Finding(_OPEN, False, "it can be used under a policy only", _OPEN_REMEDY)
    if not attributes & public.NO_DA:
        found = (
            "userWithAuth is set; whether the auth value is empty was not tried, since this key "
            "(noDA is not set) counts a wrong one as an attack"
        )
        return Finding(_OPEN, None, found, "try it yourself, or provision the key with noDA")
    try:
        tpmtls.attach(transport, candidate.handle)
    except tpmtls.AuthRequired:
        found = "a signature with an empty auth value was tried and refused: it has an auth value"
        return Finding(_OPEN, False, found, _OPEN_REMEDY)
    except tpmtls.UnusableKey as error:
        return Finding(_OPEN, None, f"userWithAuth is set; no signature was tried: {error}")
    except TpmError as error:
        return Finding(_OPEN, None, f"a signature with an empty auth value was tried: {error}")
    return Finding(_OPEN, True, "a signature with an empty auth value was tried, and is right")


_OPEN_REMEDY = (
    "provision the key with userWithAuth and an empty auth value, or give tpmtls the value as auth="
)


def _persistence(handle: int) -> Finding:
    if handle >= commands.PERSISTENT_FIRST:
        return Finding(_PERSISTENT, holds=True, found=f"{handle:#010x}")
    return Finding(
        _PERSISTENT,
        holds=False,
        found=f"it is a transient object at {handle:#010x}",
        remedy="make it persistent (tpm2_evictcontrol): a transient key is for the connection "
        "that loaded it only, and slow behind a resource manager",
    )


def _candidates(transport: Transport, handle: int | None) -> list[_Candidate]:
    if handle is not None:
        return _signing_keys(transport, [handle])
    # Transient objects of others are seen only where no resource manager hides them.
    return _signing_keys(
        transport, commands.handles(transport, commands.PERSISTENT_FIRST)
    ) or _signing_keys(transport, commands.handles(transport, commands.TRANSIENT_FIRST))


def _signing_keys(transport: Transport, handles: Iterable[int]) -> list[_Candidate]:
    candidates = []
    for item in list(handles):
        try:
            area, _ = commands.read_public(transport, item)
        except (NotFound, TpmError):
            continue
        if int(area.objectAttributes) & public.SIGN and int(area.type) in (
            public.ALG_RSA,
            public.ALG_ECC,
        ):
            candidates.append(_Candidate(item, area))
    return candidates
