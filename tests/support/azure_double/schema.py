"""Azure's own description of requests and answers, as JSON Schema.

It is made from the model classes of azure-mgmt-compute and azure-mgmt-network, which Microsoft
generates from the services' specifications: names, types, known values, what is required, and what
only the service may set. Known values are taken to be the only ones, in that spelling.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import sys
import types
import typing
from typing import Any

import azure.mgmt.compute.models as compute
import azure.mgmt.network.models as network
import jsonschema_rs

# The releases that the table of rules and the API versions were read beside. Another release may
# describe other versions; then both are to be looked at again.
RELEASES = {"azure-mgmt-compute": "39.0.0", "azure-mgmt-network": "33.1.0"}

_PACKAGES = {"compute": compute, "network": network}
# Lists that Microsoft says to have stopped keeping; any text will do.
_OPEN = {"VirtualMachineSizeTypes"}
_PLAIN = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    bytes: "string",
    dt.datetime: "string",
}


def _fields(model: type) -> dict[str, Any]:
    """The fields of a model class by their names in JSON."""
    fields: dict[str, Any] = model.__new__(model)._attr_to_rest_field  # type: ignore[attr-defined]
    return fields


class _Writer:
    """Turns models into definitions, each once.

    Args:
        package: the module that has them.
        answer: whether what only the service may set is allowed.
    """

    def __init__(self, package: Any, *, answer: bool) -> None:
        self._package = package
        self._answer = answer
        self.definitions: dict[str, Any] = {}

    def reference(self, model: type) -> dict[str, str]:
        """A reference to a model's definition."""
        if model.__name__ not in self.definitions:
            self.definitions[model.__name__] = {}  # models refer to each other in circles
            self.definitions[model.__name__] = self._object(model)
        return {"$ref": f"#/definitions/{model.__name__}"}

    def _object(self, model: type) -> dict[str, Any]:
        hints = typing.get_type_hints(model, globalns=self._names(model))
        properties, required = {}, []
        for attribute, field in _fields(model).items():
            name = field._rest_name_input or attribute
            read_only = field._visibility == ["read"]
            if read_only and not self._answer:
                continue
            hint, optional = _without_none(hints[attribute])
            properties[name] = self._schema(hint)
            if not optional and not read_only:
                required.append(name)
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def _names(self, model: type) -> dict[str, Any]:
        """What the annotations of a model may mention."""
        found: dict[str, Any] = {}
        for base in reversed(model.__mro__):
            found |= vars(sys.modules[base.__module__])
        found |= {name: item for name, item in vars(self._package).items() if name[0] != "_"}
        return found | {"_models": self._package, "_types": self._package}

    def _schema(self, hint: Any) -> dict[str, Any]:
        hint, _ = _without_none(hint)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            known = [one for one in inner if _is(one, enum.Enum)]
            if known and known[0].__name__ not in _OPEN:
                return {"enum": [item.value for one in known for item in one]}
            return {"anyOf": [self._schema(one) for one in inner if one not in known]}
        if origin is list:
            return {"type": "array", "items": self._schema(inner[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self._schema(inner[1])}
        return self._single(hint)

    def _single(self, hint: Any) -> dict[str, Any]:
        if _is(hint, enum.Enum):
            return {"enum": [item.value for item in hint]}
        if hasattr(hint, "as_dict"):
            return dict(self.reference(hint))
        return {"type": _PLAIN[hint]} if hint in _PLAIN else {}


def _is(hint: Any, base: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, base)


def _without_none(hint: Any) -> tuple[Any, bool]:
    inner = typing.get_args(hint)
    if typing.get_origin(hint) not in (typing.Union, types.UnionType) or type(None) not in inner:
        return hint, False
    rest = tuple(one for one in inner if one is not type(None))
    return (rest[0] if len(rest) == 1 else typing.Union[rest]), True  # noqa: UP007


@functools.cache
def _validator(package: str, name: str, *, answer: bool) -> jsonschema_rs.Draft7Validator:
    writer = _Writer(_PACKAGES[package], answer=answer)
    top = writer.reference(getattr(_PACKAGES[package], name))
    return jsonschema_rs.Draft7Validator(top | {"definitions": writer.definitions})


def violations(package: str, name: str, body: Any, *, answer: bool = False) -> list[str]:
    """Where a body is not as Azure describes it, each with its path.

    Args:
        package: ``compute`` or ``network``.
        name: of the model, such as ``VirtualMachine``.
        body: decoded JSON.
        answer: whether it comes from the service.
    """
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(package, name, answer=answer).iter_errors(body)
    ]


# azure-mgmt-devtestlabs is not there for current versions of the core library, so this one is
# written by hand, after the published reference of Microsoft.DevTestLab/schedules 2018-09-15.
SCHEDULE = jsonschema_rs.Draft7Validator(
    {
        "type": "object",
        "required": ["location", "properties"],
        "additionalProperties": False,
        "properties": {
            "location": {"type": "string"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
            "properties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["status", "taskType", "timeZoneId", "targetResourceId"],
                "properties": {
                    "status": {"enum": ["Enabled", "Disabled"]},
                    "taskType": {"const": "ComputeVmShutdownTask"},
                    "dailyRecurrence": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"time": {"pattern": r"^([01]\d|2[0-3])[0-5]\d$"}},
                    },
                    "timeZoneId": {"type": "string"},
                    "targetResourceId": {"type": "string"},
                    "notificationSettings": {
                        "type": "object",
                        "properties": {"status": {"enum": ["Enabled", "Disabled"]}},
                    },
                },
            },
        },
    }
)
