from __future__ import annotations

import statistics

import numpy as np
import pytest
from scipy import stats as scipy_stats

from collector import fleet
from collector.load import Loaded
from collector.ratios import MAIN
from collector.summarise import Host, summarise
from tests.fixtures import documents as made


def host(document: made.Document) -> Host:
    return summarise(Loaded(f"{document['host']}.json", document), keep_samples=False)


def flat(name: str, tpm: int, software: int = 1000, **changes: object) -> Host:
    """A host of one scenario whose samples do not vary."""
    arms = [made.arm("tpm-persistent", [tpm] * 9), made.arm("software", [software] * 9)]
    scenarios = [made.scenario("handshake-new", "p256", arms)]
    return host(made.document(name) | {"scenarios": scenarios} | changes)


def figure(hosts: list[Host], arm: str = "tpm-persistent") -> fleet.Figure:
    (found,) = (one for one in fleet.figures(hosts) if one.arm == arm)
    return found


def test_the_host_is_the_unit() -> None:
    hosts = [flat(f"vm-{index}", tpm) for index, tpm in enumerate((2000, 3000, 7000))]
    found = figure(hosts)
    assert (found.hosts, found.median.value) == (3, 3000)
    # Fewer than six hosts: their range.
    assert (found.median.low, found.median.high) == (2000, 7000)
    # Quartiles of 2, 3, 7 by linear interpolation: 2.5 and 5.
    assert found.between == pytest.approx((5 - 2.5) / 3)
    assert found.within == 0
    assert found.medians == (2000, 3000, 7000)


def test_within_host_spread_is_not_taken_for_spread_between_hosts() -> None:
    hosts = [host(made.document(f"vm-{index}", seed=index, curves=("p256",))) for index in range(8)]
    raw = next(one for one in fleet.figures(hosts) if one.scenario == "raw-signing")
    assert raw.between is not None
    assert raw.within is not None
    # All hosts are drawn from one distribution, so their medians vary less than their samples.
    assert raw.between < raw.within


def test_the_interval_resamples_hosts() -> None:
    values = [1000, 1100, 1200, 1500, 1900, 2600, 2700, 3300, 5000, 5100, 5400]
    found = figure([flat(f"vm-{index}", value) for index, value in enumerate(values)])
    theirs = scipy_stats.bootstrap(
        (np.array(values),), np.median, n_resamples=20_000, method="percentile", random_state=1
    ).confidence_interval
    assert found.median.value == statistics.median(values)
    assert (found.median.low, found.median.high) == (theirs.low, theirs.high)


def test_a_host_of_several_runs_counts_once() -> None:
    hosts = [
        flat("vm-1", 2000, run_id="a"),
        flat("vm-1", 4000, run_id="b"),
        flat("vm-1", 9000, run_id="c"),
        flat("vm-2", 5000, run_id="a"),
    ]
    found = figure(hosts)
    assert found.hosts == 2
    assert found.medians == (4000, 5000)


def test_one_host_alone_has_its_own_interval() -> None:
    one = host(made.document("vm-1", curves=("p256",)))
    found = fleet.figures([one])[0]
    assert found.between is None
    own = one.scenarios[0].arms[0].durations
    assert own is not None
    assert found.median == own.median
    ratio = fleet.ratios([one])[0]
    assert ratio.ratio == one.scenarios[0].ratios[0].ratio


def test_ratios_are_taken_within_a_host_before_they_are_put_together() -> None:
    # The hosts' speeds differ tenfold; the ratio does not.
    hosts = [flat(f"vm-{index}", 2500 * speed, 1000 * speed) for index, speed in enumerate((1, 10))]
    (found,) = fleet.ratios(hosts)
    assert found.comparison == MAIN
    assert (found.ratio.value, found.ratio.low, found.ratio.high) == (2.5, 2.5, 2.5)


def test_kinds_of_hosts_are_kept_apart() -> None:
    slowed = made.document("vm-4")
    slowed["tpm"]["simulated_device"] = True
    hosts = [
        host(made.document("vm-1")),
        host(made.document("vm-2", tee="tdx")),
        host(made.local("vm-3")),
        host(slowed),
    ]
    kinds = {one.kind for one in fleet.figures(hosts)}
    assert len(kinds) == 4
    assert [kind.emulated for kind in sorted(kinds)] == [False, False, True, True]


def test_a_ratio_needs_a_denominator() -> None:
    assert fleet.ratios([flat("vm-1", 2000, 0)]) == []


def test_the_within_host_interval_agrees_with_plain_resampling() -> None:
    one = made.document("vm-1", curves=("p256",))
    (ratio,) = (found.ratio for found in host(one).scenarios[2].ratios if found.comparison == MAIN)
    arms = {arm["name"]: np.array(arm["samples_ns"]) for arm in one["scenarios"][2]["arms"]}
    rng = np.random.default_rng(4)
    draws = [
        np.median(rng.choice(arms["tpm-persistent"], 50))
        / np.median(rng.choice(arms["software"], 50))
        for _ in range(4000)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    assert ratio.value == np.median(arms["tpm-persistent"]) / np.median(arms["software"])
    assert ratio.low == pytest.approx(low, rel=0.005)
    assert ratio.high == pytest.approx(high, rel=0.005)
