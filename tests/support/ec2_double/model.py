"""botocore's models of the two services: requests read and checked by them, answers written."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from importlib import resources
from typing import Any
from xml.sax.saxutils import escape

from botocore.loaders import Loader
from botocore.model import ListShape, ServiceModel, StructureShape

# Of botocore 1.44.8, which requirements/ pins. Another release has other models; then this is to be
# changed together with the table of rules, after reading what changed.
VERSION = "1.44.8"
MODELS = {
    "ec2": (
        "ec2/2016-11-15/service-2.json.gz",
        "dfc5ccc362fe7b29ba373454b7b7aedb43e80a4169d73419220cf9f9a3d63b4d",
    ),
    "scheduler": (
        "scheduler/2021-06-30/service-2.json.gz",
        "d43277756fcafcb9676fa827a78c3b7e8bf8fda2e0b57d1a63766178800a0866",
    ),
}


def model_bytes(service: str) -> bytes:
    """A model as the package carries it."""
    return (resources.files("botocore") / "data" / MODELS[service][0]).read_bytes()


@functools.cache
def model(service: str) -> ServiceModel:
    """A service."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


class Invalid(Exception):
    """A request is not as the model says; the message says where."""


def from_query(shape: Any, form: dict[str, str]) -> dict[str, Any]:
    """The parameters of an EC2 request out of its flat form, each checked.

    Raises:
        Invalid: there is something else in it than the model has.
    """
    tree: dict[str, Any] = {}
    for key, value in form.items():
        inner = tree
        *parents, last = key.split(".")
        for part in parents:
            inner = inner.setdefault(part, {})
        inner[last] = value
    read: dict[str, Any] = _from_tree(shape, tree, "", _query_name)
    return read


def from_json(shape: Any, value: Any) -> dict[str, Any]:
    """The parameters of a scheduler request out of its JSON, each checked.

    Raises:
        Invalid: there is something else in it than the model has.
    """
    read: dict[str, Any] = _from_tree(shape, value, "", lambda _, name: name)
    return read


def _query_name(member: Any, name: str) -> str:
    """What EC2 calls a member in a request."""
    said = member.serialization.get("queryName") or member.serialization.get("name", "")
    return said[:1].upper() + said[1:] if said else name


def _from_tree(shape: Any, value: Any, path: str, naming: Any) -> Any:
    if isinstance(shape, StructureShape):
        if not isinstance(value, dict):
            raise Invalid(f"{path or shape.name} is not a structure")
        names = {naming(member, name): name for name, member in shape.members.items()}
        if unknown := set(value) - set(names):
            raise Invalid(f"{path or shape.name} has no {', '.join(sorted(unknown))}")
        read = {
            names[key]: _from_tree(shape.members[names[key]], inner, f"{path}.{key}", naming)
            for key, inner in value.items()
        }
        if lacking := set(shape.required_members) - set(read):
            raise Invalid(f"{path or shape.name} lacks {', '.join(sorted(lacking))}")
        return read
    if isinstance(shape, ListShape):
        if isinstance(value, dict):  # EC2 counts a list's items
            if [int(key) for key in value if key.isdigit()] != list(range(1, len(value) + 1)):
                raise Invalid(f"{path} is not numbered from 1")
            value = list(value.values())
        return [_from_tree(shape.member, item, f"{path}[]", naming) for item in value]
    return _scalar(shape, value, path)


def _scalar(shape: Any, value: Any, path: str) -> Any:
    if shape.type_name == "boolean":
        if value not in ("true", "false", True, False):
            raise Invalid(f"{path} is not a boolean: {value}")
        return value in ("true", True)
    if shape.type_name in ("integer", "long"):
        if not re.fullmatch(r"-?\d+", str(value)):
            raise Invalid(f"{path} is not a number: {value}")
        return int(value)
    limits = shape.metadata
    if not isinstance(value, str):
        raise Invalid(f"{path} is not text: {value}")
    if "enum" in limits and value not in limits["enum"]:
        raise Invalid(f"{path} is not one of {', '.join(limits['enum'])}: {value}")
    if "pattern" in limits and not re.fullmatch(limits["pattern"], value):
        raise Invalid(f"{path} does not match {limits['pattern']}: {value}")
    if not limits.get("min", 0) <= len(value) <= limits.get("max", len(value)):
        raise Invalid(f"{path} has {len(value)} characters")
    return value


def to_xml(shape: Any, value: dict[str, Any]) -> str:
    """What is inside EC2's answer.

    Raises:
        KeyError: the model has no such member.
    """
    parts = []
    for name, inner in value.items():
        member = shape.members[name]
        tag = member.serialization.get("name", name)
        parts.append(f"<{tag}>{_xml(member, inner)}</{tag}>")
    return "".join(parts)


def _xml(shape: Any, value: Any) -> str:
    if isinstance(shape, StructureShape):
        return to_xml(shape, value)
    if isinstance(shape, ListShape):
        return "".join(f"<item>{_xml(shape.member, item)}</item>" for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.000Z}"
    return escape(str(value))


def to_json(shape: Any, value: Any) -> Any:
    """The scheduler's answer; moments are seconds.

    Raises:
        KeyError: the model has no such member.
    """
    if isinstance(shape, StructureShape):
        return {name: to_json(shape.members[name], inner) for name, inner in value.items()}
    if isinstance(shape, ListShape):
        return [to_json(shape.member, item) for item in value]
    return value.timestamp() if isinstance(value, datetime) else value
