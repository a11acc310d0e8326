"""Parameters of functions, corrected to what OpenAI accepts."""

from __future__ import annotations

import json
from typing import Any

from antiphon.dialects.responses.schema import function_parameters
from tests.support.tables import table

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}


def corrected(schema: Any) -> Any:
    """A property as it is sent."""
    return function_parameters({"type": "object", "properties": {"x": schema}})["properties"]["x"]


@table(
    ("given", "sent"),
    [
        ({"type": "object"}, {"type": "object", "properties": {}}),
        (None, {"type": "object", "properties": {}}),
        ({"properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}),
        (
            {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]},
            {"type": "object", "properties": {"a": TEXT}},
        ),
        ({"type": "object", "enum": [{}], "not": {}}, {"type": "object", "properties": {}}),
    ],
)
def test_parameters_are_an_object_without_a_union_at_the_top(given: Schema, sent: Schema) -> None:
    """spring-projects/spring-ai#4776: "object schema missing properties", and
    nspady/google-calendar-mcp#39: "must have type 'object' and not have 'oneOf'"."""
    assert function_parameters(given) == sent


@table(
    ("given", "sent"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        ({"type": "array", "items": {"type": "array"}}, ...),
        ({"type": "array", "items": [{"type": "array"}]}, ...),
        ({"additionalProperties": {"type": "array"}}, ...),
        ({"patternProperties": {"a": {"type": "array"}}}, ...),
        ({"anyOf": [{"type": "array"}]}, ...),
    ],
)
def test_an_array_has_items(given: Schema, sent: Any) -> None:
    """ogx-ai/ogx#3602: "array schema missing items"."""
    if sent is ...:
        closed = json.dumps({"type": "array", "items": {}})
        sent = json.loads(json.dumps(given).replace(json.dumps({"type": "array"}), closed))
    assert corrected(given) == sent


def test_one_of_becomes_any_of() -> None:
    """can1357/oh-my-pi#920: "'oneOf' is not permitted"."""
    assert corrected({"oneOf": [TEXT, {"oneOf": [TEXT]}]}) == {"anyOf": [TEXT, {"anyOf": [TEXT]}]}
    both = {"anyOf": [TEXT], "oneOf": [TEXT]}
    assert corrected(both) == both


def test_other_keywords_and_their_order_stay() -> None:
    schema = {
        "$schema": "x",
        "type": "object",
        "properties": {
            "oneOf": TEXT,
            "b": {"default": {"type": "array"}, "enum": [{"oneOf": []}]},
            "c": True,
            "d": {"properties": 5, "anyOf": {"oneOf": 1}},
            "e": {"type": "array", "items": TEXT, "minItems": 2},
        },
        "required": ["b"],
        "additionalProperties": False,
        "$defs": {"a": {"$ref": "#/$defs/b"}},
    }
    assert json.dumps(function_parameters(schema)) == json.dumps(schema)
