"""Instances of JSON Schemas, checked by an independent validator."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.sample import sample
from tests.support.tables import table

NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value", "next", "children"],
}


def a(name: str, **schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name]}


SCHEMAS: dict[str, Any] = {
    "anything": {},
    "true": True,
    "const": {"const": {"a": [1, None]}},
    "enum": {"enum": ["b", "a"]},
    "enum of a type": {"type": "integer", "enum": [3, 4]},
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "several types": {"type": ["string", "null"]},
    "types in another order": {"type": ["null", "integer"]},
    "text": {"type": "string"},
    "short text": {"type": "string", "maxLength": 3},
    "long text": {"type": "string", "minLength": 120},
    "exact text": {"type": "string", "minLength": 5, "maxLength": 5},
    "date": {"type": "string", "format": "date"},
    "unknown format": {"type": "string", "format": "hologram"},
    "digits": {"type": "string", "pattern": "^\\d+$"},
    "four digits": {"type": "string", "pattern": "^[0-9]{4}$"},
    "slug": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
    "identifier": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
    "hash": {"type": "string", "pattern": "^[0-9a-f]{40}$"},
    "month": {"type": "string", "pattern": "^\\d{4}-\\d{2}$"},
    "version": {"type": "string", "pattern": "^v?\\d+\\.\\d+\\.\\d+$"},
    "e-mail by pattern": {"type": "string", "pattern": "^[^@\\s]+@[^@\\s]+\\.[a-z]+$"},
    "pattern and length": {"type": "string", "pattern": "^[a-z]+$", "minLength": 9},
    "colour": {"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"},
    "integer": {"type": "integer"},
    "integer in a range": {"type": "integer", "minimum": 5, "maximum": 7},
    "integer in an open range": {
        "type": "integer",
        "exclusiveMinimum": 5,
        "exclusiveMaximum": 7,
    },
    "negative": {"type": "integer", "maximum": -3},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 10},
    "fraction": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "multiple of a fraction": {"type": "number", "multipleOf": 0.25, "minimum": 0.6},
    "large": {"type": "number", "minimum": 1e12},
    "bounds without a type": {"minimum": 3},
    "object": a("x", type="string"),
    "object without required": {
        "type": "object",
        "properties": {"x": {"type": "string"}, "y": {"type": "integer"}},
        "additionalProperties": False,
    },
    "required but not described": {"type": "object", "required": ["x"]},
    "required with a common schema": {
        "type": "object",
        "required": ["x"],
        "additionalProperties": {"type": "integer"},
    },
    "as many properties": {
        "type": "object",
        "minProperties": 3,
        "additionalProperties": {"type": "boolean"},
    },
    "properties without a type": {"properties": {"x": {"type": "integer"}}, "required": ["x"]},
    "array": {"type": "array", "items": {"type": "integer"}},
    "array of anything": {"type": "array"},
    "three": {"type": "array", "items": {"type": "string"}, "minItems": 3},
    "none": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
    "different texts": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 3,
        "uniqueItems": True,
    },
    "different numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "minItems": 3,
        "uniqueItems": True,
    },
    "different choices": {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "minItems": 3,
        "uniqueItems": True,
    },
    "different objects": {
        "type": "array",
        "items": a("x", type="string"),
        "minItems": 2,
        "uniqueItems": True,
    },
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "items": False,
    },
    "nested": a("x", type="array", minItems=2, items=a("y", type="array", items=a("z", const=1))),
    "reference": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer", "minimum": 4}}},
    "reference with more": {
        "$ref": "#/$defs/x",
        "minimum": 9,
        "$defs": {"x": {"type": "integer", "maximum": 9}},
    },
    "reference to a reference": {
        "$ref": "#/$defs/x",
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"type": "boolean"}},
    },
    "older name of definitions": {
        "$ref": "#/definitions/x",
        "definitions": {"x": {"type": "boolean"}},
    },
    "escaped reference": {"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": {"type": "boolean"}}},
    "reference into properties": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"$ref": "#/properties/x"}},
        "required": ["x", "y"],
    },
    "recursive": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "recursive at the root": {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
    },
    "optional recursion": {"type": "object", "properties": {"next": {"$ref": "#"}}},
    "any of": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "any of, first impossible": {"anyOf": [False, {"type": "integer"}]},
    "any of the required": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "string"}},
        "anyOf": [{"required": ["y"]}, {"required": ["x"]}],
    },
    "one of": {"oneOf": [a("x", const="x"), a("y", const="y")]},
    "all of": {"allOf": [a("x", type="string"), a("y", type="integer")]},
    "all of with references": {
        "allOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}, {"required": ["z"]}],
        "$defs": {"x": a("x", type="string"), "y": a("y", minimum=3)},
    },
    "all of the same property": {
        "allOf": [a("x", type="number", minimum=3), a("x", type="integer", maximum=5)]
    },
    "all of enumerations": {"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]},
    "all of any of": {
        "allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"maxLength": 2}]
    },
    "a tool of a coding agent": {
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "Shell command to execute."},
            "timeout_ms": {"type": "number"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "step": {"type": "string"},
                        "status": {"type": "string", "enum": ["pending", "done"]},
                    },
                    "required": ["step", "status"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["cmd", "timeout_ms", "env", "plan"],
        "additionalProperties": False,
    },
}


@table("name", SCHEMAS)
def test_an_instance_is_valid(name: str) -> None:
    schema = SCHEMAS[name]
    instance = sample(schema, "the user's words")
    assert jsonschema_rs.is_valid(schema, instance), instance


@table("name", SCHEMAS)
def test_the_same_schema_gives_the_same_instance(name: str) -> None:
    assert sample(SCHEMAS[name], "words") == sample(SCHEMAS[name], "words")


def test_strings_are_made_of_the_given_text() -> None:
    assert sample({"type": "string"}, "hello there") == "hello there"
    assert sample({"type": "string"}, "") == "echo"


def test_an_unmatched_pattern_still_gives_an_instance() -> None:
    schema = a("x", type="string", pattern="^q{3}z{3}$")
    assert sample(schema, "words") == {"x": "words"}


@table(
    "schema",
    [
        False,
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#"},
        {"type": "array", "items": False, "minItems": 1},
        {"type": "integer", "minimum": 5, "maximum": 4},
    ],
)
def test_a_schema_without_an_instance_gives_none(schema: Any) -> None:
    assert sample(schema, "words") is None


def test_a_huge_instance_is_not_generated() -> None:
    names = [f"p{index}" for index in range(10)]
    levels = {
        f"level{depth}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/level{depth + 1}"} for name in names},
            "required": names,
        }
        for depth in range(12)
    }
    schema = {"$ref": "#/$defs/level0", "$defs": {**levels, "level12": {"type": "string"}}}
    assert sample(schema, "words") is None
    assert sample({"type": "array", "minItems": 10**12}, "words") is None


MANY = {f"name{index}": {"type": "string"} for index in range(20_000)}
BACKTRACKING = {"type": "string", "pattern": r"(?:.?){60}.{60}(?!x)\x01", "minLength": 2000}
HOSTILE: dict[str, Any] = {
    "long repeated characters": {"type": "string", "pattern": "zz", "minLength": 10**9},
    "patterns that backtrack": {"properties": dict.fromkeys([*MANY][:90], BACKTRACKING)},
    "many members": {"type": "object", "minProperties": 10**8},
    "the text many times": {"type": "array", "minItems": 2000},
    "many parts of a large schema": {"allOf": [{"properties": MANY}, *[{"title": "a"}] * 20_000]},
    "two long lists": {"enum": [*range(60_000)], "allOf": [{"enum": [*range(1, 60_001)]}]},
}


@table("name", HOSTILE)
def test_no_schema_of_a_client_takes_long_or_makes_much(name: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    made = sample(HOSTILE[name], "words " * 2000)
    took = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(json.dumps(made)) < 2_000_000
    assert peak < 100_000_000
    assert took < 10


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYWORDS = """
    type enum const $ref anyOf oneOf allOf properties required additionalProperties items $defs
    prefixItems minItems maxItems uniqueItems minLength maxLength pattern format minimum maximum
    multipleOf exclusiveMinimum exclusiveMaximum minProperties
