"""What Google may do wrong on the way, and that no VM is made twice or left for it."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.compute_double.faults import refusal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.gcp.conftest import Gce

INSERT = r"^POST .*/instances$"
KEY = ("europe-west4-b", "bench-snp")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_broken_server_is_asked_again(gce: Gce, status: int) -> None:
    gce.double.fail(on=INSERT, status=status, times=2)
    gce.double.fail(on=r"^GET .*/operations/", status=status, times=2)
    assert gce.vm().answer["action"] == "created"
    assert gce.double.count(INSERT) == 3


def test_a_server_that_stays_broken_is_said_to_be(gce: Gce) -> None:
    gce.double.fail(on=r"^GET ", status=503, times=100)
    failed = gce.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "server")
    assert gce.double.count("^GET ") == 7


def test_a_lost_response_does_not_make_two_vms(gce: Gce) -> None:
    gce.double.fail(on=INSERT, lose_response=True, times=2)
    made = gce.vm()
    assert (made.status, made.answer["action"]) == (0, "created")
    assert gce.double.count(INSERT) == 3
    assert list(gce.double.store.instances) == [KEY]


def test_a_play_that_was_killed_after_the_request_finds_its_vm(gce: Gce) -> None:
    gce.double.fail(on=r"^GET .*/operations/", status=403, times=1)
    assert gce.vm().status == 1  # as good as killed: the request was sent, the rest never happened
    again = gce.vm()
    assert (again.status, again.answer["action"]) == (0, "none")
    assert gce.double.count(INSERT) == 1


def test_each_change_carries_a_request_id_of_its_own(
    gce: Gce, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    first = uuid.uuid4
    monkeypatch.setattr(uuid, "uuid4", lambda: given.append(first()) or given[-1])
    gce.vm()
    gce.vm(state="absent")
    gce.vm()  # with the id of the first request the API would answer with its old operation
    assert len(set(given)) == 3
    assert list(gce.double.store.instances) == [KEY]


def test_a_lost_response_to_a_deletion_is_a_deletion(gce: Gce) -> None:
    gce.vm()
    gce.double.fail(on=r"^DELETE ", lose_response=True)
    gone = gce.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted")
    assert gce.double.store.instances == {}


def test_a_vm_that_is_being_deleted_already_is_waited_for(gce: Gce) -> None:
    gce.vm()
    gce.double.store.latency = 0.3
    gce.double.store.delete("instances", "test-project", *KEY, "", None)
    gone = gce.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert gce.double.store.instances == {}


def test_a_vm_that_is_going_is_made_anew_when_it_is_gone(gce: Gce) -> None:
    number = gce.vm().answer["vm"]["id"]
    gce.double.store.latency = 0.2
    gce.double.store.delete("instances", "test-project", *KEY, "", None)
    made = gce.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert made.answer["vm"]["id"] != number


def test_a_slow_operation_runs_into_the_deadline_and_the_next_play_goes_on(gce: Gce) -> None:
    gce.double.fail(on=INSERT, slow=2.0)
    late = gce.vm(timeout=1)
    assert (late.status, late.answer["kind"]) == (1, "deadline")
    assert "Run again to go on waiting" in late.answer["msg"]
    assert gce.vm().answer["action"] == "none"
    assert gce.double.count(INSERT) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("QUOTA_EXCEEDED", "quota"),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "capacity"),
    ],
)
def test_an_operation_that_fails_makes_nothing_and_is_classed(
    gce: Gce, code: str, kind: str
) -> None:
    gce.double.fail(on=INSERT, operation_error=(code, "There are not enough of them."))
    failed = gce.vm()
    assert (failed.status, failed.answer["kind"]) == (1, kind)
    assert failed.answer["msg"].startswith("There are not enough of them. ")
    assert gce.double.store.instances == {}
    assert gce.double.count(INSERT) == 1


def test_a_vm_that_vanishes_at_once_is_said_to_have(gce: Gce) -> None:
    gce.double.fail(on=INSERT, vanish=True)
    failed = gce.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "vanished")


def test_a_missing_permission_is_named(gce: Gce) -> None:
    message = "Required 'compute.instances.create' permission for 'projects/test-project/zones/z'"
    gce.double.fail(on=INSERT, status=403, error=refusal(403, "forbidden", message))
    failed = gce.vm()
    assert failed.answer["kind"] == "permission"
    assert "Grant compute.instances.create to the account" in failed.answer["msg"]


def test_a_token_that_is_not_accepted_is_said_to_be(gce: Gce) -> None:
    failed = gce.vm(access_token="expired")  # noqa: S106 - no secret
    assert (failed.status, failed.answer["kind"]) == (1, "credentials")
    assert "expired" not in failed.answer["msg"]


def test_a_service_account_file_gets_its_own_token(
    gce: Gce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(gce.double.ca_file))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = tmp_path / "account.json"
    account = {
        "type": "service_account",
        "client_email": "bench@test-project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "token_uri": f"{gce.double.endpoint}/token",
    }
    file.write_text(json.dumps(account))
    made = gce.vm(
        auth_kind="service_account_file", service_account_file=str(file), access_token=None
    )
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer


def test_no_credentials_at_all_are_one_sentence(gce: Gce, tmp_path: Path) -> None:
    failed = gce.vm(
        auth_kind="service_account_file",
        service_account_file=str(tmp_path / "none.json"),
        access_token=None,
    )
    assert (failed.status, failed.answer["kind"]) == (1, "credentials")
    assert "none.json" in failed.answer["msg"]
    assert gce.double.requests == []


def test_an_endpoint_with_another_certificate_gets_no_token(gce: Gce, tmp_path: Path) -> None:
    failed = gce.vm(api_ca_file=None)
    assert (failed.status, failed.answer["kind"]) == (1, "unreachable")
    assert "is not trusted" in failed.answer["msg"]
    assert gce.double.requests == []


def test_an_endpoint_without_tls_is_refused(gce: Gce) -> None:
    failed = gce.vm(api_endpoint=gce.double.endpoint.replace("https", "http"))
    assert "must begin with https://" in failed.answer["msg"]
