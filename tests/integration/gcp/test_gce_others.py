"""What is another's is neither changed nor removed, and what is ours is found and goes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.gcp.conftest import Gce

ZONE = "europe-west4-b"
KEY = (ZONE, "bench-snp")
RULE = {"fleet": "trial", "source_ranges": ["192.0.2.0/24"], "tag": "bench"}


def ago(seconds: int) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def aged(gce: Gce, name: str, seconds: int) -> None:
    """Let a VM, its disk and its start be that old."""
    store, then = gce.double.store, ago(seconds)
    store.disks[ZONE, name]["creationTimestamp"] = then
    store.instances[ZONE, name] |= {"creationTimestamp": then, "lastStartTimestamp": then}
    del store.instances[ZONE, name]["resourceStatus"]


def uses(gce: Gce, name: str) -> None:
    """Let the disk say which VM it is attached to, as the API does."""
    instance = f"{gce.double.store.base}/projects/test-project/zones/{ZONE}/instances/{name}"
    gce.double.store.disks[ZONE, name]["users"] = [instance]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_vm_of_another_fleet_is_left_alone(gce: Gce, state: str) -> None:
    """Fleet ``a`` with a host ``b-c`` and fleet ``a-b`` with a host ``c`` name their VMs alike."""
    gce.vm(labels={"tpm-fleet-bench": "second"})
    before = json.dumps(gce.double.store.instances[KEY], sort_keys=True)
    refused = gce.vm(state=state, recreate=True)
    assert (refused.status, refused.answer["kind"]) == (1, "not-ours"), refused.answer
    assert "it belongs to the fleet second" in refused.answer["msg"]
    assert json.dumps(gce.double.store.instances[KEY], sort_keys=True) == before


def test_a_removal_must_say_whose_the_vm_is(gce: Gce) -> None:
    gce.vm()
    refused = gce.vm(state="absent", labels={})
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert KEY in gce.double.store.instances


@pytest.mark.parametrize("fleet", ["", "*", "trial OR labels.tpm-fleet-bench:*"])
def test_no_name_of_a_fleet_means_every_fleet(gce: Gce, fleet: str) -> None:
    gce.vm()
    refused = gce.run("gce_leftovers", state="absent", fleet=fleet)
    assert (refused.status, refused.answer["kind"]) == (1, "rules")
    assert KEY in gce.double.store.instances


def test_what_an_unfiltered_list_has_besides_is_not_ours(gce: Gce) -> None:
    store = gce.double.store
    gce.vm(name="ours")
    gce.vm(name="second", labels={"tpm-fleet-bench": "second"})
    gce.vm(name="theirs")
    store.instances[ZONE, "theirs"]["labels"] = {"team": "other"}
    every = {"items": {f"zones/{ZONE}": {"instances": list(store.instances.values())}}}
    gce.double.fail(on="aggregated/instances$", status=200, error=every)
    swept = gce.run("gce_leftovers", state="absent", fleet="trial", kinds=["instances"])
    assert [item["name"] for item in swept.answer["found"]] == ["ours"]
    assert set(store.instances) == {(ZONE, "second"), (ZONE, "theirs")}


def test_a_vm_with_time_left_is_swept_by_age_only_if_that_is_asked_for(gce: Gce) -> None:
    gce.vm(name="long", max_run_duration=8 * 3600)
    gce.vm(name="over")
    gce.run("gce_ssh_firewall", **RULE)
    for name in ("long", "over"):
        aged(gce, name, 3 * 3600)
        uses(gce, name)
    (rule,) = gce.double.store.firewalls.values()
    rule["creationTimestamp"] = ago(90000)
    how = {"state": "absent", "min_age": 7200}
    swept = gce.run("gce_leftovers", **how, keep_until_deadline=True)
    assert swept.status == 0, swept.answer
    assert {item["path"].rpartition("zones/")[2] for item in swept.answer["found"]} == {
        f"{ZONE}/instances/over",
        f"{ZONE}/disks/over",
    }
    assert set(gce.double.store.instances) == set(gce.double.store.disks) == {(ZONE, "long")}
    assert len(gce.double.store.firewalls) == 1  # SSH to the VM that stays
    assert gce.run("gce_leftovers", **how).status == 0
    assert gce.double.store.instances == gce.double.store.firewalls == {}


def test_a_vm_that_took_the_name_of_one_that_is_swept_is_left_alone(
    gce: Gce, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils import gce_leftovers

    gce.vm()
    aged(gce, "bench-snp", 8000)
    listed, new = gce_leftovers.of_age, {}

    def meanwhile(*given: Any, **how: Any) -> list[dict[str, Any]]:
        found = listed(*given, **how)
        gce.double.store.gone(KEY)  # at its deadline
        monkeypatch.undo()
        new.update(gce.vm().answer["vm"])  # and the next run made another
        return found

    monkeypatch.setattr(gce_leftovers, "of_age", meanwhile)
    swept = gce.run("gce_leftovers", state="absent", min_age=7200, kinds=["instances"])
    assert swept.status == 0, swept.answer
    assert gce.double.store.instances[KEY]["id"] == new["id"]


def test_a_vm_that_is_only_being_stopped_is_asked_to_go_when_it_has(gce: Gce) -> None:
    gce.vm()
    instance = gce.double.store.instances[KEY]
    instance["status"] = "STOPPING"
    settle, left = gce.double.store.settle, iter(range(4))

    def stop() -> None:
        settle()
        if instance["status"] == "STOPPING" and next(left, None) is None:
            instance["status"] = "TERMINATED"
            gce.double.store.settle = settle  # type: ignore[method-assign]

    gce.double.store.settle = stop  # type: ignore[method-assign]
    gone = gce.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert gce.double.store.instances == {}


def test_a_disk_in_the_way_of_a_vm_is_named_with_what_removes_it(gce: Gce) -> None:
    gce.vm()
    gce.double.store.instances.clear()
    for labels, remedy in (({"tpm-fleet-bench": "trial"}, "teardown.yml"), ({}, "choose another")):
        gce.double.store.disks[KEY]["labels"] = labels
        refused = gce.vm()
        assert (refused.status, refused.answer["kind"]) == (1, "conflict")
        assert "There is a disk bench-snp" in refused.answer["msg"]
        assert remedy in refused.answer["msg"]
    assert KEY in gce.double.store.disks


def test_answers_without_what_is_needed_least_do_not_stop_a_sweep(gce: Gce) -> None:
    gce.vm()
    gce.run("gce_ssh_firewall", **RULE)
    store = gce.double.store
    for held in (store.instances, store.disks, store.firewalls):
        for item in held.values():
            item.pop("creationTimestamp")
    store.instances[KEY] |= {"resourceStatus": None, "scheduling": None, "lastStartTimestamp": "-"}
    swept = gce.run("gce_leftovers", state="absent", min_age=7200)
    assert swept.status == 0, swept.answer
    assert store.instances == store.firewalls == {}


def test_a_rule_that_another_play_makes_or_removes_meanwhile_is_no_failure(
    gce: Gce, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils.gce_api import Api

    send = Api.change

    def first(api: Api, method: str, path: str, body: Any = None) -> dict[str, Any]:
        monkeypatch.setattr(Api, "change", send)
        send(api, method, path, body)
        monkeypatch.setattr(Api, "change", first)
        return send(api, method, path, body)

    monkeypatch.setattr(Api, "change", first)
    for state in ("present", "absent"):
        done = gce.run("gce_ssh_firewall", **RULE, state=state)
        assert (done.status, done.answer["changed"]) == (0, True), done.answer
    assert gce.double.store.firewalls == {}


@pytest.mark.parametrize("unseen", ["/instances/bench-snp$", "/operations/"])
def test_what_was_just_made_may_not_be_known_at_once(gce: Gce, unseen: str) -> None:
    count, answer = iter(range(2)), gce.double.answer
    gce.double.store.latency = 0.0

    def late(verb: str, path: str, *rest: Any) -> dict[str, Any]:
        from tests.support.compute_double.faults import RefusedError

        made = any(line.startswith("POST ") for line in gce.double.requests)
        fits = re.search(unseen, path) is not None
        if verb == "GET" and made and fits and next(count, None) is not None:
            raise RefusedError(404, "notFound", f"The resource '{path}' was not found")
        return answer(verb, path, *rest)

    gce.double.answer = late  # type: ignore[method-assign]
    made = gce.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert next(count, None) is None


@pytest.mark.parametrize("status", ["TERMINATED", "SUSPENDED", "STOPPING"])
def test_a_vm_that_stops_meanwhile_is_not_waited_for(gce: Gce, status: str) -> None:
    gce.vm()
    gce.double.store.instances[KEY]["status"] = status
    failed = gce.run("gce_instance_identity", name="bench-snp", zone=ZONE)
    assert (failed.status, failed.answer["kind"]) == (1, "vanished")
    assert f"bench-snp is {status}" in failed.answer["msg"]
