"""Times that a transport makes are told from times that a TPM makes."""

from __future__ import annotations

from typing import Any

import pytest

from tpmbench import artefacts
from tpmbench.artefacts import flag, of_operations, probe, quantum_ns
from tpmtls import Transport

MS = 1_000_000


def scenario(name: str, samples_ns: list[int], commands: int = 1) -> dict[str, Any]:
    return {
        "name": name,
        "curve": None,
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
    quantum = of_operations(scenarios, "mssim:port=2321")
    assert quantum == 44 * MS
    flag(scenarios, quantum, "mssim:port=2321")
    assert [item["status"] for item in scenarios] == ["invalid"] * 3 + ["valid"]
    assert "44 ms over mssim:port=2321" in scenarios[0]["reason"]
    assert "TCP_NODELAY" in scenarios[0]["reason"]


def test_a_sound_transport_and_a_device_are_left_alone() -> None:
    scenarios = [scenario(f"device-{n}", [n * MS] * 3) for n in (1, 2, 44, 45)]
    assert of_operations(scenarios, "swtpm:port=1") is None
    slow = [scenario(f"device-{n}", [44 * MS] * 3) for n in range(4)]
    assert of_operations(slow, "device:/dev/tpm0") is None
    assert of_operations(slow, "tabrmd") == 44 * MS


def test_arms_that_ask_the_tpm_now_and_then_are_not_blamed_on_the_transport() -> None:
    resumed = scenario("handshake-resumed", [3 * MS] * 50)
    resumed["arms"][0]["tpm_commands"] = 1
    new = scenario("handshake-new", [47 * MS] * 50)
    flag([resumed, new], 44 * MS, "mssim:port=2321")
    assert (resumed["status"], new["status"]) == ("valid", "invalid")


class SlowChannel:
    """A channel whose every answer takes a while, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, each_ns: list[int]) -> None:
        self.now = 0
        self.sent: list[bytes] = []
        self._each = each_ns
        monkeypatch.setattr(artefacts.time, "perf_counter_ns", lambda: self.now)

    def send(self, command: bytes) -> None:
        self.sent.append(command)

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002  # as every channel has it
        self.now += self._each[len(self.sent) % len(self._each)]
        return bytes.fromhex("80010000000a00000101")

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("each_ms", "tcti", "found"),
    [
        pytest.param([41], "mssim:port=1", 41, id="held back"),
        pytest.param([88], "swtpm:port=1", 88, id="held back twice"),
        pytest.param([1], "mssim:port=1", None, id="sound"),
        pytest.param([60], "mssim:port=1", None, id="slow, on no quantum"),
    ],
)
def test_the_probe_tells_a_transport_that_holds_back(
    monkeypatch: pytest.MonkeyPatch, each_ms: list[int], tcti: str, found: int | None
) -> None:
    channel = SlowChannel(monkeypatch, [item * MS for item in each_ms])
    quantum = probe(Transport(channel, tcti))
    assert quantum == (found and found * MS)
    assert len(channel.sent) == 15


def test_the_probe_asks_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = SlowChannel(monkeypatch, [41 * MS])
    assert probe(Transport(channel, "device:/dev/tpm0")) is None
    assert channel.sent == []
