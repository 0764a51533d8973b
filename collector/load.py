"""Finds documents, reads them one at a time, and says exactly what is wrong with a bad one.

A document is accepted when it is UTF-8 JSON without duplicate member names,
holds only numbers and text that can be computed with and written out again,
satisfies the schema that it names, and agrees with itself. The schemas are
``schema/result.schema.json`` and ``schema/imported.schema.json``.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCHEMAS = Path(__file__).resolve().parent.parent / "schema"
RESULT, IMPORTED = "tpm-fleet-bench/result/1", "tpm-fleet-bench/imported/1"
SCHEMA_FILES = {
    RESULT: SCHEMAS / "result.schema.json",
    IMPORTED: SCHEMAS / "imported.schema.json",
}
# What a run of the playbooks leaves beside its results, and what no host's result is called.
SIDECARS = frozenset({"run.json", "status.json", "failures.json"})
SIDECARS_OF_HOSTS = (".done.json", ".failed.json", ".job.json")
# Far above the largest real document (a few megabytes); keeps one bad file from filling the memory.
MAX_BYTES = 64 * 2**20
# The largest integer that a double holds exactly; 104 days as nanoseconds.
MAX_NUMBER = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * len(str(MAX_NUMBER))
_FRACTION = re.compile(rb"\.0+")
_HALF_SURROGATES = (b"\\ud", b"\\uD")

Document = dict[str, Any]


class BrokenDocumentError(ValueError):
    """A file that is not a usable result document.

    Attributes:
        pointer: Where in the document (RFC 6901); empty for the whole of it.
        problem: What is wrong there, as one sentence.
        others: How many further faults the document has.
    """

    def __init__(self, pointer: str, problem: str, others: int = 0) -> None:
        self.pointer = pointer
        self.problem = problem
        self.others = others
        super().__init__(f"{pointer or '(whole document)'}: {problem}")


class NoSuchInputError(ValueError):
    """A path given by the user does not exist."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A result document that was accepted, and the file it came from."""

    path: str
    document: Document


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported document that was accepted, and the file it came from."""

    path: str
    document: Document


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that was left out, where in it the fault is, and what it is."""

    path: str
    pointer: str
    problem: str


@functools.cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    text = SCHEMA_FILES[schema].read_text(encoding="utf-8")
    return jsonschema_rs.Draft202012Validator(json.loads(text))


