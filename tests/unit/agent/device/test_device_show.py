"""The device suite's text: wolfTPM's lines, and never a speed that is none."""

from __future__ import annotations

from typing import Any

from tpmbench import show_device


def operation(title: str, status: str = "run", **more: Any) -> dict[str, Any]:
    return {
        "title": title, "status": status, "response_code": None, "response_name": None,
        "bytes": 0, "checked": 0, **more,
    }  # fmt: skip


def scenario(name: str, asked: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    arm = {"name": "floor", "samples_ns": [500_000, 1_500_000]}
    whole = {
        "name": name, "curve": None, "status": "valid", "reason": None, "arms": [arm],
        "absent_arms": [], **more,
    }  # fmt: skip
    return whole | ({"operation": asked} if asked else {})


def shown(*scenarios: dict[str, Any]) -> list[str]:
    return list(show_device.lines({"scenarios": list(scenarios)}))[2:]


def test_operations_and_bytes_have_wolftpms_lines() -> None:
    lines = shown(
        scenario("device-ecdsa-p256-sign", operation("ECDSA 256 sign")),
        scenario("device-sha256", operation("SHA256", bytes=1024)),
    )
    assert [" ".join(line.split()) for line in lines] == [
        "ECDSA 256 sign 2 ops took 0.002 sec, avg 1.000 ms, 1000.000 ops/sec",
        "SHA256 2 KB took 0.002 seconds, 1000.000 KB/s",
    ]


def test_what_is_not_supported_is_said_as_wolftpm_says_it() -> None:
    refused = operation(
        "AES-128-CBC-enc", "unsupported",
        response_code="0x2ca", response_name="TPM_RC_TYPE (parameter 2)",
    )  # fmt: skip
    lines = shown(
        scenario("device-aes", refused, status="not-applicable", reason="no such mode", arms=[])
    )
    assert lines[0] == "Benchmark symmetric AES-128-CBC-enc not supported!"
    assert lines[1] == "    TPM_RC_TYPE (parameter 2) 0x2ca: no such mode"


def test_an_artefact_is_shown_without_a_speed() -> None:
    lines = shown(
        scenario(
            "device-rng",
            operation("RNG", bytes=32),
            status="invalid",
            reason="transport artefact: 44 ms",
        )
    )
    assert "transport artefact" in lines[0]
    assert not any("KB/s" in line or "ops/sec" in line for line in lines)


def test_what_was_not_reached_is_named() -> None:
    (line,) = shown(
        scenario("device-rng", None, status="invalid", reason="the TPM is gone", arms=[])
    )
    assert "device-rng" in line
    assert "the TPM is gone" in line


def test_a_document_without_the_suite_has_no_lines() -> None:
    assert list(show_device.lines({"scenarios": [{"name": "raw-signing", "curve": "p256"}]})) == []
