"""JSON Schemas in the forms that the Messages API takes: it refuses what it does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]

_UNIONS = ("allOf", "anyOf", "oneOf")


def input_schema(parameters: Mapping[str, Any] | None) -> Schema:
    """The parameters of a tool: an object, and no union of several.

    A union gives way to one object with everything that any of its members knows.
    """
    given = parameters or {}
    schema: Schema = {name: value for name, value in given.items() if name not in _UNIONS}
    members = [*_members(given)]
    if members:
        merged = _mapping(given.get("properties"))
        for member in members:
            merged = {**_mapping(member.get("properties")), **merged}
        schema["properties"] = merged
    if schema.get("type") != "object":
        schema = {"type": "object", **{n: v for n, v in schema.items() if n != "type"}}
    return schema if "properties" in schema else {**schema, "properties": {}}


def _members(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for union in _UNIONS:
        members = schema.get(union)
        for member in members if isinstance(members, list) else ():
            yield _mapping(member)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_KEPT = frozenset("type enum const default description title required $ref".split())
_KEPT_VALUES: Mapping[str, Sequence[Any]] = {
    "format": "date-time time date duration email hostname uri ipv4 ipv6 uuid".split(),
    "minItems": [0, 1],
}
_NAMED = frozenset({"properties", "$defs", "definitions"})
_SILENT = frozenset({"additionalProperties", "$schema", "$id"})  # no extras, whatever was said


def output_schema(schema: Any) -> Any:
    """The shape of an answer, without the constraints that cannot be asked for.

    They are told in the description instead. The answer is checked against the full schema anyway.
    """
    if not isinstance(schema, Mapping):
        return {} if schema is True else schema
    asked: Schema = {}
    told: Schema = {}
    for name, value in schema.items():
        _sort(name, value, asked, told)
    if asked.get("type") == "object" or "properties" in asked:
        asked["additionalProperties"] = False
    if told:
        note = msgspec.json.encode(told).decode()
        about = asked.get("description")
        asked["description"] = f"{about} {note}" if isinstance(about, str) and about else note
    return asked


def _sort(name: str, value: Any, asked: Schema, told: Schema) -> None:
    """Put one keyword where it may stand: into the schema, or into the description."""
    if name in _NAMED:
        asked[name] = {each: output_schema(inner) for each, inner in _mapping(value).items()}
    elif name in _UNIONS and isinstance(value, list):
        asked["anyOf" if name == "oneOf" else name] = [output_schema(inner) for inner in value]
    elif name == "items":
        asked[name] = output_schema(value)
    elif name in _KEPT or value in _KEPT_VALUES.get(name, ()):
        asked[name] = value
    elif name not in _SILENT:
        told[name] = value
