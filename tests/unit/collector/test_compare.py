from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.compare import Change, Comparison, compare, holm, judge, judge_hosts, mann_whitney
from collector.sample import Sample
from collector.sides import read_side
from collector.stats import Interval
from tests.fixtures import documents as made

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Collector = Callable[..., subprocess.CompletedProcess[str]]


def sample(values: list[float], stream: str = "x") -> Sample:
    ordered = np.sort(np.array(values, dtype=np.float64))
    return Sample("arm", ordered, stream, (), None)


def document(host: str, run: str, **factors: float) -> made.Document:
    """A run on P-256 whose arms of handshake-new take ``factors`` of their usual time."""
    built = made.document(host, run, seed=len(run), curves=("p256",), connections=60)
    for scenario in built["scenarios"]:
        for arm in scenario["arms"] if scenario["name"] == "handshake-new" else ():
            factor = factors.get(arm["name"].replace("-", "_"), 1.0)
            arm["samples_ns"] = [round(value * factor) for value in arm["samples_ns"]]
    return built


def compared(folder: Path, base: list[made.Document], new: list[made.Document]) -> Comparison:
    sides = []
    for name, documents in (("base", base), ("new", new)):
        paths = [
            made.write(folder / name, one, f"{one['host']}-{one['run_id']}.json")
            for one in documents
        ]
        sides.append(read_side(name, paths))
    return compare(*sides)


def change(comparison: Comparison, arm: str, scenario: str = "handshake-new") -> str:
    (found,) = (one for one in comparison.arms if one.key == (scenario, "p256", arm))
    return str(found.change)


def test_what_got_slower_faster_and_stayed(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        [document("vm-1", "a")],
        [document("vm-1", "bb", tpm_persistent=1.3, software=0.7)],
    )
    assert change(found, "tpm-persistent") == "slower"
    assert change(found, "software") == "faster"
    assert {str(one.change) for one in found.arms if one.key[0] != "handshake-new"} == {"same"}
    slower = next(one for one in found.arms if one.change is Change.SLOWER)
    assert slower.ratio is not None
    assert slower.ratio.value == pytest.approx(slower.new_ns / slower.base_ns)
    assert slower.ratio.low is not None
    assert slower.ratio.low < slower.ratio.value
    assert slower.delta > 0.9
    assert found.regressed


def test_the_same_document_on_both_sides_is_the_same_everywhere(tmp_path: Path) -> None:
    found = compared(tmp_path, [document("vm-1", "a")], [document("vm-1", "a")])
    assert {one.change for one in found.arms} == {Change.SAME}
    assert all(one.delta == 0 and one.p_holm == 1 for one in found.arms)
    assert not found.regressed


def test_noise_of_the_same_distribution_is_no_change(tmp_path: Path) -> None:
    base = [made.document(f"vm-{n}", "a", seed=n) for n in range(3)]
    new = [made.document(f"vm-{n}", "b", seed=100 + n) for n in range(3)]
    found = compared(tmp_path, base, new)
    assert len(found.arms) == 3 * 2 * 16
    assert found.count(Change.SLOWER) == found.count(Change.FASTER) == 0


def test_u_and_delta_by_hand() -> None:
    # Of the nine pairs, new is above base in seven and below it in two.
    _, delta = mann_whitney(sample([1, 2, 6]), sample([3, 5, 7]))
    assert delta == pytest.approx((7 - 2) / 9)
    # Exact: all of one side above the other has 2 of the 20 orders of six values.
    p, delta = mann_whitney(sample([1, 2, 3]), sample([4, 5, 6]))
    assert (p, delta) == (pytest.approx(2 / 20), 1)
    assert mann_whitney(sample([5, 5]), sample([5, 5, 5])) == (1.0, 0.0)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=25),
    st.lists(st.integers(1, 30), min_size=1, max_size=25),
)
@settings(deadline=None)
def test_delta_counts_pairs(base: list[int], new: list[int]) -> None:
    p, delta = mann_whitney(sample([*map(float, base)]), sample([*map(float, new)]))
    above = sum((later > old) - (later < old) for old in base for later in new)
    assert delta == pytest.approx(above / (len(base) * len(new)))
    assert 0 <= p <= 1


