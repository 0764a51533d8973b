"""What is another's is neither changed nor removed, and what is ours is found and goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.azure_double.faults import RefusedError, refusal
from tests.support.azure_double.store import DISK, SCHEDULE, VM
from tests.support.azure_options import FLEETS, NETWORKS, parts

if TYPE_CHECKING:
    from tests.integration.azure.conftest import Azure


def at(minutes: int) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()


def test_each_part_says_which_vm_it_belongs_to(azure: Azure) -> None:
    """A proof of absence for some hosts alone asks for it."""
    azure.vm()
    found = azure.run("azure_leftovers", fleet="trial").answer["found"]
    assert {item["vm"] for item in found if item["name"] != FLEETS} == {"bench-snp"}
    assert len(found) == 7
    assert {item["vm"] for item in found if item["name"] == FLEETS} == {""}


def test_a_vm_with_time_left_is_swept_by_age_only_if_that_is_asked_for(azure: Azure) -> None:
    for name in ("long", "over"):
        assert azure.vm(name=name).status == 0
    for (kind, _), item in azure.double.store.held.items():
        item["tags"] |= {
            "tpm-fleet-bench-made": at(-180),
            "tpm-fleet-bench-deadline": at(300 if "long" in item["name"] else -60),
        }
        if kind in (VM, DISK):
            item["properties"]["timeCreated"] = at(-180)
        if kind == SCHEDULE:
            item["properties"]["createdDate"] = at(-180)
    how = {"state": "absent", "min_age": 7200}
    swept = azure.run("azure_leftovers", **how, keep_until_deadline=True)
    assert swept.status == 0, swept.answer
    assert azure.double.store.names() == parts("long") | NETWORKS
    assert azure.run("azure_leftovers", **how).status == 0
    assert azure.double.store.names() == set()


def test_a_vm_that_a_slow_clock_takes_for_one_to_come_is_young(azure: Azure) -> None:
    azure.vm()
    for (kind, _), item in azure.double.store.held.items():
        if kind in (VM, DISK):
            item["properties"]["timeCreated"] = at(90)
    swept = azure.run("azure_leftovers", state="absent", min_age=7200)
    assert (swept.status, swept.answer["found"]) == (0, []), swept.answer
    listed = azure.run("azure_leftovers").answer["found"]
    assert {item["age"] for item in listed if item["kind"] in (VM, DISK)} == {0}


def test_the_network_of_a_vm_that_is_not_to_go_stays(azure: Azure) -> None:
    azure.vm()
    kinds = ["networkSecurityGroups", "virtualNetworks", "networkInterfaces"]
    swept = azure.run("azure_leftovers", state="absent", fleet="trial", kinds=kinds)
    assert (swept.status, swept.answer["found"]) == (0, []), swept.answer


def test_a_removal_that_something_else_held_up_is_asked_for_again(azure: Azure) -> None:
    azure.vm()
    busy = refusal("OperationNotAllowed", "The VM is being changed.")
    azure.double.fail(on="^DELETE .*/virtualMachines/", status=409, error=busy, times=3)
    gone = azure.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert parts("bench-snp").isdisjoint(azure.double.store.names())


def test_a_removal_that_never_gets_through_says_why(azure: Azure) -> None:
    azure.vm()
    busy = refusal("OperationNotAllowed", "The VM is being changed.")
    azure.double.fail(on="^DELETE .*/virtualMachines/", status=409, error=busy, times=1000)
    late = azure.vm(state="absent", timeout=2)
    assert (late.status, late.answer["kind"]) == (1, "deadline")
    assert "is still there; the last answer was: The VM is being changed" in late.answer["msg"]


@pytest.mark.parametrize("unseen", ["/virtualMachines/bench-snp$", "/operations/"])
def test_what_was_just_made_may_not_be_known_at_once(azure: Azure, unseen: str) -> None:
    there, count = azure.double.store.get, iter(range(2))
    operation = azure.double.store.operation
    azure.double.store.latency = 0.0

    def late(*asked: str) -> Any:
        made = any(line.startswith("PUT ") and VM in line for line in azure.double.requests)
        vm = asked[0] == VM and "virtualMachines" in unseen and made
        under_way = len(asked) == 1 and "operations" in unseen
        last = azure.double.requests[-1]
        if (vm or under_way) and last.startswith("GET ") and next(count, None) is not None:
            raise RefusedError(404, "ResourceNotFound", "It was not found.")
        return there(*asked) if len(asked) == 2 else operation(*asked)

    azure.double.store.get = late  # type: ignore[method-assign]
    azure.double.store.operation = late  # type: ignore[method-assign]
    made = azure.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert next(count, None) is None


@pytest.mark.parametrize("state", ["stopped", "deallocated"])
def test_a_vm_that_stops_meanwhile_is_not_waited_for(azure: Azure, state: str) -> None:
    azure.vm()
    azure.double.store._power(azure.double.store.get(VM, "bench-snp"), state)
    failed = azure.run("azure_vm_identity", name="bench-snp")
    assert (failed.status, failed.answer["kind"]) == (1, "vanished")
    assert f"bench-snp is {state}" in failed.answer["msg"]


def test_a_vm_that_another_makes_meanwhile_keeps_its_auto_shutdown(azure: Azure) -> None:
    store = azure.double.store
    put = store.put

    def after_another(kind: str, name: str, body: Any, fault: Any) -> Any:
        """Just before ours, someone makes a VM of this name by hand, and its auto-shutdown."""
        if kind != VM:
            return put(kind, name, body, fault)
        machine = store.identity(VM, name)
        theirs = {"id": machine, "name": name, "type": VM, "properties": body["properties"]}
        store.held[VM, name] = theirs | {"location": "westeurope"}
        shutdown = f"shutdown-computevm-{name}"
        store.held[SCHEDULE, shutdown] = {
            "id": store.identity(SCHEDULE, shutdown),
            "name": shutdown,
            "type": SCHEDULE,
            "properties": {"targetResourceId": machine},
        }
        raise RefusedError(412, "PreconditionFailed", "It exists.")

    store.put = after_another  # type: ignore[method-assign]
    refused = azure.vm()
    assert (refused.status, refused.answer["kind"]) == (1, "not-ours"), refused.answer
    theirs = {"virtualMachines bench-snp", "schedules shutdown-computevm-bench-snp"}
    assert store.names() == NETWORKS | theirs


def test_a_vm_that_took_the_name_of_one_that_is_swept_is_left_alone(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible.module_utils import azure_leftovers

    azure.vm()
    listed, made = azure_leftovers.of_age, []

    def meanwhile(*given: Any, **how: Any) -> list[dict[str, Any]]:
        found = listed(*given, **how)
        monkeypatch.undo()
        azure.vm(state="absent")
        made.append(azure.vm().answer["vm"]["id"])  # the next run's
        return found

    monkeypatch.setattr(azure_leftovers, "of_age", meanwhile)
    azure.run("azure_leftovers", state="absent", kinds=["virtualMachines", "schedules"])
    assert azure.double.store.get(VM, "bench-snp")["properties"]["vmId"] == made[0]
    azure.run("azure_leftovers", state="absent", kinds=["virtualMachines"])
    assert (VM, "bench-snp") not in azure.double.store.held


def test_a_vm_that_took_the_name_while_the_removal_was_held_up_is_left_alone(
    azure: Azure,
) -> None:
    azure.vm()
    store, get = azure.double.store, azure.double.store.get
    busy = refusal("OperationNotAllowed", "The VM is being changed.")
    azure.double.fail(on="^DELETE .*/virtualMachines/", status=409, error=busy)

    def meanwhile(*asked: str) -> Any:
        found = get(*asked)
        if asked[0] == VM and any(line.startswith("DELETE ") for line in azure.double.requests):
            found["properties"]["vmId"] = "the next one's"
        return found

    store.get = meanwhile  # type: ignore[method-assign]
    swept = azure.run("azure_leftovers", state="absent", kinds=["virtualMachines"])
    assert swept.status == 0, swept.answer
    assert store.held[VM, "bench-snp"]["properties"]["vmId"] == "the next one's"


def test_a_vm_whose_deadline_nobody_can_read_is_taken_back(azure: Azure) -> None:
    put = azure.double.store.put

    def and_then(kind: str, *rest: Any) -> Any:
        if kind == VM:
            odd = {"tags": "odd"}
            azure.double.fail(on="^GET .*/schedules/", status=200, error=odd)
        return put(kind, *rest)

    azure.double.store.put = and_then  # type: ignore[method-assign]
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "server"), failed.answer
    assert parts("bench-snp").isdisjoint(azure.double.store.names())
