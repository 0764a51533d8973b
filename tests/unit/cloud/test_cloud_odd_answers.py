"""Answers that lack what every answer has, lists without an end, and when to come again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.support import module_utils  # noqa: F401 - the import makes cloud_* importable

if TYPE_CHECKING:
    from pathlib import Path


def run(capsys: pytest.CaptureFixture[str], work: Any, **given: Any) -> dict[str, Any]:
    from ansible.module_utils.cloud_module import Client, run_with

    options = {"api_ca_file": {"type": "path"}, "token": {"type": "str", "no_log": True}}
    with patch_module_args(given), pytest.raises(SystemExit) as ended:
        run_with(Client(lambda _: None, options, "", "", []), {}, work)
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (1, "")
    said: dict[str, Any] = json.loads(out)
    return said


@pytest.mark.parametrize(
    ("break_", "words"),
    [
        (lambda: {}["status"], "KeyError: status"),
        (lambda: None.get("x"), "AttributeError: 'NoneType'"),  # type: ignore[attr-defined]
        (lambda: list[int]()[0], "IndexError: list index"),
        (lambda: datetime.fromisoformat("soon"), "ValueError: Invalid isoformat"),
        (lambda: len(None), "TypeError: object of type"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_of_another_form_is_one_sentence(
    capsys: pytest.CaptureFixture[str], break_: Any, words: str
) -> None:
    said = run(capsys, lambda *_: break_())
    assert said["kind"] == "server"
    assert words in said["msg"]
    assert "test_cloud_odd_answers.py, line" in said["msg"]
    assert "playbooks/teardown.yml removes it" in said["msg"]
    assert "Traceback" not in json.dumps(said)


def test_no_secret_gets_out_with_such_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def work(*_: Any) -> dict[str, Any]:
        raise ValueError("token tops-3cret is odd")

    assert "tops-3cret" not in json.dumps(run(capsys, work, token="tops-3cret"))  # noqa: S106


def test_certificates_that_are_not_there_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = run(capsys, lambda *_: pytest.fail("asked"), api_ca_file=str(tmp_path / "none.pem"))
    assert said["msg"] == f"api_ca_file: there is no file {tmp_path / 'none.pem'}."


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(None, 0), ("", 0), ("7", 7), (" 7 ", 7), ("100000", 120), ("-5", 0), ("soon", 0), ("³", 0)],
)
def test_when_to_come_again(said: str | None, seconds: float) -> None:
    from ansible.module_utils.cloud_wait import retry_after

    assert retry_after(said) == seconds


def test_when_to_come_again_as_a_date() -> None:
    from ansible.module_utils.cloud_wait import retry_after

    now = datetime.now(UTC)
    assert 0 < retry_after(format_datetime(now + timedelta(seconds=60), usegmt=True)) <= 60
    assert retry_after(format_datetime(now - timedelta(hours=1), usegmt=True)) == 0


def test_what_was_just_made_is_looked_for_a_few_times() -> None:
    from ansible.module_utils.cloud_wait import SOON, Deadline

    slept: list[float] = []
    seen = iter([None, None, "there"])
    assert Deadline(600, slept.append).soon(lambda: next(seen)) == "there"
    assert slept == [0.5, 1.0]
    looks = iter(range(100))
    assert Deadline(600, lambda _: None).soon(lambda: next(looks) and None) is None
    assert next(looks) == SOON


def endless(kind: str) -> Any:
    """A client whose list always has another page."""
    page = {
        "items": [],
        "nextPageToken": "1",
        "NextToken": "1",
        "value": [],
        "nextLink": "https://x/",
    }
    if kind == "gcp":
        from ansible.module_utils import gce_api

        api = object.__new__(gce_api.Api)
        api._deadline = gce_api.Deadline(-1)
        api.get = lambda *_: page  # type: ignore[method-assign]
        return lambda: list(api.pages("x", {}))
    if kind == "aws":
        from ansible.module_utils import ec2_api

        api = object.__new__(ec2_api.Api)
        api._deadline = ec2_api.Deadline(-1)
        api.call = lambda *_, **__: page  # type: ignore[method-assign]
        return lambda: list(api.each("describe_volumes", "Volumes"))
    from ansible.module_utils import azure_api, cloud_wait

    api = object.__new__(azure_api.Api)
    api._endpoint = "https://x"
    api.deadline = cloud_wait.Deadline(-1)
    api._send = lambda *_: None  # type: ignore[method-assign]
    api._json = lambda *_: page  # type: ignore[method-assign]
    return lambda: list(api.every("/providers/Microsoft.Compute/disks"))


@pytest.mark.parametrize("cloud", ["gcp", "aws", "azure"])
def test_a_list_without_an_end_ends_with_the_deadline(cloud: str) -> None:
    from ansible.module_utils.cloud_errors import CloudError

    with pytest.raises(CloudError, match="the list has still another page") as late:
        endless(cloud)()
    assert late.value.kind == "deadline"


@pytest.mark.parametrize(
    "payload",
    [None, [], "no", {}, {"error": None}, {"error": "no"}, {"error": {"errors": None}},
     {"error": {"message": None, "details": None, "errors": []}}],
)  # fmt: skip
@pytest.mark.parametrize("status", [400, 403, 404, 429, 503])
def test_a_refusal_without_words_is_classed_by_its_status(payload: Any, status: int) -> None:
    from ansible.module_utils import azure_errors, ec2_errors, gce_errors

    wanted = {400: "invalid", 403: "permission", 404: "not-found", 429: "rate", 503: "server"}
    google = gce_errors.refused(status, payload, project="p", after=7.0)
    azure = azure_errors.refused(status, payload, after=7.0)
    for error in (google, azure):
        assert (error.kind, error.after) == (wanted[status], 7.0)
    amazon = ec2_errors.refused("", "", status, region="r", operation="RunInstances", after=7.0)
    assert amazon.kind == {429: "rate", 503: "server"}.get(status, "invalid")
    assert (amazon.after, amazon.retriable) == (7.0, status in (429, 503))
    for answer in ({}, {"error": None}, {"error": {"errors": None}}, {"error": {"errors": [{}]}}):
        assert gce_errors.failed({"name": "op"} | answer, project="p").kind == "invalid"


class Refusing:
    """A session whose every answer is: too many, come again in seven seconds."""

    ok, status_code, headers = False, 429, {"Retry-After": "7"}

    def request(self, *_: Any, **__: Any) -> Refusing:
        return self

    def json(self) -> dict[str, Any]:
        return {}

    def describe_volumes(self) -> None:
        import botocore.exceptions

        metadata = {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "7"}}
        raise botocore.exceptions.ClientError(
            {"Error": {"Code": "RequestLimitExceeded"}, "ResponseMetadata": metadata},
            "DescribeVolumes",
        )


def test_every_cloud_is_waited_for_at_its_word() -> None:
    from ansible.module_utils import azure_api, ec2_api, gce_api
    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.cloud_wait import ATTEMPTS, Deadline

    google = object.__new__(gce_api.Api)
    google.project, google._base, google._session, google._trust = "p", "", Refusing(), {}
    amazon = object.__new__(ec2_api.Api)
    amazon.region, amazon._client = "r", lambda _: Refusing()  # type: ignore[method-assign]
    azure = object.__new__(azure_api.Api)
    azure.group, azure._endpoint, azure._session, azure._trust = "g", "", Refusing(), {}
    azure._token = lambda: "-"
    for ask in (
        lambda: google._attempt("GET", "https://x", None),
        lambda: amazon._attempt("describe_volumes", {}),
        lambda: azure._attempt("GET", "https://x", None, {}),
    ):
        slept: list[float] = []
        with pytest.raises(CloudError) as refused:
            Deadline(600, slept.append).attempts(ask)
        assert refused.value.kind == "rate"
        assert len(slept) == ATTEMPTS - 1
        assert all(pause >= 7 for pause in slept)


def test_what_is_no_answer_of_awss_is_not_taken_for_missing_credentials() -> None:
    import botocore.exceptions
    import botocore.parsers
    from ansible.module_utils import ec2_api
    from ansible.module_utils.ec2_errors import Ec2Error

    for answer in (
        botocore.parsers.ResponseParserError("Unable to parse response: <html>"),
        botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ):
        api = object.__new__(ec2_api.Api)
        api.region = "r"

        def broken(_: str, answer: Exception = answer) -> Any:
            raise answer

        api._client = broken  # type: ignore[method-assign]
        with pytest.raises(Ec2Error, match="is not its API, or was cut off") as failed:
            api._attempt("describe_volumes", {})
        assert (failed.value.kind, failed.value.retriable) == ("server", True)