def test_holm_by_hand() -> None:
    # 4 x 0.01, then 3 x 0.02, then 2 x 0.03, then 1 x 0.04 raised to what came before.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_only_raises_and_keeps_the_order(values: list[float]) -> None:
    found = holm(values)
    assert all(after >= before for before, after in zip(values, found, strict=True))
    assert [after for _, after in sorted(zip(values, found, strict=True))] == sorted(found)


@pytest.mark.parametrize(
    ("ratio", "p", "delta", "expected"),
    [
        (Interval(1.30, 1.2, 1.4), 0.0001, 0.9, "slower"),
        (Interval(0.70, 0.6, 0.8), 0.0001, -0.9, "faster"),
        # Sure, but too small to matter.
        (Interval(1.02, 1.01, 1.03), 0.0001, 0.9, "same"),
        # Large, but not sure.
        (Interval(1.30, 0.9, 1.6), 0.01, 0.5, "undecided"),
        (Interval(1.01, 0.9, 1.2), 0.9, 0.02, "undecided"),
        (Interval(1.06, 1.0, 1.1), 0.0001, 0.10, "undecided"),
        (None, 0.0001, 0.9, "undecided"),
    ],
)
def test_a_change_must_be_sure_and_large(
    ratio: Interval | None, p: float, delta: float, expected: str
) -> None:
    assert judge(ratio, p, delta) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (Interval(1.2, 1.1, 1.3), "slower"),
        (Interval(0.8, 0.7, 0.9), "faster"),
        (Interval(1.2, 0.99, 1.3), "undecided"),
        (Interval(1.01, 0.99, 1.02), "same"),
    ],
)
def test_hosts_together_are_judged_by_the_whole_interval(ratio: Interval, expected: str) -> None:
    assert judge_hosts(ratio) == expected


def test_over_hosts_the_ratio_of_each_host_counts_once(tmp_path: Path) -> None:
    names = [f"vm-{n}" for n in range(7)]
    found = compared(
        tmp_path,
        [document(name, "a") for name in names],
        [document(name, "bb", tpm_persistent=1.1 + n / 50) for n, name in enumerate(names)],
    )
    (one,) = (
        one for one in found.together if one.key == ("handshake-new", "p256", "tpm-persistent")
    )
    ratios = sorted(
        each.ratio.value for each in found.arms if each.key == one.key and each.ratio is not None
    )
    assert (one.hosts, one.few) == (7, False)
    assert one.ratio.value == ratios[3]
    assert one.ratio.low in ratios
    assert one.change is Change.SLOWER


def test_software_tpms_are_not_put_together_with_others(tmp_path: Path) -> None:
    both = [[document("vm-1", "a"), made.local("l-1", run_id="a")] for _ in range(2)]
    found = compared(tmp_path, *both)
    assert found.together == []
    assert {one.kind.emulated for one in found.arms} == {True, False}


def test_what_is_not_compared_is_named(tmp_path: Path) -> None:
    old, new = document("vm-1", "a"), document("vm-1", "bb")
    old["scenarios"][0]["arms"].pop(0)
    new["scenarios"][2].update(status="invalid", reason="49 of 50")
    for one in (old, new):
        one["scenarios"][3] = made.not_applicable("handshake-resumed", "p256", "no tickets")
    new["system"]["kernel"] = "6.9"
    found = compared(
        tmp_path, [old, document("vm-2", "a")], [document("vm-1", "b"), new, document("vm-3", "bb")]
    )
    assert [(one.side, one.host, one.key, one.status, one.reason) for one in found.unmatched] == [
        ("base", "vm-3", None, "absent", ""),
        ("new", "vm-2", None, "absent", ""),
        ("new", "vm-1", ("handshake-new", "p256", ""), "invalid", "49 of 50"),
        ("both", "vm-1", ("handshake-resumed", "p256", ""), "not-applicable", "no tickets"),
        ("base", "vm-1", ("raw-signing", "p256", "tpm-persistent"), "absent", ""),
    ]
    assert found.differing == [("vm-1", "system.kernel", "6.8.0-1015-gcp", "6.9")]
    assert found.new.older == [("vm-1", "b")]
    assert {one.key[0] for one in found.arms} == {
        "raw-signing",
        "loaded-transport",
        "connection-reused",
    }


