from __future__ import annotations

import random
from typing import Any

import pytest

from collector.claims import CLAIMS
from collector.load import Loaded
from collector.stats import Interval
from collector.summarise import Host, summarise
from collector.verdict_rows import verdict_rows
from collector.verdicts import Verdict, judge
from tests.fixtures import documents as made

PUBLISHED_LIKE = made.document()


def host(document: made.Document) -> Host:
    return summarise(Loaded("x.json", document), keep_samples=False)


def rows(*documents: made.Document) -> dict[tuple[str, bool], dict[str, Any]]:
    found = verdict_rows([host(document) for document in documents])
    return {(row["name"], row["emulated"]): row for row in found}


def verdict(document: made.Document, claim: str) -> str:
    return str(rows(document)[claim, False]["verdict"])


def slower(document: made.Document, scenario: str, arm: str, factor: float) -> made.Document:
    """The document with one arm's samples multiplied."""
    changed = made.document()
    for found in changed["scenarios"]:
        for one in found["arms"]:
            if (found["name"], one["name"]) == (scenario, arm):
                one["samples_ns"] = [round(value * factor) for value in one["samples_ns"]]
    return changed


def counted(scenario: str, **changes: Any) -> made.Document:
    """The document with other counts in one scenario's TPM arm."""
    changed = made.document()
    for found in changed["scenarios"]:
        for one in found["arms"]:
            if (found["name"], one["name"]) == (scenario, "tpm-persistent"):
                one.update(changes)
    return changed


def test_a_host_like_the_published_one_confirms_every_claim() -> None:
    found = rows(PUBLISHED_LIKE)
    assert {name for name, _ in found} == {claim.name for claim in CLAIMS}
    assert {row["verdict"] for row in found.values()} == {"confirmed"}


@pytest.mark.parametrize(
    ("claim", "scenario", "arm", "factor"),
    [
        ("tpm-milliseconds", "raw-signing", "tpm-persistent", 10),
        ("software-microseconds", "raw-signing", "software", 10),
        ("signature-dominates", "handshake-new", "tpm-persistent", 3),
        ("ceiling", "handshake-new", "tpm-persistent", 10),
        ("resumed-equal", "handshake-resumed", "tpm-persistent", 1.5),
        ("reused-equal", "connection-reused", "software", 2),
        ("transient-tenfold", "raw-signing", "tpm-transient", 0.1),
        ("transient-tenfold", "raw-signing", "tpm-transient", 4),
        ("same-transport-tenfold", "loaded-transport", "same-transport", 0.1),
        ("other-transport-free", "loaded-transport", "other-transport", 2),
    ],
)
def test_a_host_that_differs_refutes(claim: str, scenario: str, arm: str, factor: float) -> None:
    assert verdict(slower(PUBLISHED_LIKE, scenario, arm, factor), claim) == "refuted"


def test_p384_no_dearer_refutes() -> None:
    changed = made.document()
    for found in changed["scenarios"]:
        if found["name"] == "raw-signing" and found["curve"] == "p384":
            for one in found["arms"]:
                one["samples_ns"] = [round(value / 1.4) for value in one["samples_ns"]]
    assert verdict(changed, "p384-dearer") == "refuted"


def test_one_curve_leaves_the_claims_on_two_undecided() -> None:
    row = rows(made.document(curves=("p256",)))["p384-dearer", False]
    assert row["verdict"] == "undecided"
    assert row["reasons"] == ["not measured"]


@pytest.mark.parametrize(
    ("claim", "scenario", "changes"),
    [
        (
            "signatures-new",
            "handshake-new",
            {"signatures": {"signer": 50, "transport": 49, "peer": 50}},
        ),
        (
            "signatures-resumed",
            "handshake-resumed",
            {"signatures": {"signer": 2, "transport": 2, "peer": 2}},
        ),
        ("signatures-resumed", "handshake-resumed", {"resumed": 48}),
        (
            "signatures-reused",
            "connection-reused",
            {"signatures": {"signer": 0, "transport": None, "peer": 0}},
        ),
    ],
)
def test_other_counts_refute(claim: str, scenario: str, changes: dict[str, Any]) -> None:
    assert verdict(counted(scenario, **changes), claim) == "refuted"