""".split()
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
NONSENSE = st.recursive(
    JSON | st.sampled_from(TYPES) | st.sampled_from(["#", "#/$defs/a", "("]),
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4) | st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)


@given(NONSENSE)
def test_any_value_as_a_schema_does_not_raise(schema: Any) -> None:
    json.dumps(sample(schema, "words"))
    assert sample(schema, "words") == sample(schema, "words")


SIZES = st.integers(0, 4)
LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
        SIZES,
        SIZES,
    ),
    st.builds(
        lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
        st.integers(-50, 50),
        SIZES,
    ),
    st.builds(
        lambda low, step: {"type": "number", "exclusiveMinimum": low, "multipleOf": step},
        st.integers(-50, 50),
        st.integers(1, 9),
    ),
    st.builds(lambda words: {"enum": words}, st.lists(st.text(max_size=4), min_size=1, max_size=3)),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from("abc")
    return st.builds(
        lambda properties, needed: {
            "type": "object",
            "properties": properties,
            "required": sorted(needed & properties.keys()),
            "additionalProperties": False,
        },
        st.dictionaries(names, inner, max_size=3),
        st.sets(names),
    )


DECLARED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(
            lambda items, low: {"type": "array", "items": items, "minItems": low}, inner, SIZES
        ),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda schema: {"allOf": [schema, {"description": "x"}]}, inner),
    ),
    max_leaves=10,
)


@given(DECLARED, st.text(max_size=12))
def test_instances_of_typical_tool_schemas_are_valid(schema: Any, text: str) -> None:
    instance = sample(schema, text)
    assert jsonschema_rs.is_valid(schema, instance), instance