def test_the_latest_run_counts(tmp_path: Path) -> None:
    early = document("vm-1", "z", tpm_persistent=5.0)
    late = document("vm-1", "y") | {"finished_at": "2026-03-02T10:00:00Z"}
    found = compared(tmp_path, [document("vm-1", "a")], [late, early])
    assert change(found, "tpm-persistent") == "same"
    assert found.new.older == [("vm-1", "z")]


@pytest.fixture
def regression(tmp_path: Path) -> tuple[Path, Path]:
    base = made.write(tmp_path / "base", document("vm-1", "a"))
    new = made.write(tmp_path / "new", document("vm-1", "bb", tpm_persistent=1.3))
    return base, new.parent


def test_the_exit_status(
    regression: tuple[Path, Path], collector: Collector, inside: Collector
) -> None:
    base, new = regression
    plain = collector("compare", base, new)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert plain.stdout.startswith("16 arms compared on 1 host: 1 slower, 0 faster, 15 same")
    assert inside("compare", base, new, "--fail-on", "regression").returncode == 1
    assert inside("compare", base, base, "--fail-on", "regression").returncode == 0
    # Nobody knows what a document that was left out would have shown.
    (new / "half.json").write_text("{")
    done = inside("compare", new, base, "--fail-on", "regression")
    assert done.returncode == 1
    assert "0 slower, 1 faster" in done.stdout
    assert "LEFT OUT" in done.stdout


def test_files_agree_with_what_is_printed(
    regression: tuple[Path, Path], tmp_path: Path, inside: Collector
) -> None:
    base, new = regression
    (new / "vm-1.json").write_text(
        (new / "vm-1.json").read_text().replace("6.8.0-1015-gcp", "<b>|*6.9*\\u001b[31m")
    )
    out = tmp_path / "out"
    done = inside("compare", base, new, "--output", out)
    assert done.stdout.splitlines()[-2:] == [str(out / "compare.md"), str(out / "compare.json")]
    assert max(map(len, done.stdout.splitlines()[:-2])) <= 100
    whole = json.loads((out / "compare.json").read_text())
    (slower,) = (one for one in whole["arms"] if one["verdict"] == "slower")
    assert (slower["scenario"], slower["curve"], slower["arm"]) == (
        "handshake-new",
        "p256",
        "tpm-persistent",
    )
    assert slower["new_median_ns"] / slower["base_median_ns"] == pytest.approx(slower["ratio"])
    assert (slower["base_samples"], slower["p_holm"] < 0.002) == (60, True)
    assert whole["counts"]["slower"] == 1
    in_markdown = (out / "compare.md").read_text()
    row = next(line for line in in_markdown.splitlines() if "**slower**" in line)
    assert f"{slower['ratio']:.3f}" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 12
    assert "<b>" not in in_markdown
    assert "\x1b" not in in_markdown + done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{tmp}/base", "{tmp}/gone"], "no such file or directory"),
        (["{tmp}/base", "{tmp}/other"], "nothing to compare"),
        (["{tmp}/base"], "required: NEW"),
        (["{tmp}/base", "{tmp}/new", "--fail-on", "luck"], "invalid choice"),
        (["{tmp}/base", "{tmp}/new", "--output", "{tmp}/base/vm-1.json"], "cannot be written"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str],
    says: str,
    regression: tuple[Path, Path],
    tmp_path: Path,
    inside: Collector,
) -> None:
    made.write(tmp_path / "other", document("vm-2", "a"))
    done = inside("compare", *(one.format(tmp=tmp_path) for one in arguments))
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_large_fleet_lists_what_changed(tmp_path: Path, inside: Collector) -> None:
    rng = random.Random(1)
    for side in ("base", "new"):
        for n in range(13):
            arms: list[Any] = [
                made.arm(name, made.samples(rng, 1e6 * (1.5 if slow else 1), 40))
                for name, slow in (("software", side == "new" and n == 4), ("floor", False))
            ]
            scenarios = [made.scenario("raw-signing", "p256", arms)]
            one = made.document(f"vm-{n}", side, curves=()) | {"scenarios": scenarios}
            made.write(tmp_path / side, one)
    done = inside("compare", tmp_path / "base", tmp_path / "new")
    assert "26 arms compared on 13 hosts: 1 slower" in done.stdout
    assert "compare.json has them all" in done.stdout
    assert "vm-4 " in done.stdout
    assert "vm-5 " not in done.stdout
