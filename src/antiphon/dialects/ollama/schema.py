"""Correct JSON Schema for Ollama, which reads tool parameters into typed fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.wire.items import Document

_KEYWORD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "description": str,
    "enum": list,
    "required": list,
    "properties": Mapping,
    "anyOf": list,
}


def correct_schema(schema: Any) -> Document:
    """Drop known keywords whose values do not have the type that a server reads them into."""
    given = schema if isinstance(schema, Mapping) else {}  # `true` allows anything, and so does {}
    corrected = {
        name: value
        for name, value in given.items()
        if name not in _KEYWORD_TYPES or isinstance(value, _KEYWORD_TYPES[name])
    }
    for name in ("type", "required"):
        if isinstance(corrected.get(name), list):
            corrected[name] = [each for each in corrected[name] if isinstance(each, str)]
    if "properties" in corrected:
        properties = corrected["properties"].items()
        corrected["properties"] = {name: correct_schema(value) for name, value in properties}
    if "anyOf" in corrected:
        corrected["anyOf"] = [correct_schema(value) for value in corrected["anyOf"]]
    return corrected
