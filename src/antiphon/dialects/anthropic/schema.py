"""JSON Schemas reduced to what the Messages API accepts: it refuses unknown keywords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.core.items import Document

_UNIONS = ("allOf", "anyOf", "oneOf")


def input_schema(parameters: Mapping[str, Any] | None) -> Document:
    """The parameters of a tool: an object, without a union at the top level.

    A union is replaced by one object with the properties of all its members.
    """
    given = parameters or {}
    schema: Document = {name: value for name, value in given.items() if name not in _UNIONS}
    members = [*_union_members(given)]
    if members:
        merged: Document = {}
        for each in reversed((given, *members)):  # the first one that has a property wins
            merged.update(_as_mapping(each.get("properties")))
        schema["properties"] = merged
    if schema.get("type") != "object":
        schema = {"type": "object", **{n: v for n, v in schema.items() if n != "type"}}
    return schema if "properties" in schema else {**schema, "properties": {}}


def _union_members(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for union in _UNIONS:
        members = schema.get(union)
        for member in members if isinstance(members, list) else ():
            yield _as_mapping(member)


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_SUPPORTED = frozenset("type enum const default description title required $ref".split())
_SUPPORTED_VALUES: Mapping[str, Sequence[Any]] = {
    "format": "date-time time date duration email hostname uri ipv4 ipv6 uuid".split(),
    "minItems": [0, 1],
}
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions"})
# `additionalProperties` is always set to false; the others say nothing about the response.
_DROPPED = frozenset({"additionalProperties", "$schema", "$id"})


def output_schema(schema: Any) -> Any:
    """The schema of a response without the keywords that the API refuses.

    Those are appended to the description as JSON. The response is validated against the full schema
    anyway.
    """
    if not isinstance(schema, Mapping):
        return {} if schema is True else schema
    supported: Document = {}
    unsupported: Document = {}
    for name, value in schema.items():
        _add_keyword(name, value, supported, unsupported)
    if supported.get("type") == "object" or "properties" in supported:
        supported["additionalProperties"] = False
    if unsupported:
        note = msgspec.json.encode(unsupported).decode()
        text = supported.get("description")
        supported["description"] = f"{text} {note}" if isinstance(text, str) and text else note
    return supported


def _add_keyword(name: str, value: Any, supported: Document, unsupported: Document) -> None:
    """Add one keyword to the schema if the API supports it, else to the rest."""
    if name in _SCHEMAS_BY_NAME:
        supported[name] = {each: output_schema(inner) for each, inner in _as_mapping(value).items()}
    elif name in _UNIONS and isinstance(value, list):
        supported["anyOf" if name == "oneOf" else name] = [output_schema(each) for each in value]
    elif name == "items":
        supported[name] = output_schema(value)
    elif name in _SUPPORTED or value in _SUPPORTED_VALUES.get(name, ()):
        supported[name] = value
    elif name not in _DROPPED:
        unsupported[name] = value