def test_nothing_counted_leaves_it_undecided() -> None:
    nothing = {"signatures": {"signer": None, "transport": None, "peer": None}}
    row = rows(counted("handshake-new", **nothing))["signatures-new", False]
    assert (row["verdict"], row["reasons"]) == ("undecided", ["nothing counted"])


def test_an_exportable_key_refutes() -> None:
    changed = made.document()
    changed["keys"][1]["non_exportable"] = False
    row = rows(changed)["non-exportable", False]
    assert row["verdict"] == "refuted"
    assert (row["confirmed"], row["refuted"], row["refuting"]) == (1, 1, ["vm-1 P-384"])


def test_without_a_resource_manager_the_reason_is_given() -> None:
    found = rows(made.local())
    for claim in ("transient-tenfold", "same-transport-tenfold", "other-transport-free"):
        assert found[claim, True]["verdict"] == "undecided"
        (reason,) = found[claim, True]["reasons"]
        assert reason == "no resource manager on this transport"


def test_a_transient_key_that_nothing_swaps_refutes_nothing() -> None:
    document = made.document()
    document["tpm"]["resource_manager"] = "none"
    for found in document["scenarios"]:
        if found["name"] == "raw-signing":
            by_name = {one["name"]: one for one in found["arms"]}
            by_name["tpm-transient"]["samples_ns"] = by_name["tpm-persistent"]["samples_ns"]
    row = rows(document)["transient-tenfold", False]
    assert row["verdict"] == "undecided"
    assert row["reasons"] == ["no resource manager on this transport"]


def test_a_scenario_that_was_not_applicable_gives_its_reason() -> None:
    document = made.local(resource_manager="unknown")
    for number, found in enumerate(document["scenarios"]):
        if found["name"] == "loaded-transport":
            document["scenarios"][number] = made.not_applicable(
                "loaded-transport", found["curve"], "three slots are taken"
            )
    row = rows(document)["same-transport-tenfold", True]
    assert (row["verdict"], row["reasons"]) == (
        "undecided",
        ["not-applicable: three slots are taken"],
    )


def test_figures_of_an_invalid_scenario_decide_nothing() -> None:
    changed = made.document()
    for found in changed["scenarios"]:
        if found["name"] == "handshake-new":
            found.update(status="invalid", reason="counts disagree")
    found = rows(changed)
    for claim in ("signatures-new", "signature-dominates", "ceiling"):
        assert found[claim, False]["verdict"] == "undecided"
        assert found[claim, False]["figure"] == "-"
        assert found[claim, False]["reasons"] == ["invalid: counts disagree"]


def test_hosts_that_disagree_leave_it_undecided_and_are_named() -> None:
    odd = slower(PUBLISHED_LIKE, "handshake-resumed", "tpm-persistent", 2) | {"host": "vm-2"}
    row = rows(PUBLISHED_LIKE, odd)["resumed-equal", False]
    assert row["verdict"] == "undecided"
    assert row["refuting"] == ["vm-2 P-256", "vm-2 P-384"]


def noisy(host: str, scenario: str) -> made.Document:
    """A host on which the intervals of one scenario's ratios cross the limits, on both curves."""
    rng = random.Random(3)
    # A new connection twice as long as a signature, where the limit on their ratio is.
    median = {"handshake-new": 4.3e6}.get(scenario, 1e6)
    changed = made.document(host)
    for found in changed["scenarios"]:
        if found["name"] == scenario:
            for one in found["arms"]:
                one["samples_ns"] = [round(median * rng.lognormvariate(0, 1)) for _ in range(50)]
    return changed


def without(host: str, scenario: str) -> made.Document:
    """A host that was not asked one scenario."""
    changed = made.document(host)
    changed["scenarios"] = [one for one in changed["scenarios"] if one["name"] != scenario]
    return changed


