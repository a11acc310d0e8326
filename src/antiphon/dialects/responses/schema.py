"""Parameters of functions, corrected to what OpenAI accepts: it refuses the whole request else.

1. The schema is an object with `properties`, and without a union at its top level.
2. At any depth, an array has `items`, and `oneOf` is `anyOf`.

Everything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.core.items import Document
from antiphon.dialects.anthropic.schema import input_schema

_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_SCHEMAS = frozenset({"items", "additionalProperties", "not"})
_NOT_AT_THE_TOP = frozenset({"enum", "not"})


def function_parameters(parameters: Mapping[str, Any] | None) -> Document:
    """The parameters of a function."""
    schema = input_schema(parameters)
    return {
        name: _corrected_keyword(name, value)
        for name, value in schema.items()
        if name not in _NOT_AT_THE_TOP
    }


def _corrected(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _corrected_keyword(name, value) for name, value in schema.items()}
    if "oneOf" in found and "anyOf" not in found:
        found = {"anyOf" if name == "oneOf" else name: value for name, value in found.items()}
    kind = schema.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return {**found, "items": {}} if is_array and "items" not in schema else found


def _corrected_keyword(name: str, value: Any) -> Any:
    """The value of a keyword, which may be a schema, or have schemas in it. Others, such as
    `default`, are data."""
    if name in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
        return {each: _corrected(inner) for each, inner in value.items()}
    if name in _SCHEMA_LISTS and isinstance(value, list):
        return [_corrected(each) for each in value]
    return _corrected(value) if name in _SCHEMAS else value
