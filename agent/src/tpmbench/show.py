"""A result document as text, in the layout of go-tpm-tls-bench, so that lines compare."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from tpmbench import show_device, show_messages, show_ways
from tpmbench.request import ML_DSA

if TYPE_CHECKING:
    from collections.abc import Iterator

_TITLES = {
    "raw-signing": "Raw signing, {samples} signatures",
    "loaded-transport": (
        "Persistent key with an unrelated transient object loaded, {samples} signatures"
    ),
    "handshake-new": "One connection per request, {samples} connections, no resumption",
    "handshake-resumed": "One connection per request, {samples} connections, session resumption",
    "handshake-server-key": "Listener with the key in the TPM, {samples} connections",
    "handshake-concurrent": "Several clients at once, {samples} connections",
    "connection-reused": "One connection reused for {samples} requests",
}

# In the order in which go-tpm-tls-bench prints them; ours follow.
_LABELS = {
    "tpm-persistent": "TPM key",
    "software": "software key",
    "tpm-transient": "TPM key, transient",
    "nothing-loaded": "nothing loaded",
    "same-transport": "same transport",
    "other-transport": "other transport",
    "same-transport-2-objects": "same, 2 objects",
    "same-transport-3-objects": "same, 3 objects",
    "same-transport-hmac-session": "same, idle session",
    "software-native": "software, native",
    "floor": "floor (command)",
}

_RATES = {
    "signature": "signature/s",
    "connection": "conn/s",
    "request": "req/s",
    "operation": "ops/s",
}


def text(document: dict[str, Any]) -> str:
    """Return a result document as text.

    Args:
        document: a valid result document.
    """
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    tpm, platform = document["tpm"], document["platform"]
    yield (
        f"{document['host']}: TPM {tpm['manufacturer']} {tpm['vendor_string']} "
        f"{tpm['firmware_version']}, lives in: {platform['tpm_location']}, TEE: {platform['tee']}"
    )
    if platform["tpm_location"] == "software":
        yield "This is a software TPM: its times say nothing about hardware."
    if tpm["simulated_device"]:
        yield "This is a simulated device: its times are not a TPM's."
    keys = {key["curve"]: key for key in document["keys"]}
    for curve in document["settings"]["curves"]:
        yield ""
        yield _key_line(keys.get(curve), curve, tpm["tcti"])
        for scenario in document["scenarios"]:
            if scenario["curve"] == curve and not scenario["name"].startswith(show_messages.PREFIX):
                yield ""
                yield from _scenario_lines(scenario)
        yield from show_messages.lines(document, curve)
    yield from show_device.lines(document)
    yield from show_ways.lines(document)
    if document["warnings"]:
        yield ""
        yield "Warnings"
        for warning in document["warnings"]:
            yield f"  {warning['message']} {warning['remedy']}"


def _key_line(key: dict[str, Any] | None, curve: str, tcti: str) -> str:
    if curve == ML_DSA:
        return f"Post-quantum: an ML-DSA-65 key on {tcti}, loaded for the scenario"
    if key is None:
        return f"no TPM key on curve {curve}"
    kind, _, path = tcti.partition(":")
    where = path if kind == "device" and path else tcti
    return (
        f"TPM key at {key['handle']} on {where}, curve {curve}, "
        f"non-exportable per the TPM: {str(key['non_exportable']).lower()}"
    )


def _scenario_lines(scenario: dict[str, Any]) -> Iterator[str]:
    arms = sorted(scenario["arms"], key=lambda arm: _rank(arm["name"]))
    title = _TITLES.get(scenario["name"], scenario["name"])
    samples = len(arms[0]["samples_ns"]) if arms else 0
    yield title.format(samples=samples or "no")
    if scenario["status"] != "valid":
        yield f"  {scenario['status'].replace('-', ' ')}: {scenario['reason']}"
    for arm in arms:
        yield _arm_line(arm, scenario["unit"])
    for absent in scenario["absent_arms"]:
        yield f"  {_label(absent['name']):<18} not measured: {absent['reason']}"


def _arm_line(arm: dict[str, Any], unit: str) -> str:
    samples = arm["samples_ns"]
    median = statistics.median(samples) / 1e6
    # n = 100 cuts: the 95th is the 95th percentile, interpolated linearly as numpy does.
    p95 = (
        statistics.quantiles(samples, n=100, method="inclusive")[94]
        if len(samples) > 1
        else samples[0]
    ) / 1e6
    rate = len(samples) / (arm.get("elapsed_ns", sum(samples)) / 1e9)
    line = (
        f"  {_label(arm['name']):<18} median{median:8.2f} ms   p95{p95:8.2f} ms"
        f"{rate:10.0f} {_RATES[unit]}"
    )
    if arm["resumed"] is None:
        return line
    line += f"{arm['signatures']['peer']:6d} signatures"
    return line + (f"{arm['resumed']:5d} resumed" if arm["resumed"] else "")


def _label(name: str) -> str:
    return _LABELS.get(name, name)


def _rank(name: str) -> int:
    names = list(_LABELS)
    return names.index(name) if name in names else len(names)
