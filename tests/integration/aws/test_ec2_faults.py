"""What AWS may do wrong on the way, and that no VM is made twice or left for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.aws.conftest import Aws


@pytest.mark.parametrize(
    ("status", "code"),
    [(503, "RequestLimitExceeded"), (500, "InternalError"), (503, "Unavailable"), (429, "")],
)
def test_a_busy_or_broken_server_is_asked_again(aws: Aws, status: int, code: str) -> None:
    aws.double.fail(on="^RunInstances$", status=status, code=code, times=2)
    aws.double.fail(on="^DescribeInstances$", status=status, code=code, times=2)
    assert aws.vm().answer["action"] == "created"
    assert aws.double.count("^RunInstances$") == 3
    assert len(aws.live()) == 1


def test_a_server_that_stays_broken_is_said_to_be(aws: Aws) -> None:
    aws.double.fail(on="^Describe", status=503, code="Unavailable", times=100)
    failed = aws.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "server")
    assert aws.double.count("^Describe") == 7


def test_a_lost_response_does_not_make_two_vms(aws: Aws) -> None:
    aws.double.fail(on="^RunInstances$", lose_response=True, times=2)
    made = aws.vm()
    assert (made.status, made.answer["action"]) == (0, "created")
    assert aws.double.count("^RunInstances$") == 3
    assert aws.live() == [made.answer["vm"]["id"]]


def test_a_play_that_was_killed_after_the_request_finds_its_vm(aws: Aws) -> None:
    """Also while the API does not list it yet: the same request has the same token."""
    aws.double.fail(on="^RunInstances$", unseen=8)
    killed = aws.vm(timeout=1)  # as good as killed: the request was sent, the rest never happened
    assert killed.answer["kind"] == "deadline"
    again = aws.vm()
    assert again.status == 0, again.answer
    assert aws.live() == [again.answer["vm"]["id"]]


def test_a_vm_that_is_gone_is_made_anew_and_not_found_by_its_token(aws: Aws) -> None:
    first = aws.vm().answer["vm"]["id"]
    aws.double.store.gone(first)
    second = aws.vm()
    assert (second.status, second.answer["action"]) == (0, "created"), second.answer
    for number in (first, second.answer["vm"]["id"]):
        aws.double.store.gone(number)
        del aws.double.store.instances[number]  # an hour later the API has forgotten it
    third = aws.vm()
    assert (third.status, third.answer["action"]) == (0, "created"), third.answer
    assert aws.live() == [third.answer["vm"]["id"]]


def test_a_lost_response_to_a_deletion_is_a_deletion(aws: Aws) -> None:
    aws.vm()
    aws.double.fail(on="^TerminateInstances$", lose_response=True)
    gone = aws.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted")
    assert aws.live() == []


def test_a_vm_that_is_being_terminated_already_is_waited_for(aws: Aws) -> None:
    number = aws.vm().answer["vm"]["id"]
    aws.goes_after(number, looks=4)
    gone = aws.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert (aws.live(), aws.double.store.volumes) == ([], {})


def test_a_vm_that_is_going_is_made_anew_when_it_is_gone(aws: Aws) -> None:
    number = aws.vm().answer["vm"]["id"]
    aws.goes_after(number, looks=2)
    aws.double.store.latency = 0.02  # of the new one
    made = aws.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert made.answer["vm"]["id"] != number


def test_a_slow_start_runs_into_the_deadline_and_the_next_play_goes_on(aws: Aws) -> None:
    aws.double.fail(on="^RunInstances$", slow=3600.0)
    late = aws.vm(timeout=1)
    assert (late.status, late.answer["kind"]) == (1, "deadline")
    assert "Run again to go on waiting" in late.answer["msg"]
    aws.double.store.hurry()
    assert aws.vm().answer["action"] == "none"
    assert aws.double.count("^RunInstances$") == 1


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (500, "InsufficientInstanceCapacity", "capacity", "eu-west-1 has no such machine free"),
        (400, "VcpuLimitExceeded", "quota", "Service Quotas"),
        (400, "OptInRequired", "region", "Is eu-west-1 enabled"),
        (400, "RequestExpired", "credentials", "have expired"),
    ],
)
def test_a_refusal_makes_nothing_and_is_classed(
    aws: Aws, status: int, code: str, kind: str, words: str
) -> None:
    aws.double.fail(on="^RunInstances$", status=status, code=code, message="AWS says no.")
    failed = aws.vm()
    assert (failed.status, failed.answer["kind"]) == (1, kind), failed.answer
    assert failed.answer["msg"].startswith(f"AWS says no ({code}). ")
    assert words in failed.answer["msg"]
    assert aws.live() == []
    assert aws.double.count("^RunInstances$") == 1


def test_a_vm_that_vanishes_at_once_is_said_to_have(aws: Aws) -> None:
    aws.double.fail(on="^RunInstances$", vanish=True)
    failed = aws.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "vanished")


def test_a_schedule_that_is_refused_fails_the_host_and_the_next_play_makes_it(aws: Aws) -> None:
    """The VM has the guest's deadline all the while."""
    role = "arn:aws:iam::123456789012:role/terminator"
    message = "User: x is not authorized to perform: iam:PassRole on resource: y"
    aws.double.fail(on="^CreateSchedule$", status=403, code="AccessDeniedException",
                    message=message)  # fmt: skip
    failed = aws.vm(schedule_role=role)
    assert failed.answer["kind"] == "permission"
    assert "Grant iam:PassRole to the account" in failed.answer["msg"]
    aws.double.fail(on="^CreateSchedule$", lose_response=True)
    again = aws.vm(schedule_role=role)
    assert again.status == 0, again.answer
    assert len(aws.double.store.schedules) == len(aws.live()) == 1


def test_keys_that_are_not_accepted_are_said_to_be(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    failed = aws.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "credentials")


def test_no_credentials_at_all_are_one_sentence(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    failed = aws.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "credentials")
    assert "Unable to locate credentials" in failed.answer["msg"]
    missing = aws.vm(profile="nobody")
    assert (missing.status, missing.answer["kind"]) == (1, "credentials")
    assert "nobody" in missing.answer["msg"]
    assert aws.double.requests == []


def test_credentials_come_from_a_profile_too(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    file.write_text("[bench]\naws_access_key_id = AKIADOUBLE\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    assert aws.vm(profile="bench").answer["action"] == "created"


def test_an_endpoint_with_another_certificate_is_not_trusted(aws: Aws) -> None:
    failed = aws.vm(api_ca_file=None)
    assert (failed.status, failed.answer["kind"]) == (1, "unreachable")
    assert "is not trusted" in failed.answer["msg"]
    assert aws.double.requests == []


def test_an_endpoint_without_tls_is_refused(aws: Aws) -> None:
    failed = aws.vm(api_endpoint=aws.double.endpoint.replace("https", "http"))
    assert "must begin with https://" in failed.answer["msg"]