def _pointer(path: Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def is_sidecar(name: str) -> bool:
    """Whether a file of this name is a run's own record, and no document."""
    return name in SIDECARS or name.endswith(SIDECARS_OF_HOSTS)


def find(inputs: Iterable[Path]) -> list[Path]:
    """Lists the files to read, sorted, each once.

    Args:
        inputs: Files, and directories, which are searched for ``*.json`` except hidden files.
            The sidecars that the playbooks write are passed over in either, since a shell's
            ``*.json`` names them too.

    Raises:
        NoSuchInputError: A path does not exist.
    """
    found: dict[str, Path] = {}
    for given in inputs:
        if given.is_dir():
            paths = [
                Path(folder) / name
                for folder, _, names in os.walk(given)
                for name in names
                if name.endswith(".json") and not name.startswith(".") and not is_sidecar(name)
            ]
        elif given.exists():
            paths = [] if is_sidecar(given.name) else [given]
        else:
            raise NoSuchInputError(f"{given}: no such file or directory")
        for path in paths:
            real = os.path.realpath(path)
            # One name per file whatever the order of the arguments, so that reports are the same.
            if real not in found or path.as_posix() < found[real].as_posix():
                found[real] = path
    return sorted(found.values(), key=lambda path: path.as_posix())


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BrokenDocumentError("", f"the member {twice[:60]!r} stands twice in one object")
    return members


def _parse(content: bytes) -> tuple[Any, bool]:
    """Parses JSON, and says whether it may hold a scalar that cannot be used."""
    odd = False

    def real(digits: str) -> float:
        nonlocal odd
        value = float(digits)
        odd = odd or abs(value) > MAX_NUMBER
        return value

    def constant(name: str) -> float:
        nonlocal odd
        odd = True
        return float(name)

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenDocumentError("", f"not UTF-8 at byte {error.start}") from None
    try:
        document = json.loads(
            text, object_pairs_hook=_no_duplicates, parse_float=real, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BrokenDocumentError("", f"not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise BrokenDocumentError("", "nested too deeply") from None
    except BrokenDocumentError:
        raise
    except ValueError:
        # CPython's limit on the digits of an integer.
        raise BrokenDocumentError("", "a number has thousands of digits") from None
    # Looking at the bytes is a hundred times quicker than at every value, and nearly always enough.
    alike = content.translate(_DIGITS_ALIKE)
    # Fractions may be as long as they like, and every ratio in a document has one.
    odd = odd or (_MANY_DIGITS in alike and _MANY_DIGITS in _FRACTION.sub(b".", alike))
    return document, odd or any(half in content for half in _HALF_SURROGATES)


def _unusable(value: Any) -> str | None:
    """Says why a scalar cannot be used, or returns None."""
    if isinstance(value, str):
        return "text with half a surrogate pair" if _SURROGATE.search(value) else None
    if isinstance(value, float) and math.isnan(value):
        return "NaN is not a number"
    if isinstance(value, (int, float)) and abs(value) > MAX_NUMBER:
        return f"a number beyond {MAX_NUMBER} (2^53)"
    return None


def _check_scalars(root: Any) -> None:
    """Walks the document with a list, not by recursion, so that depth cannot end the program."""
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, dict):
            if any(_SURROGATE.search(name) for name in value):
                raise BrokenDocumentError(_pointer(path), "a member name with half a surrogate")
            todo.extend(((*path, name), member) for name, member in value.items())
        elif isinstance(value, list):
            todo.extend(((*path, index), member) for index, member in enumerate(value))
        elif (problem := _unusable(value)) is not None:
            raise BrokenDocumentError(_pointer(path), problem)


def _check_schema(document: Any) -> str:
    """Checks a document against the schema that it names, and returns that name."""
    schema = RESULT
    if isinstance(document, dict) and "schema" in document:
        found = document["schema"]
        if not isinstance(found, str) or found not in SCHEMA_FILES:
            known = " and ".join(json.dumps(name) for name in SCHEMA_FILES)
            problem = f"is {json.dumps(found)[:80]}, and this collector reads {known}"
            raise BrokenDocumentError("/schema", problem)
        schema = found
    try:
        if _validator(schema).is_valid(document):
            return schema
        # What a condition asks for may only be missing because another fault set it off.
        faults = sorted(
            ("allOf" in error.schema_path, _pointer(error.instance_path), error.message)
            for error in _validator(schema).iter_errors(document)
        )
    except (ValueError, RecursionError):
        raise BrokenDocumentError("", "nested too deeply") from None
    _, pointer, message = faults[0]
    shown = message if len(message) <= 240 else message[:120] + " … " + message[-100:]
    raise BrokenDocumentError(pointer, shown, len(faults) - 1)


def _check_sense(document: Document) -> None:
    """Checks what the schema cannot express."""
    for name in ("started_at", "finished_at"):
        try:
            time.strptime(document[name], "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            raise BrokenDocumentError(f"/{name}", "no such date or time") from None
    _check_scenarios(document["scenarios"], "/scenarios")
    ways = {document["tpm"]["tcti"]} if document.get("tpm") else set()
    for number, transport in enumerate(document.get("other_transports", ())):
        at = f"/other_transports/{number}"
        if transport["tcti"] in ways:
            raise BrokenDocumentError(f"{at}/tcti", "a second entry for the same way to the TPM")
        ways.add(transport["tcti"])
        if transport["status"] == "valid" and False in (
            transport["same_tpm"], transport["handles_equal"]
        ):  # fmt: skip
            problem = "valid, and yet another TPM or one whose handles have changed"
            raise BrokenDocumentError(at, problem)
        for suite in ("tls", "messages", "device"):
            _check_scenarios(transport[suite], f"/other_transports/{number}/{suite}")


def _check_scenarios(scenarios: list[Document], pointer: str) -> None:
    seen: set[tuple[str, str | None]] = set()
    for number, scenario in enumerate(scenarios):
        at = f"{pointer}/{number}"
        key = (scenario["name"], scenario["curve"])
        if key in seen:
            raise BrokenDocumentError(at, "a second entry for the same scenario and curve")
        seen.add(key)
        arms: set[str] = set()
        for index, arm in enumerate(scenario["arms"]):
            if arm["name"] in arms:
                raise BrokenDocumentError(f"{at}/arms/{index}", "a second arm of the same name")
            arms.add(arm["name"])
            if scenario["status"] == "valid":
                _check_arm(arm, f"{at}/arms/{index}")
            if arm["resubmitted"] and max(arm["resubmitted"]) >= len(arm["samples_ns"]):
                problem = "an index beyond the end of samples_ns"
                raise BrokenDocumentError(f"{at}/arms/{index}/resubmitted", problem)


def _check_arm(arm: Document, pointer: str) -> None:
    """Checks an arm of a scenario that says of itself that it is valid."""
    if not arm["samples_ns"]:
        raise BrokenDocumentError(f"{pointer}/samples_ns", "no sample in a valid scenario")
    counted = {count for count in (arm["signatures"] or {}).values() if count is not None}
    if len(counted) > 1:
        problem = "counts that disagree in a valid scenario"
        raise BrokenDocumentError(f"{pointer}/signatures", problem)


def parse(content: bytes) -> Document:
    """Turns a file's bytes into a document.

    Raises:
        BrokenDocumentError: It is not a usable document.
    """
    document, odd = _parse(content)
    if odd:
        _check_scalars(document)
    if _check_schema(document) == RESULT:
        _check_sense(document)
    accepted: Document = document
    return accepted


def read(path: Path) -> Document:
    """Reads one file.

    Raises:
        BrokenDocumentError: It cannot be read, or is not a usable document.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BrokenDocumentError("", f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise BrokenDocumentError("", f"larger than {MAX_BYTES // 2**20} MiB")
    return parse(content)


def _identity(document: Document) -> tuple[str, str, str]:
    """What no two documents of a report may share, and where in the document it stands."""
    if document["schema"] == IMPORTED:
        return "/source/sha256", document["source"]["sha256"], document["format"]
    return "/run_id", document["run_id"], document["host"]


def documents(paths: Iterable[Path]) -> Iterator[Loaded | Imported | Broken]:
    """Reads the files one after another, holding one document at a time.

    Of several documents with the same run and host, or imported from the same file, the
    first, by path, counts; the others are broken.
    """
    seen: dict[tuple[str, str, str], str] = {}
    for path in paths:
        name = path.as_posix()
        try:
            document = read(path)
        except BrokenDocumentError as error:
            more = f" (and {error.others} more)" if error.others else ""
            yield Broken(name, error.pointer, error.problem + more)
            continue
        key = _identity(document)
        if key in seen:
            same = "run and host" if document["schema"] == RESULT else "imported file"
            yield Broken(name, key[0], f"the same {same} as {seen[key]}")
            continue
        seen[key] = name
        yield (Loaded if document["schema"] == RESULT else Imported)(name, document)
