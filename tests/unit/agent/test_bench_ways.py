"""Several ways to one TPM: what is asked for, whether it is one TPM, and how it is shown."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import documents
from tpmbench import show_ways
from tpmbench.identity import Identity, same
from tpmbench.measuring import Settings
from tpmbench.outcome import UsageError
from tpmbench.request import Request
from tpmbench.scenarios import SCENARIOS, chosen
from tpmtls.public import CURVES

if TYPE_CHECKING:
    from collections.abc import Sequence

IBM = ("IBM", "SW   TPM", "1.2.3.4")


def request(further: Sequence[str], *scenarios: str) -> Request:
    return Request(
        tcti="device:/dev/tpmrm0",
        further=further,
        curves=CURVES[:1],
        post_quantum=False,
        scenarios=chosen([], list(scenarios)),
        handle=None,
        settings=Settings(signatures=1, connections=1, warmup=0, block=1, deadline=1.0),
        seed=0,
        run_id="r",
        host="h",
        state_directory=Path("/nowhere"),
        owner=None,
        metadata="never",
        simulated=False,
    )


def test_several_ways_need_something_that_is_measured_over_each() -> None:
    request(["tabrmd"], "handshake-new", "raw-signing").check()
    request(["tabrmd"], "device-rng").check()
    request([], "handshake-new").check()
    with pytest.raises(UsageError, match="raw-signing"):
        request(["tabrmd"], "handshake-new").check()


@pytest.mark.parametrize("further", [["device:/dev/tpmrm0"], ["tabrmd", "tabrmd"]])
def test_a_way_is_given_once(further: list[str]) -> None:
    with pytest.raises(UsageError, match="is given twice"):
        request(further, "raw-signing").check()


def test_what_is_measured_side_by_side() -> None:
    names = {item.name for item in SCENARIOS if item.side_by_side and item.suite == "tls"}
    assert names == {"raw-signing"}
    assert {item.suite for item in SCENARIOS if item.side_by_side} == {"tls", "device", "messages"}


ONE = Identity(IBM, b"\x00\x0b" + bytes(32), {})
UNKNOWN = Identity(IBM, None, {0x81000001: b"name", 0x81000002: b"another"})


@pytest.mark.parametrize(
    ("one", "other", "answer", "by"),
    [
        (ONE, ONE, True, "a primary key .* same Name"),
        (ONE, dataclasses.replace(ONE, primary=b"\x00\x0b" + b"\1" * 32), False, "another Name"),
        (ONE, dataclasses.replace(ONE, description=("INTC", "", "1")), False, "'INTC  1'"),
        (UNKNOWN, UNKNOWN, True, "0x81000001 has the same Name"),
        (ONE, UNKNOWN, None, "hold no persistent object"),
        (
            UNKNOWN,
            dataclasses.replace(UNKNOWN, persistent={0x81000001: b"a third"}),
            None,
            "hold no persistent object",
        ),
    ],
)
def test_whether_it_is_one_tpm(
    one: Identity, other: Identity, answer: bool | None, by: str
) -> None:
    found, told = same(one, other)
    assert found is answer

    assert re.search(by, told), told


def way(tcti: str, **changes: Any) -> dict[str, Any]:
    return {
        "tcti": tcti, "resource_manager": "none", "status": "valid", "reason": None,
        "tpm": None, "same_tpm": True, "same_tpm_told_by": "a key", "handles_equal": True,
        "device": [], "messages": [], "tls": [],
    } | changes  # fmt: skip


def signing(median: int, **changes: Any) -> dict[str, Any]:
    arms = [documents.arm("tpm-persistent", [median] * 3), documents.arm("software", [40_000] * 3)]
    return documents.scenario("raw-signing", "p256", arms, **changes)


def document(*ways: dict[str, Any]) -> dict[str, Any]:
    return {
        "tpm": {"tcti": "device:/dev/tpmrm0", "resource_manager": "kernel"},
        "scenarios": [signing(2_160_000)],
        "other_transports": list(ways),
    }


def test_medians_stand_side_by_side_and_software_does_not() -> None:
    shown = "\n".join(show_ways.lines(document(way("device:/dev/tpm0", tls=[signing(2_050_000)]))))
    assert "  1  device:/dev/tpmrm0, resource manager: kernel" in shown
    assert "  2  device:/dev/tpm0, no resource manager" in shown
    assert "the same TPM: a key" in shown
    assert "handles are as they were" in shown
    (line,) = [item for item in shown.splitlines() if item.startswith("raw-signing")]
    assert line.split() == ["raw-signing", "p256", "tpm-persistent", "2.160", "2.050"]
    assert "software" not in shown


def test_a_way_that_could_not_be_opened_has_its_reason_and_no_column() -> None:
    gone = way("tabrmd", status="invalid", reason="no daemon", same_tpm=None,
               same_tpm_told_by=None, handles_equal=None)  # fmt: skip
    shown = list(show_ways.lines(document(gone, way("mssim", tls=[signing(90_000_000)]))))
    assert "     invalid: no daemon" in shown
    assert shown[-2].split() == ["Medians", "in", "ms", "1", "3"]
    assert list(show_ways.lines(document(gone)))[-1] == "     invalid: no daemon"


def test_an_invalid_scenario_has_no_median() -> None:
    bad = signing(44_000_000, status="invalid", reason="transport artefact")
    shown = list(show_ways.lines(document(way("mssim", tls=[bad]))))
    assert shown[-1].split() == ["raw-signing", "p256", "-", "invalid"]


def test_one_way_has_no_such_part() -> None:
    alone = document()
    assert list(show_ways.lines(alone)) == []
    del alone["other_transports"]
    assert list(show_ways.lines(alone)) == []
