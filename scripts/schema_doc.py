"""Write docs/result.md, the result document field by field, from its schema.

python scripts/schema_doc.py            write it
python scripts/schema_doc.py --check    exit 1 where it is not current
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema" / "result.schema.json"
PAGE = ROOT / "docs" / "result.md"

UNITS = {"_ns": "ns", "_bytes": "bytes", "_cores": "cores", "_ratio": "ratio"}
"""Unit by the ending of a field's name."""

HEAD = """\
<!-- Written by scripts/schema_doc.py from schema/result.schema.json; do not edit. -->

# The result document

{description}

The schema, [`schema/result.schema.json`](../schema/result.schema.json), is JSON Schema 2020-12 and
allows no field that it does not name; `python -m collector validate FILE` checks a document against
it. [`example-result.json`](example-result.json) is a whole document, of a short run against a
software TPM.

Every field is always there unless it is called optional; what could not be read is `null`. A unit
stands in the field's name: `_ns` is nanoseconds. `[]` in a path stands for each item of a list.
"""


def resolved(schema: Schema, definitions: Schema) -> Schema:
    """Follow a reference; what stands beside it wins."""
    if "$ref" not in schema:
        return schema
    target = resolved(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    return target | {key: value for key, value in schema.items() if key != "$ref"}


def kind(schema: Schema, definitions: Schema) -> str:
    """Say what values a field takes."""
    schema = resolved(schema, definitions)
    if "anyOf" in schema:
        return " or ".join(kind(part, definitions) for part in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    types = schema["type"]
    text = " or ".join([types] if isinstance(types, str) else types)
    if text == "array":
        return f"list of {kind(schema['items'], definitions)}"
    if "pattern" in schema:
        text += f" `{schema['pattern']}`"
    return text + limits(schema)


def limits(schema: Schema) -> str:
    """Say how small and how large a number may be."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        return ""
    return f", {low} or more" if high is None else f", {low} to {high}"


def fields(
    schema: Schema, definitions: Schema, path: str = "", told: dict[str, str] | None = None
) -> Iterator[tuple[str, Schema, bool]]:
    """Walk through a schema: each field's path, its schema, and whether it must be there.

    What a list holds is walked through once, where a definition of it is met first.

    Args:
        schema: the schema.
        definitions: its ``$defs``.
        path: where in the document it is.
        told: by reference, the path of the list whose items were walked through.
    """
    told = {} if told is None else told
    for name, part in schema.get("properties", {}).items():
        inner = resolved(part, definitions)
        place = f"{path}.{name}" if path else name
        items = inner.get("items", {}).get("$ref")
        if items in told:
            about = f"{inner['description']} Each is as in `{told[items]}`."
            yield place, inner | {"description": about}, name in schema["required"]
            continue
        yield place, inner, name in schema["required"]
        while inner.get("type") == "array":
            inner, place = resolved(inner["items"], definitions), f"{place}[]"
        if items and "properties" in inner:
            told[items] = place
        yield from fields(inner, definitions, place, told)


def unit(path: str) -> str:
    """Return the unit that a field's name gives."""
    name = path.removesuffix("[]").rpartition(".")[2]
    return next((text for ending, text in UNITS.items() if name.endswith(ending)), "")


def row(path: str, schema: Schema, definitions: Schema, *, needed: bool) -> str:
    """One field as a line of a table."""
    about = schema.get("description", "") + ("" if needed else " Optional.")
    cells = [f"`{path}`", kind(schema, definitions), unit(path), about.strip()]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


TABLE = "| field | values | unit | meaning |\n|---|---|---|---|"


def page(schema: Schema) -> str:
    """Return docs/result.md: the fields at the top, then a section for each that has its own."""
    definitions = schema["$defs"]
    top: list[str] = []
    sections: list[str] = []
    for path, field, needed in fields(schema, definitions):
        line = row(path, field, definitions, needed=needed)
        if "." in path:
            sections[-1] += f"\n{line}"
            continue
        top.append(line)
        if "properties" in resolved(field.get("items", field), definitions):
            sections.append(f"## `{path}`\n\n{field['description']}\n\n{TABLE}")
    head = HEAD.format(description=schema["description"])
    return "\n\n".join([head + "\n" + "\n".join([TABLE, *top]), *sections]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    text = page(json.loads(SCHEMA.read_text(encoding="utf-8")))
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/result.md is not current; run python scripts/schema_doc.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
