"""Finding and removing what is left, the firewall rule, and the keys of a VM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.compute_double import Vm

if TYPE_CHECKING:
    from tests.integration.gcp.conftest import Gce

ZONE = "europe-west4-b"
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs1lPpPFcFjqVxw1kZEr3vdHnWlwXmKqCF8YzPvVvxz"
ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA=="


def aged(gce: Gce, held: dict[Any, dict[str, Any]], key: Any, seconds: int) -> None:
    then = datetime.now(UTC) - timedelta(seconds=seconds)
    held[key]["creationTimestamp"] = then.isoformat(timespec="milliseconds")


def left(gce: Gce) -> set[str]:
    store = gce.double.store
    held = {f"vm {name}" for _, name in store.instances}
    held |= {f"disk {name}" for _, name in store.disks}
    return held | {f"rule {name}" for name in store.firewalls}


def populate(gce: Gce) -> None:
    """Two fleets, a disk that lost its VM, a rule, and things of other people."""
    store = gce.double.store
    for name, fleet in (("old", "trial"), ("new", "trial"), ("other", "second")):
        gce.vm(name=name, labels={"tpm-fleet-bench": fleet})
    gce.vm(name="theirs", labels={"tpm-fleet-bench": "x"})
    store.instances[ZONE, "theirs"]["labels"] = {"team": "other"}
    store.disks[ZONE, "theirs"]["labels"] = {}
    for held in (store.instances, store.disks):
        aged(gce, held, (ZONE, "old"), 8000)
    store.disks[ZONE, "orphan"] = store.disks[ZONE, "old"] | {"name": "orphan"}
    rule = {"fleet": "trial", "source_ranges": ["192.0.2.0/24"], "tag": "bench"}
    assert gce.run("gce_ssh_firewall", **rule).status == 0
    store.firewalls["default-allow-ssh"] = {"name": "default-allow-ssh", "description": "Google's"}


def test_everything_of_ours_is_listed_with_its_age(gce: Gce) -> None:
    populate(gce)
    gce.double.page_size = 2  # so that there are several pages
    found = gce.run("gce_leftovers").answer
    assert found["changed"] is False
    ages = {(item["kind"], item["name"]): item["age"] for item in found["found"]}
    assert set(ages) == {
        ("instances", "old"),
        ("instances", "new"),
        ("instances", "other"),
        ("disks", "old"),
        ("disks", "new"),
        ("disks", "other"),
        ("disks", "orphan"),
        ("firewalls", "tpm-fleet-bench-trial-ssh"),
    }
    assert 8000 <= ages["instances", "old"] < 8060
    assert ages["instances", "new"] < 60


def test_sweep_removes_by_label_and_age_and_nothing_else(gce: Gce) -> None:
    populate(gce)
    would = gce.run("gce_leftovers", check=True, state="absent", min_age=7200)
    assert would.answer["changed"] is True
    before = left(gce)
    assert "vm old" in before
    swept = gce.run("gce_leftovers", state="absent", min_age=7200)
    assert {item["name"] for item in swept.answer["found"]} == {"old", "orphan"}
    assert before - left(gce) == {"vm old", "disk old", "disk orphan"}
    gce.run("gce_leftovers", state="absent", fleet="trial")
    assert left(gce) == {
        "vm other",
        "disk other",
        "vm theirs",
        "disk theirs",
        "rule default-allow-ssh",
    }
    again = gce.run("gce_leftovers", state="absent", fleet="trial")
    assert (again.status, again.answer["changed"]) == (0, False)


def test_a_vm_that_cannot_be_removed_does_not_keep_the_others(gce: Gce) -> None:
    populate(gce)
    gce.double.fail(on="^DELETE .*/instances/old", status=403)
    failed = gce.run("gce_leftovers", state="absent", fleet="trial")
    assert (failed.status, failed.answer["kind"]) == (1, "permission")
    assert "vm old" in left(gce)
    assert "vm new" not in left(gce)


def test_a_zone_that_cannot_be_looked_at_is_no_proof_of_absence(gce: Gce) -> None:
    gce.double.fail(
        on="^GET .*/aggregated/instances",
        status=200,
        error={"items": {"zones/mars-east1-a": {"warning": {"code": "UNREACHABLE"}}}},
    )
    failed = gce.run("gce_leftovers")
    assert failed.status == 1
    assert "zones/mars-east1-a could not be looked at" in failed.answer["msg"]


def test_the_firewall_rule_is_idempotent_and_only_ours(gce: Gce) -> None:
    rule = {"fleet": "trial", "source_ranges": ["192.0.2.0/24"], "tag": "bench"}
    assert gce.run("gce_ssh_firewall", check=True, **rule).answer["changed"] is True
    assert gce.double.store.firewalls == {}
    assert gce.run("gce_ssh_firewall", **rule).answer["changed"] is True
    assert gce.run("gce_ssh_firewall", **rule).answer["changed"] is False
    wider = gce.run("gce_ssh_firewall", **(rule | {"source_ranges": ["198.51.100.0/24"]}))
    assert wider.answer["diff"]["before"]["sourceRanges"] == ["192.0.2.0/24"]
    name = wider.answer["name"]
    assert gce.double.store.firewalls[name]["sourceRanges"] == ["198.51.100.0/24"]
    assert gce.run("gce_ssh_firewall", state="absent", fleet="trial").answer["changed"] is True
    assert gce.run("gce_ssh_firewall", state="absent", fleet="trial").answer["changed"] is False
    gce.double.store.firewalls[name] = {"name": name, "description": "by hand"}
    for state in ("present", "absent"):
        refused = gce.run("gce_ssh_firewall", **rule, state=state)
        assert refused.answer["kind"] == "not-ours"


def boots(gce: Gce, vm: Vm) -> dict[str, Any]:
    gce.double.store._boot = lambda _: vm
    gce.vm()
    return {"name": "bench-snp", "zone": ZONE}


def test_host_keys_come_from_the_guest_attributes(gce: Gce) -> None:
    vm = boots(gce, Vm(host_keys=[ED25519, ECDSA], endorsement_keys=["RSA PEM", "ECC PEM"]))
    read = gce.run("gce_instance_identity", **vm).answer
    assert read["source"] == "guest attributes"
    assert read["host_keys"] == [ED25519, ECDSA]
    assert read["endorsement_keys"] == ["RSA PEM", "ECC PEM"]


def test_host_keys_come_from_the_serial_console_otherwise(gce: Gce) -> None:
    block = "-----BEGIN SSH HOST KEY KEYS-----\r\n{}\r\n-----END SSH HOST KEY KEYS-----\r\n"
    text = f"[0.0] Linux\r\n{'.' * 3000}\r\n" + block.format(f"{ECDSA} root@old")
    text += block.format(f"{ED25519} root@bench-snp") + "login: "
    vm = boots(gce, Vm(console=text))
    read = gce.run("gce_instance_identity", **vm).answer
    assert read["source"] == "serial console"
    assert read["host_keys"] == [ED25519]


@pytest.mark.parametrize("console", ["", "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA"])
def test_host_keys_that_do_not_appear_are_waited_for_and_then_missed(
    gce: Gce, console: str
) -> None:
    vm = boots(gce, Vm(console=console))
    failed = gce.run("gce_instance_identity", **vm, timeout=1)
    assert (failed.status, failed.answer["kind"]) == (1, "deadline")
    assert "has published no SSH host keys" in failed.answer["msg"]
