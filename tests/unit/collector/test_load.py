from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import load
from collector.summarise import summarise
from tests.fixtures import documents as made

if TYPE_CHECKING:
    from pathlib import Path

SMALL = made.document(signatures=8, connections=6)


def pointers(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at]
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, member in members:
        found.extend(pointers(member, (*at, key)))
    return found


PLACES = pointers(SMALL)[1:]
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**400, -(2**70), "\ud800", "p256", "valid", float("inf")]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def put(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return changed


def broken(content: bytes) -> load.BrokenDocumentError:
    with pytest.raises(load.BrokenDocumentError) as caught:
        load.parse(content)
    return caught.value


@given(st.sampled_from(PLACES), ANYTHING)
@settings(max_examples=300, deadline=None)
def test_a_changed_document_is_accepted_or_named_broken_and_never_raises_anything_else(
    place: tuple[Any, ...], value: Any
) -> None:
    content = json.dumps(put(SMALL, place, value)).encode()
    try:
        accepted = load.parse(content)
    except load.BrokenDocumentError as error:
        refused = error
    else:
        host = summarise(load.Loaded("x.json", accepted), keep_samples=True)
        assert host.host == accepted["host"]
        return
    assert refused.problem
    assert refused.pointer == "" or refused.pointer.startswith("/")


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_arbitrary_bytes_are_named_broken(content: bytes) -> None:
    assert broken(content).problem


@given(
    st.integers(0, 2**32),
    st.sampled_from(["kernel", "none"]),
    st.integers(1, 40),
    st.sets(st.sampled_from(["p256", "p384", "p521"]), min_size=1),
)
@settings(max_examples=30, deadline=None)
def test_valid_documents_are_accepted(seed: int, manager: str, n: int, curves: set[str]) -> None:
    document = made.document(
        seed=seed,
        resource_manager=manager,
        signatures=n,
        connections=n,
        curves=tuple(sorted(curves)),
    )
    assert load.parse(json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    ("content", "pointer", "says"),
    [
        (b"", "", "not JSON"),
        (b'{"schema": ', "", "line 1"),
        (b"\xff\xfe{}", "", "not UTF-8 at byte 0"),
        (b"[1, 2]", "", "object"),
        (b'{"a": 1, "a": 2}', "", "stands twice"),
        (b'{"schema": "tpm-fleet-bench/result/9"}', "/schema", "tpm-fleet-bench/result/1"),
        (b'{"a": NaN}', "/a", "NaN"),
        (b'{"a": [1e999]}', "/a/0", "2^53"),
        (b'{"a/b~": ' + b"9" * 5000 + b"}", "", "thousands of digits"),
        (b'{"a/b~": 99999999999999999999}', "/a~1b~0", "2^53"),
        (b'{"a": "\\ud800"}', "/a", "surrogate"),
        (b"[" * 100_000 + b"]" * 100_000, "", "too deeply"),
    ],
)
def test_what_is_wrong_and_where(content: bytes, pointer: str, says: str) -> None:
    error = broken(content)
    assert error.pointer == pointer
    assert says in error.problem


@pytest.mark.parametrize(
    ("place", "value", "pointer"),
    [
        (("scenarios", 0, "arms", 1, "samples_ns", 3), -1, "/scenarios/0/arms/1/samples_ns/3"),
        (("scenarios", 0, "arms", 1, "samples_ns", 3), "7", "/scenarios/0/arms/1/samples_ns/3"),
        (("scenarios", 2, "status"), "fine", "/scenarios/2/status"),
        (("host",), "a b", "/host"),
        (("platform", "tee"), "sgx", "/platform/tee"),
        (("system", "extra"), 1, "/system"),
        (("finished_at",), "2026-02-31T10:00:00Z", "/finished_at"),
        (("scenarios", 0, "arms", 0, "resubmitted"), [8], "/scenarios/0/arms/0/resubmitted"),
        (("scenarios", 1), SMALL["scenarios"][0], "/scenarios/1"),
        (
            ("scenarios", 0, "arms", 1),
            SMALL["scenarios"][0]["arms"][0],
            "/scenarios/0/arms/1",
        ),
    ],
)
def test_the_pointer_leads_to_the_fault(place: tuple[Any, ...], value: Any, pointer: str) -> None:
    assert broken(json.dumps(put(SMALL, place, value)).encode()).pointer == pointer


def test_a_very_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(load.MAX_BYTES + 1)
    with pytest.raises(load.BrokenDocumentError, match="larger than 64 MiB"):
        load.read(path)


def test_folders_are_searched_and_sidecars_left_alone(tmp_path: Path) -> None:
    wanted = [made.write(tmp_path / "run-1", SMALL), made.write(tmp_path / "b" / "c", SMALL)]
    for name in ("status.json", "failures.json", ".hidden.json", "vm-1.json.sha256", "notes.txt"):
        (tmp_path / "run-1" / name).write_text("{}")
    assert load.find([tmp_path]) == sorted(wanted)
    assert load.find([wanted[0], tmp_path, wanted[0]]) == sorted(wanted)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(load.NoSuchInputError, match=r"gone\.json: no such file"):
        load.find([tmp_path / "gone.json"])


def test_the_same_run_and_host_twice_counts_once(tmp_path: Path) -> None:
    first = made.write(tmp_path, SMALL, "a.json")
    second = made.write(tmp_path, made.document(seed=9, signatures=8, connections=6), "b.json")
    other = made.write(tmp_path, SMALL | {"run_id": "run-2"}, "c.json")
    found = list(load.documents([first, second, other]))
    assert [type(one) for one in found] == [load.Loaded, load.Broken, load.Loaded]
    assert isinstance(found[1], load.Broken)
    assert str(first) in found[1].problem


def contradicting(what: str) -> made.Document:
    document = made.local(
        "host", other_transports=[made.other_transport("tabrmd:", random.Random(1))]
    )
    scenario = next(one for one in document["scenarios"] if one["status"] == "valid")
    way = document["other_transports"][0]
    if what == "samples_ns":
        scenario["arms"][0]["samples_ns"] = []
    elif what == "signatures":
        scenario["arms"][0]["signatures"] |= {"signer": 10, "peer": 9}
    elif what == "tcti":
        way["tcti"] = document["tpm"]["tcti"]
    else:
        way[what] = False
    return document


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("samples_ns", "no sample in a valid scenario"),
        ("signatures", "counts that disagree"),
        ("tcti", "the same way to the TPM"),
        ("same_tpm", "another TPM"),
        ("handles_equal", "handles have changed"),
    ],
)
def test_a_document_that_contradicts_itself_is_broken(what: str, says: str) -> None:
    assert says in str(broken(json.dumps(contradicting(what)).encode()))


def test_of_the_tls_suite_a_further_way_has_raw_signing_alone() -> None:
    document = made.local(
        "host", other_transports=[made.other_transport("tabrmd:", random.Random(1))]
    )
    document["other_transports"][0]["tls"][0]["name"] = "handshake-new"
    found = broken(json.dumps(document).encode())
    assert found.pointer == "/other_transports/0/tls/0/name"
