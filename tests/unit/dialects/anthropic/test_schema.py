"""JSON Schemas reduced to what the Messages API accepts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from antiphon.dialects.anthropic.schema import input_schema, output_schema

Schema = dict[str, Any]

TEXT = {"type": "string"}


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": ["object", "null"]}])
def test_parameters_are_always_an_object(parameters: Schema | None) -> None:
    assert input_schema(parameters) == {"type": "object", "properties": {}}


def test_valid_parameters_stay_unchanged() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "x-note": 1}
    assert input_schema(schema) == schema


@pytest.mark.parametrize("union", ["anyOf", "oneOf", "allOf"])
def test_a_union_becomes_one_object(union: str) -> None:
    members = [{"properties": {"a": TEXT, "b": TEXT}}, {"required": ["a"]}, True]
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"], union: members}
    assert input_schema(schema) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": TEXT},
        "required": ["a"],
    }
    assert input_schema({union: 5}) == {"type": "object", "properties": {}}


def test_the_work_is_linear_in_the_members_of_a_union() -> None:
    members = [{"properties": {f"p{number}": TEXT}} for number in range(15_000)]
    began = time.process_time()
    merged = input_schema({"properties": {"first": TEXT}, "allOf": members})["properties"]
    assert time.process_time() - began < 0.5  # were it quadratic, two seconds
    assert (next(iter(merged)), [*merged][-1]) == ("p14999", "first")


def test_objects_of_an_answer_have_no_additional_properties() -> None:
    schema = {
        "$schema": "x",
        "type": "object",
        "properties": {"a": {"properties": {}, "additionalProperties": TEXT}},
        "$defs": {"b": {"type": "object"}},
        "additionalProperties": True,
    }
    closed = {"additionalProperties": False}
    assert (
        output_schema(schema)
        == {
            "type": "object",
            "properties": {"a": {"properties": {}} | closed},
            "$defs": {"b": {"type": "object"} | closed},
        }
        | closed
    )


def test_unsupported_keywords_move_into_the_description() -> None:
    assert output_schema({"type": "integer", "minimum": 1, "description": "A number."}) == {
        "type": "integer",
        "description": 'A number. {"minimum":1}',
    }
    assert output_schema({"type": "string", "format": "colour"}) == {
        "type": "string",
        "description": '{"format":"colour"}',
    }
    assert output_schema({"oneOf": 5}) == {"description": '{"oneOf":5}'}


def test_property_names_are_not_keywords() -> None:
    schema = {"type": "object", "properties": {"minimum": TEXT}, "additionalProperties": False}
    assert output_schema(schema) == schema


def test_supported_keywords_are_kept() -> None:
    schema = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [TEXT, {"type": "string", "format": "date"}, {"$ref": "#/$defs/b"}]},
    }
    assert output_schema(schema) == schema
    assert output_schema({"oneOf": [TEXT]}) == {"anyOf": [TEXT]}
    assert output_schema({"items": True, "allOf": [False]}) == {"items": {}, "allOf": [False]}