@pytest.mark.parametrize(
    ("clear", "unclear", "expected"),
    [(1, 3, "undecided"), (1, 2, "undecided"), (1, 1, "confirmed"), (2, 1, "confirmed")],
)
@pytest.mark.parametrize("claim", ["resumed-equal", "signature-dominates"])
def test_half_of_the_cases_must_say_so(claim: str, clear: int, unclear: int, expected: str) -> None:
    """Both for a claim with two limits and for one that is open on one side."""
    scenario = {"resumed-equal": "handshake-resumed", "signature-dominates": "handshake-new"}[claim]
    fleet = [made.document(f"clear-{number}") for number in range(clear)]
    fleet += [noisy(f"noisy-{number}", scenario) for number in range(unclear)]
    row = rows(*fleet)[claim, False]
    assert (row["verdict"], row["confirmed"], row["total"]) == (
        expected,
        2 * clear,
        2 * (clear + unclear),
    )


def test_half_of_the_cases_refute_too() -> None:
    slow = slower(PUBLISHED_LIKE, "handshake-resumed", "tpm-persistent", 2)
    for unclear, expected in ((1, "refuted"), (2, "undecided")):
        fleet = [noisy(f"noisy-{number}", "handshake-resumed") for number in range(unclear)]
        assert rows(slow, *fleet)["resumed-equal", False]["verdict"] == expected


def test_one_contrary_case_leaves_a_timing_undecided_and_refutes_a_count() -> None:
    many = [made.document(f"vm-{number}") for number in range(2, 6)]
    slow = slower(PUBLISHED_LIKE, "handshake-resumed", "tpm-persistent", 2)
    assert rows(slow, *many)["resumed-equal", False]["verdict"] == "undecided"
    miscounted = counted("handshake-resumed", resumed=48)
    assert rows(miscounted, *many)["signatures-resumed", False]["verdict"] == "refuted"


def test_who_was_not_asked_has_no_voice() -> None:
    row = rows(made.document("vm-1"), *(without(f"vm-{n}", "handshake-resumed") for n in (2, 3)))
    found = row["resumed-equal", False]
    assert (found["verdict"], found["total"], found["not_asked"]) == ("confirmed", 2, 2)


def test_who_was_asked_and_has_no_usable_answer_counts() -> None:
    fleet = [made.document(f"vm-{number}") for number in (1, 2, 3)]
    for one in fleet[1:]:
        for found in one["scenarios"]:
            if found["name"] == "handshake-resumed":
                found.update(status="invalid", reason="counts disagree")
    row = rows(*fleet)["resumed-equal", False]
    assert (row["verdict"], row["confirmed"], row["total"]) == ("undecided", 2, 6)


def test_software_tpms_are_judged_apart() -> None:
    odd = made.local()
    for found in odd["scenarios"]:
        if found["name"] == "handshake-resumed":
            found["arms"][0]["samples_ns"] = [value * 2 for value in found["arms"][0]["samples_ns"]]
    found = rows(PUBLISHED_LIKE, odd)
    assert found["resumed-equal", False]["verdict"] == "confirmed"
    assert found["resumed-equal", True]["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("figure", "band", "expected"),
    [
        (Interval(1.0, 0.95, 1.05), (0.9, 1.1), Verdict.CONFIRMED),
        (Interval(1.05, 0.99, 1.12), (0.9, 1.1), Verdict.UNDECIDED),
        (Interval(1.2, 1.11, 1.3), (0.9, 1.1), Verdict.REFUTED),
        (Interval(0.8, 0.7, 0.89), (0.9, 1.1), Verdict.REFUTED),
        (Interval(1.2, 1.11, 1.3), (1.0, None), Verdict.CONFIRMED),
        (Interval(0.9, 0.8, 0.99), (1.0, None), Verdict.REFUTED),
        (Interval(150.0, None, None), (100, 1000), Verdict.CONFIRMED),
        (Interval(1500.0, None, None), (100, 1000), Verdict.REFUTED),
    ],
)
def test_the_whole_interval_decides(
    figure: Interval, band: tuple[float | None, float | None], expected: Verdict
) -> None:
    assert judge(figure, *band) is expected


def test_wide_noise_is_undecided() -> None:
    rng = random.Random(3)
    changed = made.document(curves=("p256",))
    for found in changed["scenarios"]:
        if found["name"] == "handshake-resumed":
            for one in found["arms"]:
                one["samples_ns"] = [round(1e6 * rng.lognormvariate(0, 1)) for _ in range(50)]
    row = rows(changed)["resumed-equal", False]
    assert row["verdict"] == "undecided"
    assert row["reasons"] == ["the interval crosses the limit"]
