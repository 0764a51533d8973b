"""Google's discovery document of the Compute API as JSON Schema, and as a table of methods."""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import Any

import jsonschema_rs

# Of google-api-python-client 2.202.0, which the dev extra pins. Another release has another
# document; then this is to be changed together with the table of rules, after reading what changed.
REVISION = "20261106"
SHA256 = "6a776936c09fdec23f48bb54d6b746eec7d0085d592c1612887abc9881cda697"


def document_bytes() -> bytes:
    """The document as the package carries it."""
    package = resources.files("googleapiclient")
    return (package / "discovery_cache" / "documents" / "compute.v1.json").read_bytes()


@functools.cache
def document() -> dict[str, Any]:
    """The document."""
    read: dict[str, Any] = json.loads(document_bytes())
    return read


def _json_schema(node: Any) -> Any:
    """One schema of the document in JSON Schema draft 7; objects take no other properties."""
    if isinstance(node, list):
        return [_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": f"#/definitions/{node['$ref']}"}
    kept = {
        key: _json_schema(node[key])
        for key in ("type", "enum", "items", "additionalProperties")
        if key in node
    }
    if node.get("type") == "any":
        kept.pop("type")
    if node.get("format") in ("int64", "uint64"):
        kept["pattern"] = r"^-?\d+$"
    if isinstance(node.get("properties"), dict):
        kept["properties"] = {
            name: _json_schema(value) for name, value in node["properties"].items()
        }
        kept.setdefault("additionalProperties", False)
    return kept


@functools.cache
def validator(name: str) -> jsonschema_rs.Draft7Validator:
    """The validator of one of the document's schemas, such as ``Instance``."""
    definitions = {key: _json_schema(value) for key, value in document()["schemas"].items()}
    return jsonschema_rs.Draft7Validator(
        {"$ref": f"#/definitions/{name}", "definitions": definitions}
    )


def violations(name: str, body: Any) -> list[str]:
    """Where a body is not as the schema says, each with its path."""
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in validator(name).iter_errors(body)
    ]


@functools.cache
def _methods() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    found = []
    for resource in document()["resources"].values():
        for method in resource.get("methods", {}).values():
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", method["path"])
            found.append((method["httpMethod"], re.compile(pattern), method))
    return found


def method_for(verb: str, path: str, query: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The method of the API that a request means, and the parameters in its path.

    Args:
        verb: HTTP's.
        path: below ``compute/v1/``.
        query: names of the query's parameters.

    Raises:
        LookupError: the API has no such method, or the method no such parameter.
    """
    for http, pattern, method in _methods():
        if http == verb and (match := pattern.fullmatch(path)):
            if unknown := query - set(method["parameters"]):
                raise LookupError(f"{method['id']} has no parameter {', '.join(sorted(unknown))}")
            return method, match.groupdict()
    raise LookupError(f"the API has no {verb} {path}")
