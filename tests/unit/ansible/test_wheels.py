"""Wheels for the hosts are built once, kept by what they were built from, and pinned by hash."""

import hashlib
import json
import re
import tarfile
import zipfile

import pytest

from scripts import wheels


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "src" / "thing").mkdir(parents=True)
    (root / "src" / "thing" / "__init__.py").write_text("ANSWER = 1\n")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "thing"\nversion = "1.0"\n'
        '[tool.setuptools.packages.find]\nwhere = ["src"]\n'
    )
    return root


def test_the_agents_wheel_is_rebuilt_only_when_its_source_changed(project, tmp_path):
    cache = tmp_path / "cache"
    first = wheels.agent(project, cache)
    again = wheels.agent(project, cache)
    (project / "src" / "thing" / "__init__.py").write_text("ANSWER = 2\n")
    changed = wheels.agent(project, cache)

    assert (first["built"], again["built"], changed["built"]) == (True, False, True)
    assert again["path"] == first["path"] != changed["path"]
    with zipfile.ZipFile(changed["path"]) as archive:
        assert archive.read("thing/__init__.py") == b"ANSWER = 2\n"
    left = {path.name for path in project.iterdir()}
    assert left == {"src", "pyproject.toml"}, "building leaves nothing in the source tree"


def test_a_source_that_does_not_build_is_a_failure_with_the_tools_words(project, tmp_path):
    (project / "pyproject.toml").write_text("[project]\nname = 3\n")
    with pytest.raises(wheels.Failure, match=r"(?s)Building the agent's wheel failed:.*name"):
        wheels.agent(project, tmp_path / "cache")
    assert list((tmp_path / "cache").glob("agent/*")) == []


def test_a_directory_without_an_agent_is_named(tmp_path):
    with pytest.raises(wheels.Failure, match=re.escape(str(tmp_path))):
        wheels.agent(tmp_path, tmp_path / "cache")


def test_a_wheel_is_pinned_by_its_hash(tmp_path):
    wheel = tmp_path / "tpm2_pytss-3.0.0-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"not really")
    expected = hashlib.sha256(b"not really").hexdigest()
    assert wheels.pinned(wheel) == f"tpm2_pytss==3.0.0 --hash=sha256:{expected}\n"


def test_a_wheelhouse_that_is_there_is_used_as_it_is(tmp_path):
    house = tmp_path / "house"
    house.mkdir()
    (house / wheels.ARCHIVE).touch()
    (house / "wheelhouse.json").write_text(json.dumps({"tag": "cp313-aarch64", "sha256": "0" * 64}))
    made = wheels.dependencies(tmp_path / "no.lock", tmp_path, house)
    assert made == {
        "directory": str(house),
        "tag": "cp313-aarch64",
        "sha256": "0" * 64,
        "built": False,
    }


def test_a_lock_whose_hash_is_wrong_gives_no_wheelhouse(tmp_path, project):
    made = wheels.agent(project, tmp_path / "cache")
    lock = tmp_path / "wrong.lock"
    lock.write_text(f"thing @ file://{made['path']} --hash=sha256:{'0' * 64}\n")
    with pytest.raises(wheels.Failure, match=r"(?i)hash"):
        wheels.dependencies(lock, tmp_path / "cache", None)
    assert list((tmp_path / "cache").glob("wheelhouse/*/*/wheelhouse.json")) == []


def test_a_lock_becomes_a_wheelhouse_with_its_own_hashes(tmp_path, project):
    made = wheels.agent(project, tmp_path / "cache")
    lock = tmp_path / "right.lock"
    lock.write_text(f"thing @ file://{made['path']} --hash=sha256:{made['sha256']}\n")
    house = wheels.dependencies(lock, tmp_path / "cache", None)
    assert house["built"]
    assert house["tag"] == wheels.tag()
    directory = tmp_path / "cache" / "wheelhouse" / wheels.tag()
    assert str(house["directory"]).startswith(str(directory))
    (requirements,) = directory.glob("*/requirements.txt")
    assert requirements.read_text() == f"thing==1.0 --hash=sha256:{made['sha256']}\n"
    with tarfile.open(requirements.parent / wheels.ARCHIVE) as archive:
        assert sorted(archive.getnames()) == ["requirements.txt", "thing-1.0-py3-none-any.whl"]
    assert wheels.dependencies(lock, tmp_path / "cache", None)["built"] is False
    (requirements.parent / wheels.ARCHIVE).unlink()
    assert wheels.dependencies(lock, tmp_path / "cache", None)["built"] is True


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path, project):
    made = wheels.agent(project, tmp_path / "cache")
    lock = tmp_path / "right.lock"
    lock.write_text(f"thing @ file://{made['path']} --hash=sha256:{made['sha256']}\n")
    house = tmp_path / "mine"
    house.mkdir()
    (house / "letter.txt").write_text("dear")
    with pytest.raises(wheels.Failure, match="could not be written"):
        wheels.dependencies(lock, tmp_path / "cache", house)
    assert [path.name for path in house.iterdir()] == ["letter.txt"]
