"""What a user is told when the TPM cannot be used as asked, and that nothing is harmed by it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import tpm
from tests.support.agent import QUICK, Agent, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.swtpm import Swtpm

RUN = ("run", *QUICK, "--scenario", "raw-signing")
UNUSABLE = 3


def refused(agent: Agent, *options: str) -> str:
    """Run, expect that nothing is measured, and return the sentence that says why."""
    done = agent(*RUN, *options)
    assert done.returncode == UNUSABLE, done
    assert agent.journal_files() == []
    return sentence(done)


def test_an_occupied_handle_is_named_and_left_alone(agent: Agent, swtpm: Swtpm) -> None:
    name = tpm.put_key(swtpm.tcti, 0x81000004)
    said = refused(agent, "--handle", "0x81000004")
    assert "0x81000004 is taken by a key that is not ours" in said
    assert "choose another handle, or auto" in said
    assert swtpm.handles() == (frozenset({(0x81000004, name)}), frozenset())


@pytest.mark.parametrize(
    ("handle", "whose"),
    [
        ("0x81000001", "Azure's"),
        ("0x81000003", "Azure's attestation key"),
        ("0x81008f00", "go-tpm-tools'"),
        ("0x81008fff", "go-tpm-tools'"),
        ("0x81010001", "the TCG's"),
    ],
)
def test_other_peoples_places_are_not_taken(
    agent: Agent, swtpm: Swtpm, handle: str, whose: str
) -> None:
    said = refused(agent, "--handle", handle)
    assert handle in said
    assert whose in said
    assert swtpm.handles() == (frozenset(), frozenset())


def test_an_owner_auth_value_is_asked_for_and_can_be_given(
    agent: Agent, swtpm: Swtpm, tmp_path: Path
) -> None:
    tpm.set_owner_auth(swtpm.tcti, b"secret")
    said = refused(agent)
    assert "owner hierarchy has an auth value" in said
    assert "--owner-auth-file" in said

    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"guess\n")
    said = refused_after_trying(agent, "--owner-auth-file", str(wrong))
    assert "owner hierarchy's auth value is not the one given" in said
    assert "guess" not in said
    assert tpm.lockout_counter(swtpm.tcti) == 0

    right = tmp_path / "right"
    right.write_bytes(b"secret\n")
    document = agent.measure(*RUN[1:], "--owner-auth-file", str(right))
    assert document["scenarios"][0]["status"] == "valid"
    assert "secret" not in agent.output.read_text()
    assert swtpm.handles() == (frozenset(), frozenset())


def refused_after_trying(agent: Agent, *options: str) -> str:
    """Run, expect that making the key failed and left nothing, and return the sentence."""
    done = agent(*RUN, *options)
    assert done.returncode == UNUSABLE, done
    assert agent.journal() == []
    return sentence(done)


def test_a_missing_owner_auth_file_is_a_usage_error(agent: Agent, tmp_path: Path) -> None:
    done = agent(*RUN, "--owner-auth-file", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "No such file" in sentence(done)


def test_no_free_persistent_slot(agent: Agent, swtpm: Swtpm) -> None:
    assert tpm.fill_persistent(swtpm.tcti) > 3
    before = swtpm.handles()
    said = refused_after_trying(agent)
    assert "no free slot" in said or "no room for another persistent key" in said
    assert "evict one that is no longer needed" in said
    assert swtpm.handles() == before


def test_no_free_slot_for_loaded_objects(agent: Agent, swtpm: Swtpm) -> None:
    with tpm.esapi(swtpm.tcti) as esys:
        assert tpm.fill_transient(esys) == 3
    before = swtpm.handles()
    said = refused_after_trying(agent)
    assert "every slot for loaded objects is taken" in said
    assert "tpm2_flushcontext" in said
    assert swtpm.handles() == before


def test_one_free_slot_is_enough_but_for_the_transient_arm(agent: Agent, swtpm: Swtpm) -> None:
    with tpm.esapi(swtpm.tcti) as esys:
        tpm.make_key(esys, seed=b"one")
        tpm.make_key(esys, seed=b"two")
    before = swtpm.handles()
    (scenario,) = agent.measure(*RUN[1:])["scenarios"]
    absent = {item["name"]: item["reason"] for item in scenario["absent_arms"]}
    present = {arm["name"] for arm in scenario["arms"]}
    assert present == {"tpm-persistent", "software", "floor"}
    assert "out of memory for object contexts" in absent["tpm-transient"]
    assert swtpm.handles() == before


def test_lockout_does_not_stop_keys_that_are_not_subject_to_it(agent: Agent, swtpm: Swtpm) -> None:
    tpm.lock_out(swtpm.tcti)
    document = agent.measure(*RUN[1:])
    assert document["scenarios"][0]["status"] == "valid"
    assert tpm.lockout_counter(swtpm.tcti) == 1
    with tpm.esapi(swtpm.tcti) as esys:
        assert tpm.in_lockout(esys)


def test_a_tpm_that_was_not_started(make_swtpm: Callable[..., Swtpm], tmp_path: Path) -> None:
    agent = Agent(make_swtpm(started=False).tcti, tmp_path)
    assert "was not started; send it TPM2_Startup" in refused(agent)


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
    said = refused(Agent(f"swtpm:host=127.0.0.1,port={port}", tmp_path))
    assert "no software TPM answers" in said
    assert "--tcti" in said


def test_no_such_device(tmp_path: Path) -> None:
    said = refused(Agent("device:/dev/tpmrm99", tmp_path))
    assert "there is no TPM device /dev/tpmrm99" in said


def test_a_file_is_no_tpm(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "is not a TPM device" in refused(Agent(f"device:{file}", tmp_path))


def test_a_character_device_that_is_no_tpm(tmp_path: Path) -> None:
    started = time.monotonic()
    said = refused(Agent("device:/dev/null", tmp_path), "--deadline", "1")
    assert "/dev/null" in said
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("tcti", ["", "swtpm:port=many", "swtpm:colour=blue", "swtpm:blue"])
def test_a_string_that_names_no_transport_is_a_usage_error(tmp_path: Path, tcti: str) -> None:
    done = Agent(tcti, tmp_path)(*RUN)
    assert done.returncode == 2
    assert repr(tcti) in sentence(done)


def test_a_transport_that_the_tss_does_not_know(tmp_path: Path) -> None:
    said = refused(Agent("carrier-pigeon:loft=3", tmp_path))
    assert "carrier-pigeon:loft=3" in said
    assert "libtss2-tcti-carrier-pigeon" in said


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that others may enter; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_no_permission_names_user_group_and_mode(
    make_swtpm: Callable[..., Swtpm], public: Path
) -> None:
    path = public / "tpm.sock"
    software = make_swtpm(socket_path=path)
    path.chmod(0o660)
    mine = public / "mine"
    mine.mkdir()
    os.chown(mine, 65534, 65534)
    other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    said = refused(Agent(software.tcti, mine, prefix=other))
    for part in ("nobody", str(path), "owner root", "group root", "mode 0660", "sudo"):
        assert part in said
    path.chmod(0o666)
    agent = Agent(software.tcti, mine, prefix=other)
    assert agent.measure(*RUN[1:])["scenarios"][0]["status"] == "valid"
    mine.chmod(0)
    assert "--output" in refused(agent, "--output", str(agent.output))


def test_a_tpm_that_another_program_holds(agent: Agent, swtpm: Swtpm) -> None:
    with socket.create_connection(("127.0.0.1", swtpm.port)):
        started = time.monotonic()
        said = refused(agent, "--deadline", "0.5")
        took = time.monotonic() - started
    assert "did not answer" in said
    assert "within 0.5 s" in said
    assert "no other program holds it" in said
    assert took < 10


def test_a_state_directory_that_cannot_be_made(agent: Agent, tmp_path: Path) -> None:
    agent.state.write_text("a file where a directory should be")
    done = agent(*RUN)
    assert done.returncode == UNUSABLE
    assert "--state-dir" in sentence(done)


def test_an_output_that_cannot_be_written_is_found_before_measuring(
    agent: Agent, swtpm: Swtpm, tmp_path: Path
) -> None:
    said = refused(agent, "--output", str(tmp_path / "no such" / "result.json"))
    assert "--output" in said
    assert not agent.state.exists(), "the TPM is not even opened"


def test_two_runs_exclude_each_other(agent: Agent, swtpm: Swtpm) -> None:
    first = agent.start("run", *QUICK, "--signatures", "400", "--scenario", "raw-signing")
    try:
        until = time.monotonic() + 20
        while not agent.journal_files() and time.monotonic() < until:
            time.sleep(0.01)
        for command in ("run", "evict"):
            second = agent(command)
            assert second.returncode == UNUSABLE
            assert "another tpm-tls-bench is at work" in sentence(second)
        assert first.wait(timeout=60) == 0
    finally:
        first.kill()
        first.communicate()
    assert swtpm.handles() == (frozenset(), frozenset())


def test_a_corrupt_journal_entry_is_named(agent: Agent, swtpm: Swtpm) -> None:
    journal = agent.state / "journal"
    journal.mkdir(parents=True)
    entry = journal / f"{'ab' * 32}.json"
    entry.write_text('{"mark": ')
    for command in ("run", "evict"):
        done = agent(command)
        assert done.returncode == UNUSABLE
        said = sentence(done)
        assert str(entry) in said
        assert "remove the file" in said
    assert swtpm.handles() == (frozenset(), frozenset())
