"""Times that a transport makes are told from times that a TPM makes."""

from __future__ import annotations

from typing import Any

import pytest

from tpmbench.device.artefacts import flag, quantum_ns

MS = 1_000_000


def scenario(name: str, samples_ns: list[int], commands: int = 1) -> dict[str, Any]:
    return {
        "name": name,
        "status": "valid",
        "reason": None,
        "arms": [
            {
                "name": "floor",
                "samples_ns": samples_ns,
                "tpm_commands": commands * len(samples_ns),
            }
        ],
    }


@pytest.mark.parametrize(
    "each",
    [
        pytest.param([44.0, 44.0, 44.1, 43.9], id="mssim in wolfTPM's bench"),
        pytest.param([88.0, 88.0, 88.2], id="tpm2-tss's mssim TCTI"),
        pytest.param([40.1, 41.9, 44.0, 300.0], id="one slow operation among them"),
    ],
)
def test_a_quantum_whatever_the_operation_is_an_artefact(each: list[float]) -> None:
    found = quantum_ns([item * MS for item in each])
    assert found is not None
    assert min(each) * MS <= found <= 90 * MS


@pytest.mark.parametrize(
    "each",
    [
        pytest.param([0.1, 0.5, 0.6, 44.0], id="a fast one: the transport is sound"),
        pytest.param([22.4, 35.6, 68.9, 113.5], id="an SLB9670's spread"),
        pytest.param([16.8, 44.0, 44.1, 44.0], id="one below the quantum"),
        pytest.param([44.0, 44.0], id="two operations are no pattern"),
        pytest.param([44.0, 110.0, 190.0, 265.0], id="one of four on it"),
        pytest.param([60.0, 61.0, 60.5], id="alike, but on no quantum"),
        pytest.param([], id="nothing"),
    ],
)
def test_what_is_no_artefact(each: list[float]) -> None:
    assert quantum_ns([item * MS for item in each]) is None


def test_what_the_transport_made_is_invalid_and_says_why() -> None:
    scenarios = [
        scenario("device-rng", [44 * MS] * 5),
        scenario("device-sha256", [132 * MS] * 5, commands=3),
        scenario("device-ecdsa-p256-sign", [44 * MS, 45 * MS, 44 * MS]),
        scenario("device-rsa-2048-keygen", [9000 * MS] * 3, commands=2),
    ]
    flag(scenarios, "mssim:port=2321")
    assert [item["status"] for item in scenarios] == ["invalid"] * 3 + ["valid"]
    assert "44 ms over mssim:port=2321" in scenarios[0]["reason"]
    assert "TCP_NODELAY" in scenarios[0]["reason"]


def test_a_sound_transport_is_left_alone() -> None:
    scenarios = [scenario(f"device-{n}", [n * MS] * 3) for n in (1, 2, 44, 45)]
    flag(scenarios, "swtpm:port=1")
    assert {item["status"] for item in scenarios} == {"valid"}
