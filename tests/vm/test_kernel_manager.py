"""What the kernel's resource manager makes of one signature, read off the TPM's own log.

Commands are counted, not milliseconds: they are the same on every machine and explain the times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support import swtpm_log

if TYPE_CHECKING:
    from tests.support.vm import Machine

SIGNATURES = 5
PER_ARM, CONNECTIONS = 4, 2  # as tests/vm/conftest.py asks of the whole run
OBJECT_MEMORY = "0x902"  # TPM_RC_OBJECT_MEMORY: every slot of the TPM is taken
SWAPPED = {"ContextLoad": 1, "ContextSave": 1, "FlushContext": 1}

# In the order in which tests/vm/guest/cases.py goes through them; commands per signature.
CASES: dict[str, dict[str, int]] = {
    "transient": {"Sign": 1, **SWAPPED},
    "persistent": {"Sign": 1},
    "one object": {"Sign": 1, **SWAPPED},
    "two objects": {"Sign": 1, **dict.fromkeys(SWAPPED, 2)},
    "three objects": {},
    "one object elsewhere": {"Sign": 1},
    # Saving a session takes it out of the TPM, so nothing is flushed.
    "session": {"Sign": 1, "ContextLoad": 1, "ContextSave": 1},
}
TOTALS = {
    "transient": 4,
    "persistent": 1,
    "one object": 4,
    "two objects": 7,
    "one object elsewhere": 1,
    "session": 3,
}


@pytest.fixture(scope="module")
def answers(vm: Machine) -> dict[str, str]:
    said: dict[str, str] = vm.script("cases", "device:/dev/tpmrm0", str(SIGNATURES))
    return said


@pytest.mark.parametrize("case", TOTALS)
def test_commands_per_signature(vm: Machine, answers: dict[str, str], case: str) -> None:
    assert answers[case] == "signed"
    seen = swtpm_log.marked(vm.log.read_text(errors="replace"), list(CASES).index(case))
    assert seen == {name: count * SIGNATURES for name, count in CASES[case].items()}
    assert seen.total() == TOTALS[case] * SIGNATURES


def test_three_objects_leave_a_persistent_key_no_room(answers: dict[str, str]) -> None:
    # A persistent key takes one of the software TPM's three slots while it signs.
    assert answers["three objects"] == OBJECT_MEMORY


def _arms(document: dict[str, Any], scenario: str) -> dict[str, dict[str, Any]]:
    (found,) = [item for item in document["scenarios"] if item["name"] == scenario]
    assert (found["status"], found["reason"]) == ("valid", None)
    return {arm["name"]: arm for arm in found["arms"]}


def test_the_agent_finds_the_kernels_manager(document: dict[str, Any]) -> None:
    assert document["tpm"]["resource_manager"] == "kernel"
    assert document["tpm"]["tcti"] == "device:/dev/tpmrm0"
    assert document["platform"]["tpm_location"] == "software"
    assert document["agent"]["tpm2_pytss"] == "1.2.0"


@pytest.mark.parametrize(
    ("scenario", "arm", "per_signature"),
    [
        ("raw-signing", "tpm-persistent", 1),
        ("raw-signing", "floor", 1),
        ("raw-signing", "tpm-transient", 4),
        ("loaded-transport", "nothing-loaded", 1),
        ("loaded-transport", "same-transport", 4),
        ("loaded-transport", "same-transport-2-objects", 7),
        ("loaded-transport", "same-transport-hmac-session", 3),
        ("loaded-transport", "other-transport", 1),
        ("handshake-new", "tpm-persistent", 1),
    ],
)
def test_the_agents_document_says_what_the_kernel_adds(
    document: dict[str, Any], scenario: str, arm: str, per_signature: int
) -> None:
    measured = _arms(document, scenario)[arm]
    signatures = measured["signatures"]["transport"]
    assert signatures == (CONNECTIONS if scenario == "handshake-new" else PER_ARM)
    assert measured["tpm_commands"] == signatures  # all that went over our transport
    assert measured["tpm_commands_behind_manager"] == per_signature * signatures


def test_software_arms_have_no_such_count(document: dict[str, Any]) -> None:
    assert "tpm_commands_behind_manager" not in _arms(document, "raw-signing")["software"]


def test_three_objects_are_an_absent_arm_with_its_reason(document: dict[str, Any]) -> None:
    (loaded,) = [item for item in document["scenarios"] if item["name"] == "loaded-transport"]
    (absent,) = loaded["absent_arms"]
    assert absent["name"] == "same-transport-3-objects"
    assert OBJECT_MEMORY in absent["reason"]
