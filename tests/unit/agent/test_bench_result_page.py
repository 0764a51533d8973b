"""docs/result.md says what the schema says, and docs/example-result.json is what it describes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from scripts import schema_doc
from tpmbench import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLE = schema_doc.ROOT / "docs" / "example-result.json"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(schema_doc.SCHEMA.read_text())
    return loaded


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(EXAMPLE.read_text())
    return loaded


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema_doc.main(["--check"]) == 0, capsys.readouterr().err


def test_a_page_that_is_not_current_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema_doc, "PAGE", tmp_path / "result.md")
    assert schema_doc.main(["--check"]) == 1
    assert "run python scripts/schema_doc.py" in capsys.readouterr().err
    assert schema_doc.main([]) == 0
    assert schema_doc.main(["--check"]) == 0
    with (tmp_path / "result.md").open("a") as page:
        page.write("one more line\n")
    assert schema_doc.main(["--check"]) == 1


def test_every_field_is_described(schema: dict[str, Any]) -> None:
    described = list(schema_doc.fields(schema, schema["$defs"]))
    assert len(described) > 80
    assert [path for path, field, _ in described if not field.get("description")] == []


def test_every_duration_and_size_has_its_unit(schema: dict[str, Any]) -> None:
    for path, field, _ in schema_doc.fields(schema, schema["$defs"]):
        if re.search(r"nanoseconds|wait for", field["description"]):
            assert schema_doc.unit(path) == "ns", path


SCENARIOS_ELSEWHERE = {f"other_transports[].{suite}" for suite in ("device", "messages", "tls")}
"""Their items are described once, under ``scenarios``."""


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Walk through a document: the path of each field, as the page writes it."""
    if isinstance(value, list):
        for item in value:
            yield from paths(item, f"{path}[]")
    elif isinstance(value, dict):
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            yield place
            if place not in SCENARIOS_ELSEWHERE:
                yield from paths(item, place)


def test_every_field_of_the_example_is_on_the_page(example: dict[str, Any]) -> None:
    on_page = set(re.findall(r"^\| `([^`]+)` \|", schema_doc.PAGE.read_text(), re.MULTILINE))
    assert set(paths(example)) - on_page == set()


def test_the_example_has_every_field_that_is_not_optional(
    schema: dict[str, Any], example: dict[str, Any]
) -> None:
    needed = {
        path
        for path, _, needed in schema_doc.fields(schema, schema["$defs"])
        if needed and ".operation." not in path
    }
    # Nothing in a run over two ways to a software TPM need be missing but an arm.
    assert {path for path in needed - set(paths(example)) if "absent_arms" not in path} == set()


def test_the_example_follows_the_schema(schema: dict[str, Any], example: dict[str, Any]) -> None:
    errors = jsonschema_rs.validator_for(schema).iter_errors(example)
    assert [str(error) for error in errors] == []


def test_the_examples_counts_are_those_of_its_scenarios(example: dict[str, Any]) -> None:
    connections = example["settings"]["connections"]
    expected = {
        "handshake-new": (connections, 0),
        "handshake-resumed": (1, connections - 1),
        "connection-reused": (1, 0),
    }
    seen = set()
    for scenario in example["scenarios"]:
        if scenario["name"] in expected:
            seen.add(scenario["name"])
            for arm in scenario["arms"]:
                assert (arm["signatures"]["peer"], arm["resumed"]) == expected[scenario["name"]]
    assert seen == set(expected)


def test_the_example_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(EXAMPLE)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("bench1: TPM ")
    assert "This is a software TPM" in out
