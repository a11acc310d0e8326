"""JSON Schema reduced to the subset that every Gemini model accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.dialects.gemini.schema import reduce_parameters, reduce_response
from tests.support.request_validators.gemini import schema_problems
from tests.support.tables import table

Document = dict[str, Any]

STRING = {"type": "STRING"}


def reduced(schema: Any, **definitions: Any) -> Any:
    """A property as it is after its document was reduced."""
    document = {"type": "object", "properties": {"x": schema}, "$defs": definitions}
    node = reduce_parameters(document)
    assert node is not None
    assert list(schema_problems(node)) == []
    return node["properties"]["x"]


@table(
    ("schema", "expected"),
    [
        ({"type": "string"}, STRING),
        ({"type": "boolean"}, {"type": "BOOLEAN"}),
        ({"type": "string", "description": "A."}, {"type": "STRING", "description": "A."}),
        ({"type": "string", "description": ""}, STRING),
        (
            {"type": "integer", "minimum": 1, "maximum": 9, "format": "int32"},
            {"type": "INTEGER", "format": "int32", "minimum": 1, "maximum": 9},
        ),
        ({"type": "number", "minimum": 0.5, "multipleOf": 2}, {"type": "NUMBER", "minimum": 0.5}),
        ({"type": "number", "exclusiveMinimum": 0, "minimum": True}, {"type": "NUMBER"}),
        (
            {"type": "string", "minLength": 1, "maxLength": 2**40, "pattern": "(?=a)"},
            {"type": "STRING", "minLength": 1},
        ),
        ({"type": "string", "minLength": -1, "maxLength": True, "format": "uri"}, STRING),
        ({"type": "string", "minLength": 1.5}, STRING),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "string", "title": "X", "default": "a", "examples": ["a"]}, STRING),
    ],
)
def test_only_known_keywords_are_kept(schema: Document, expected: Document) -> None:
    assert reduced(schema) == expected


@table(
    ("schema", "expected"),
    [
        ({}, STRING),
        (True, STRING),
        (None, STRING),
        ({"type": "any"}, STRING),
        ({"type": []}, STRING | {"nullable": False}),
        ({"properties": {"a": {}}}, {"type": "OBJECT", "properties": {"a": STRING}}),
        ({"additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        ({"items": {"type": "integer"}}, {"type": "ARRAY", "items": {"type": "INTEGER"}}),
        ({"type": "array"}, {"type": "ARRAY", "items": STRING}),
        ({"type": "array", "items": True, "minItems": 1}, {"type": "ARRAY", "items": STRING}),
        ({"type": "object"}, {"type": "OBJECT"}),
        ({"type": "object", "properties": "odd", "required": ["a"]}, {"type": "OBJECT"}),
    ],
)
def test_every_node_has_a_type(schema: Any, expected: Document) -> None:
    found = reduced(schema)
    assert found.get("type") == expected["type"]
    assert found.get("properties") == expected.get("properties")
    assert found.get("items") == expected.get("items")


@table(
    ("schema", "expected"),
    [
        ({"enum": ["a", "b", "a", ""]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"type": "string", "enum": [""]}, STRING),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"enum": [1, 2]}, {"type": "INTEGER", "description": "(one of: 1,2)"}),
        ({"enum": [1, 2.5]}, {"type": "NUMBER", "description": "(one of: 1,2.5)"}),
        ({"const": True}, {"type": "BOOLEAN", "description": "(one of: true)"}),
        (
            {"type": "integer", "enum": [1], "description": "How many."},
            {"type": "INTEGER", "description": "How many. (one of: 1)"},
        ),
        ({"enum": ["auto", 1]}, {"type": "STRING", "enum": ["auto"]}),
        ({"enum": [None]}, {"type": "STRING", "nullable": True}),
    ],
)
def test_only_strings_have_enums(schema: Document, expected: Document) -> None:
    assert reduced(schema) == expected


@table(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": ["string"]}, STRING),
        ({"type": "null"}, {"type": "STRING", "nullable": True}),
        ({"type": ["null"]}, {"type": "STRING", "nullable": True}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "STRING", "nullable": True}),
        ({"oneOf": [{"type": "integer"}]}, {"type": "INTEGER"}),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, {"type": "STRING", "enum": ["a", "b"]}),
        (
            {"type": ["string", "integer"], "minLength": 2, "minimum": 3},
            {"anyOf": [{"type": "STRING", "minLength": 2}, {"type": "INTEGER", "minimum": 3}]},
        ),
        (
            {"description": "D.", "anyOf": [{"type": "string"}, {"type": "null"}, {"items": {}}]},
            {
                "anyOf": [
                    {"type": "STRING", "description": "D.", "nullable": True},
                    {"type": "ARRAY", "description": "D.", "items": STRING, "nullable": True},
                ]
            },
        ),
        (
            {"anyOf": [{"oneOf": [{"type": "string"}, {"type": "boolean"}]}, {"type": "string"}]},
            {"anyOf": [STRING, {"type": "BOOLEAN"}]},
        ),
        ({"anyOf": [{}, {"type": "string"}]}, STRING),
        ({"anyOf": []}, STRING),
        ({"anyOf": "odd"}, STRING),
        ({"anyOf": [True, 5]}, STRING),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {"type": "ARRAY", "items": {"anyOf": [STRING, {"type": "INTEGER"}]}},
        ),
        (
            {"type": "array", "items": [{"type": "integer"}]},
            {"type": "ARRAY", "items": {"type": "INTEGER"}},
        ),
    ],
)
def test_any_of_has_no_siblings_and_is_simplified(schema: Document, expected: Document) -> None:
    assert reduced(schema) == expected


def test_alternatives_that_differ_only_in_required_stay_distinct() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    properties = {"a": STRING, "b": STRING}
    assert reduced(schema) == {
        "anyOf": [
            {"type": "OBJECT", "properties": properties, "required": ["a"]},
            {"type": "OBJECT", "properties": properties, "required": ["b"]},
        ]
    }


def test_references_are_resolved_and_sibling_keywords_win() -> None:
    schema = {"$ref": "#/$defs/City", "description": "Ours."}
    city = {"type": "string", "description": "A city.", "minLength": 1}
    expected = {"type": "STRING", "description": "Ours.", "minLength": 1}
    assert reduced(schema, City=city) == expected
    chain = {"Town": {"$ref": "#/$defs/City"}, "City": city}
    assert reduced({"$ref": "#/$defs/Town", "description": "Ours."}, **chain) == expected


def test_escaped_names_in_a_reference_are_resolved() -> None:
    assert reduced({"$ref": "#/$defs/a~1b~0c"}, **{"a/b~c": {"type": "boolean"}}) == {
        "type": "BOOLEAN"
    }


@table(
    "reference",
    ["#/$defs/Nobody", "https://elsewhere.test/x", "#/properties/x/type/deep", 5, "", "Nobody"],
)
def test_a_dangling_reference_becomes_a_string(reference: object) -> None:
    assert reduced({"$ref": reference}) == STRING


def test_a_recursive_reference_ends_as_any_object() -> None:
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"items": {"$ref": "#/$defs/Tree"}}},
    }
    assert reduced({"$ref": "#/$defs/Tree"}, Tree=tree) == {
        "type": "OBJECT",
        "properties": {"name": STRING, "kids": {"type": "ARRAY", "items": {"type": "OBJECT"}}},
    }
    assert reduced({"$ref": "#/$defs/A"}, A={"$ref": "#/$defs/A"}) == {"type": "OBJECT"}


def test_a_reference_may_be_used_twice() -> None:
    one = {"$ref": "#/$defs/One"}
    node = reduced({"type": "object", "properties": {"a": one, "b": one}}, One={"type": "integer"})
    assert node["properties"] == {"a": {"type": "INTEGER"}, "b": {"type": "INTEGER"}}
    both = {"allOf": [one, one]}
    assert reduced(both, One={"type": "integer"}) == {"type": "INTEGER"}


def test_all_of_is_merged() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/$defs/Base"},
            {"properties": {"b": {"type": "integer"}, "a": {}}, "required": ["b"]},
            True,
        ],
        "description": "Both.",
    }
    base = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a", "zzz"]}
    assert reduced(schema, Base=base) == {
        "type": "OBJECT",
        "description": "Both.",
        "properties": {"a": {"type": "BOOLEAN"}, "b": {"type": "INTEGER"}},
        "required": ["a", "b"],
    }
    assert reduced({"allOf": "odd", "type": "integer"}) == {"type": "INTEGER"}


def test_required_lists_only_existing_properties() -> None:
    node = reduced({"properties": {"a": {}}, "required": ["b", "a", 5, ["a"]]})
    assert node["required"] == ["a"]
    assert "required" not in reduced({"properties": {"a": {}}, "required": ["b"]})
    assert "required" not in reduced({"properties": {"a": {}}, "required": "a"})


# --- parameters and structured output -------------------------------------------------------------


@pytest.mark.parametrize(
    "schema", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}, {"type": "null"}]
)
def test_a_function_without_parameters_has_none(schema: Document | None) -> None:
    assert reduce_parameters(schema) is None


def test_parameters_without_a_type_are_an_object() -> None:
    assert reduce_parameters({"properties": {"a": {}}, "required": ["a"]}) == {
        "type": "OBJECT",
        "properties": {"a": STRING},
        "required": ["a"],
    }


def test_alternative_parameters_are_united_and_require_what_all_require() -> None:
    schema = {
        "type": "object",
        "properties": {"id": {}},
        "required": ["id"],
        "oneOf": [
            {"properties": {"a": {}, "id": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {}}, "required": ["b"]},
        ],
    }
    assert reduce_parameters(schema) == {
        "type": "OBJECT",
        "properties": {"a": STRING, "id": {"type": "INTEGER"}, "b": STRING},
        "required": ["id"],
    }


def test_parameters_behind_a_reference_are_found() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}}
    assert reduce_parameters(schema) == {"type": "OBJECT", "properties": {"a": {"type": "OBJECT"}}}


def test_structured_output_keeps_the_order_of_properties() -> None:
    schema = {"type": "object", "properties": {"why": {}, "answer": {"properties": {"x": {}}}}}
    assert reduce_response(schema) == {
        "type": "OBJECT",
        "properties": {
            "why": STRING,
            "answer": {"type": "OBJECT", "properties": {"x": STRING}, "propertyOrdering": ["x"]},
        },
        "propertyOrdering": ["why", "answer"],
    }
    assert reduce_response({"type": "array", "items": {"type": "integer"}}) == {
        "type": "ARRAY",
        "items": {"type": "INTEGER"},
    }


# --- any schema -----------------------------------------------------------------------------------


def test_a_schema_does_not_expand_without_limit() -> None:
    def pair(level: int) -> Document:
        inner = {"$ref": f"#/$defs/{level + 1}"}
        return {"properties": {"a": inner, "b": inner}, "allOf": [inner, inner]}

    definitions = {str(level): pair(level) for level in range(64)}
    node = reduced({"$ref": "#/$defs/0"}, **definitions)
    assert len(str(node)) < 1_000_000


def test_a_deep_schema_is_truncated() -> None:
    schema: Document = {"type": "integer"}
    for _ in range(200):
        schema = {"items": {"allOf": [schema]}}
    node, depth = reduced(schema), 0
    while "items" in node:
        node, depth = node["items"], depth + 1
    assert node == STRING
    assert depth < 50


words = st.sampled_from(["string", "integer", "null", "object", "array", "odd", "a", ""])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | words
names = st.sampled_from(
    """
    type enum const anyOf oneOf allOf items prefixItems properties required format minLength
    minimum minItems description nullable $ref additionalProperties title
    """.split()
)
references = st.sampled_from(["#", "#/properties/a", "#/items", "#/$defs/x", "other"])
schemas = st.recursive(
    scalars | st.fixed_dictionaries({"$ref": references}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=4)
        | st.fixed_dictionaries({"properties": st.dictionaries(words, inner, max_size=2)})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3), "type": words})
    ),
    max_leaves=12,
)


@given(schemas)
def test_any_schema_is_reduced_to_a_valid_one(schema: Any) -> None:
    document = schema if isinstance(schema, dict) else {"items": schema}
    assert list(schema_problems(reduce_response(document))) == []
    parameters = reduce_parameters(document)
    assert parameters is None or list(schema_problems(parameters)) == []
