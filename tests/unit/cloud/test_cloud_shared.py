"""What the clouds' modules share: waiting, host keys on a console, names, ages, removal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.support import module_utils  # noqa: F401 - the import makes cloud_* importable

BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"


def deadline(seconds: float, slept: list[float]) -> Any:
    from ansible.module_utils.cloud_wait import Deadline

    return Deadline(seconds, slept.append)


def failing(times: int, *, retriable: bool = True) -> Any:
    """A request that fails so often and then answers."""
    from ansible.module_utils.cloud_errors import CloudError

    left = iter(range(times))

    def send() -> str:
        if next(left, None) is not None:
            raise CloudError("server", "Broken.", retriable=retriable)
        return "answer"

    return send


def test_a_request_is_sent_again_with_pauses_that_grow() -> None:
    slept: list[float] = []
    assert deadline(600, slept).attempts(failing(6)) == "answer"
    assert len(slept) == 6
    for place, pause in enumerate(slept):
        whole = min(0.5 * 2**place, 16.0)
        assert whole / 2 <= pause <= whole


@pytest.mark.parametrize(("times", "retriable", "pauses"), [(7, True, 6), (1, False, 0)])
def test_a_request_is_given_up(times: int, retriable: bool, pauses: int) -> None:
    from ansible.module_utils.cloud_errors import CloudError

    slept: list[float] = []
    with pytest.raises(CloudError, match=r"Broken\."):
        deadline(600, slept).attempts(failing(times, retriable=retriable))
    assert len(slept) == pauses


def test_no_request_is_sent_again_after_the_deadline() -> None:
    from ansible.module_utils.cloud_errors import CloudError

    slept: list[float] = []
    with pytest.raises(CloudError):
        deadline(0, slept).attempts(failing(1))
    assert slept == []


def test_a_look_ends_with_what_it_saw_or_with_the_deadline() -> None:
    from ansible.module_utils.cloud_errors import CloudError

    seen = iter(["", "", "there"])
    slept: list[float] = []
    assert deadline(600, slept).until(lambda: next(seen), "it is not there") == "there"
    assert slept == [0.5, 1.0]
    with pytest.raises(CloudError, match="After 0 s it is 3 times away") as late:
        deadline(0, slept).until(lambda: None, lambda: f"it is {3} times away")
    assert late.value.kind == "deadline"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", []),
        (f"{BEGIN}\nssh-ed25519 AAAA\n", []),
        (f"ssh-ed25519 EEEE\n{BEGIN}\r\nssh-ed25519 AAAA= root@x\r\nno key\n{END}\n",
         ["ssh-ed25519 AAAA="]),
        (f"{BEGIN}\nssh-ed25519 OLD\n{END}\n{BEGIN}\nssh-rsa NEW\n{END}\n", ["ssh-rsa NEW"]),
        (f"{BEGIN}\nssh-rsa ONE\n{END}\n{BEGIN}\nssh-rsa HALF\n", ["ssh-rsa ONE"]),
    ],
)  # fmt: skip
def test_host_keys_are_those_of_the_last_whole_block(text: str, keys: list[str]) -> None:
    from ansible.module_utils.cloud_identity import keys_on_console

    assert keys_on_console(text) == keys


def test_ages_are_seconds_and_the_young_are_left_out() -> None:
    from ansible.module_utils.cloud_leftovers import Selection, of_age

    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    items = [{"name": "old", "made": "2026-11-30T10:00:00+00:00"},
             {"name": "new", "made": "2026-11-30T11:59:00Z"}]  # fmt: skip
    assert of_age(items, Selection(), now) == [
        {"name": "old", "age": 7200},
        {"name": "new", "age": 60},
    ]
    assert of_age(items, Selection(min_age=7200), now) == [{"name": "old", "age": 7200}]
    assert of_age(items, Selection(min_age=7201), now) == []


def test_each_is_removed_in_its_order_and_a_failure_keeps_none_of_the_others() -> None:
    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.cloud_leftovers import remove_each, swept

    found = [{"kind": "rule"}, {"kind": "disk"}, {"kind": "vm"}]
    order: list[str] = []

    def remove(item: dict[str, Any]) -> None:
        order.append(item["kind"])
        if item["kind"] == "disk":
            raise CloudError("busy", "In use.")

    def every(items: list[dict[str, Any]]) -> list[CloudError]:
        return remove_each(items, ("vm", "disk", "rule"), remove)

    with pytest.raises(CloudError, match="In use") as failed:
        swept(found, wanted=True, check=False, remove=every)
    assert (failed.value.kind, failed.value.details) == ("busy", {"found": found})
    assert order == ["vm", "disk", "rule"]
    order.clear()
    for wanted, check in ((True, True), (False, False)):
        answer = swept(found, wanted=wanted, check=check, remove=every)
        assert answer == {"changed": wanted, "found": found}
    assert order == []


@pytest.mark.parametrize(
    ("name", "labels", "words"),
    [
        ("bench-snp", {"tpm-fleet-bench": "trial"}, ""),
        ("Bench", {"tpm-fleet-bench": "trial"}, "not 'Bench'"),
        ("bench-", {"tpm-fleet-bench": "trial"}, "not end with a hyphen"),
        ("bench", {}, "tags must name the fleet"),
        ("bench", {"tpm-fleet-bench": ""}, "tags must name the fleet"),
        ("bench", {"tpm-fleet-bench": "trial", "run": "A"}, "tag run=A must be"),
    ],
)
def test_names_and_labels(name: str, labels: dict[str, str], words: str) -> None:
    from ansible.module_utils.cloud_rules import naming

    says = naming(name, labels, "tags")
    assert len(says) == bool(words)
    assert words in " ".join(says)


def test_a_library_that_is_missing_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    from ansible.module_utils.cloud_module import Client, run_with

    missing = "No module named 'botocore'"
    client = Client(lambda _: pytest.fail("made"), {}, missing, "botocore is", [])
    with patch_module_args({}), pytest.raises(SystemExit) as ended:
        run_with(client, {}, lambda *_: {"changed": False})
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["msg"] == (
        "botocore is needed on the control node: No module named 'botocore'. Install with: pip "
        "install -r requirements/control.lock"
    )


def test_a_failure_is_its_sentence_its_class_and_what_was_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ansible.module_utils.cloud_errors import CloudError
    from ansible.module_utils.cloud_module import Client, run_with

    def work(*_: Any) -> dict[str, Any]:
        raise CloudError("busy", "In use.", found=[1])

    client = Client(lambda _: None, {}, "", "", [])
    with patch_module_args({}), pytest.raises(SystemExit):
        run_with(client, {}, work)
    said = json.loads(capsys.readouterr().out)
    assert (said["msg"], said["kind"], said["found"]) == ("In use.", "busy", [1])
