"""The doctor on a machine that is ready, and on six that are not; who may measure there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.vm import Machine

NUMBER = {
    "nothing": (1, "no persistent key"),
    "restricted": (2, "restricted"),
    "rsa": (3, "RSA, 2048 bits"),
    "policy": (4, "it can be used under a policy only"),
    "transient": (5, "it is a transient object at 0x80000000"),
}
# Without a key there is nothing to look at; with one that is refused, no signature is tried.
UNANSWERED = {"nothing": [2, 3, 4, 5], "restricted": [4], "rsa": [4]}


@pytest.fixture(scope="module")
def answers(vm: Machine) -> dict[str, Any]:
    said: dict[str, Any] = vm.script("doctors", sudo=True)
    return said


def test_a_provisioned_machine_passes_all_six(answers: dict[str, Any]) -> None:
    answer = answers["provisioned"]
    assumptions = answer["report"]["assumptions"]
    assert [item["holds"] for item in assumptions] == [True] * 6
    assert assumptions[0]["found"] == "at 0x81000200"
    assert (answer["status"], answer["report"]["holds"]) == (0, True)


@pytest.mark.parametrize("set_up", NUMBER)
def test_a_broken_one_fails_what_it_breaks_and_nothing_else(
    answers: dict[str, Any], set_up: str
) -> None:
    answer = answers[set_up]
    assumptions = answer["report"]["assumptions"]
    number, found = NUMBER[set_up]
    failed = [index for index, item in enumerate(assumptions, 1) if item["holds"] is False]
    assert failed == [number]
    assert assumptions[number - 1]["found"] == found
    assert assumptions[number - 1]["remedy"]
    assert answer["status"] == 1
    unanswered = [index for index, item in enumerate(assumptions, 1) if item["holds"] is None]
    assert unanswered == UNANSWERED.get(set_up, [])


def test_a_user_outside_the_group_is_told_of_device_group_and_mode(vm: Machine) -> None:
    done = vm.agent("doctor", "--json", "--metadata", "never", user="outsider")
    assert done.returncode == 1, done.stderr
    last = json.loads(done.stdout)["assumptions"][-1]
    assert last["holds"] is False
    assert last["found"] == (
        "user outsider may not open /dev/tpmrm0 (owner root, group tss, mode 0660)"
    )
    assert last["remedy"] == "run with sudo or add outsider to group tss and log in again"


def test_that_user_cannot_measure_either(vm: Machine) -> None:
    done = vm.agent("run", "--state-dir", "/tmp/outsider", "--metadata", "never", user="outsider")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1] == (
        "tpm-tls-bench: user outsider may not open /dev/tpmrm0 (owner root, group tss, mode 0660); "
        "run with sudo or add outsider to group tss and log in again"
    )


def test_a_user_in_the_group_measures_without_sudo(vm: Machine) -> None:
    assert vm.ssh("id -u; stat -c %G /dev/tpmrm0; id -nG").split()[1:] == ["tss", "bench", "tss"]
    done = vm.agent(
        "run", "--curve", "p256", "--scenario", "raw-signing", "--signatures", "1", "--warmup", "1",
        "--deadline", "60", "--metadata", "never", "--state-dir", "/tmp/state",
        "--output", "/tmp/result.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = json.loads(vm.ssh("cat /tmp/result.json"))
    (raw,) = measured["scenarios"]
    assert (raw["name"], raw["status"]) == ("raw-signing", "valid")
    assert measured["tpm"]["tcti"] == "device:/dev/tpmrm0"
