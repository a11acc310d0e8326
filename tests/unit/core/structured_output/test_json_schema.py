"""Hostile JSON Schemas, and the limits of a validation."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from antiphon.core.structured_output.contract import OutputContract, check_schema
from antiphon.core.structured_output.json_schema import MAX_BYTES, JSONSchema
from antiphon.errors import SchemaTooComplex
from tests.support.tables import table


def doubled(word: str, count: int) -> dict[str, Any]:
    """Schemas of which each refers to the next one twice."""
    defs = {f"d{i}": {word: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{count}": {"type": "string"}}}


ITSELF = {"items": {"$ref": "#"}}
HOSTILE: Mapping[str, tuple[Any, Any]] = {
    "all, doubled": (doubled("allOf", 60), "x"),
    "any, doubled": (doubled("anyOf", 60), 1),
    "one, doubled": (doubled("oneOf", 60), 1),
    "doubled by every level of the answer": (
        {"allOf": [ITSELF, ITSELF]},
        msgspec.json.decode("[" * 90 + "]" * 90),
    ),
    "a loop": ({"$ref": "#"}, 1),
    "two loops": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
    "a pattern that tries everything": (
        {"items": {"pattern": r"^(?:(a|aa)+)\\1?b$"}},
        ["a" * 60] * 2000,
    ),
    "a pattern of patterns": ({"pattern": "((a{1000}){1000}){1000}"}, "a"),
    "many wrong values": ({"items": {"type": "string"}}, [1] * 45_000),
    "far too many wrong values": ({"items": {"type": "string"}}, [1] * 400_000),
    "many choices for many values": (
        {"items": {"enum": [f"word{i}" for i in range(30_000)]}},
        ["word"] * 30_000,
    ),
    "a huge schema": ({"enum": [f"word{i}" for i in range(300_000)]}, "x"),
}
_MOST_S = 3.0
_MOST_MB = 400
_SCRIPT = f"""
import json, re, sys, time
from pathlib import Path
from antiphon.core.structured_output.contract import OutputContract, check_schema
for name, (schema, value) in json.load(sys.stdin).items():
    text = json.dumps(value)
    began = time.process_time()
    if check_schema(schema) is None:
        contract = OutputContract(requested="json_schema", schema=schema, strict=True)
        [*contract.find_violations(text)]
    took = time.process_time() - began
    peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
    assert took < {_MOST_S} and peak < {_MOST_MB}, (name, took, peak)
    print(name, flush=True)
"""


def test_no_schema_blocks_or_crashes_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(HOSTILE),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, [*HOSTILE]), done.stderr


def strict(schema: Mapping[str, Any]) -> OutputContract:
    return OutputContract(requested="json_schema", schema=schema, strict=True)


def keywords(schema: Mapping[str, Any], value: Any) -> list[str]:
    return [each.keyword for each in strict(schema).find_violations(json.dumps(value))]


def test_a_validation_of_too_many_steps_is_a_violation_and_not_started() -> None:
    assert keywords(doubled("allOf", 60), "x") == ["size"]
    assert keywords(doubled("allOf", 3), 1) == ["type"] * 8


def test_only_the_first_error_of_a_large_value_is_listed() -> None:
    schema = {"items": {"type": "string"}}
    assert keywords(schema, [1] * 1000) == ["type"] * 1000
    assert keywords(schema, [1] * 30_000) == ["type"]
    assert keywords(schema, ["a"] * 30_000) == []


def test_a_schema_that_is_too_large_cannot_be_used() -> None:
    assert "larger" in str(check_schema({"const": "a" * MAX_BYTES}))


@table(
    "schema",
    [
        {"$dynamicAnchor": "x", "items": {"$dynamicRef": "#x"}},
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "items": {"$recursiveRef": "#"},
        },
        {"$defs": {"a": {"$id": "urn:a", "items": {"$ref": "#/$defs/b"}, "$defs": {"b": {}}}}},
        {"$ref": "#/$defs/%61", "$defs": {"a": {}, "%61": {}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_a_schema_with_an_unresolvable_reference_is_rejected(schema: Any) -> None:
    assert check_schema(schema) is not None


LIST: dict[str, Any] = {"type": "array", "maxItems": 1}
FOLLOWED: Mapping[str, Any] = {
    "itself": {**LIST, "items": {"$ref": "#"}},
    "a definition": {"$ref": "#/$defs/l", "$defs": {"l": {**LIST, "items": {"$ref": "#/$defs/l"}}}},
    "an anchor": {**LIST, "$anchor": "l", "items": {"$ref": "#l"}},
    "a name": {"allOf": [{**LIST, "$id": "urn:l", "items": {"$ref": "urn:l"}}]},
    "a place in a named one": {
        "$id": "urn:l",
        "$ref": "urn:l#/$defs/l",
        "$defs": {"l": {**LIST, "items": {"$ref": "urn:l#/$defs/l"}}},
    },
    "an old name": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "urn:l",
        **LIST,
        "items": {"$ref": "urn:l"},
    },
    "an escaped place": {"$ref": "#/$defs/a~1b~0/allOf/0", "$defs": {"a/b~": {"allOf": [LIST]}}},
    "no more than its name": {**LIST, "properties": {"$ref": {"type": "string"}}},
    "data": {**LIST, "default": {"$id": "urn:x"}, "examples": [{"$ref": "urn:nowhere"}]},
}


@table("schema", FOLLOWED.values(), ids=FOLLOWED)
def test_references_are_resolved(schema: Any) -> None:
    assert check_schema(schema) is None
    assert keywords(schema, [[]] if "data" in schema else []) == []
    assert keywords(schema, [[], []]) == ["maxItems"]


EVERYWHERE = {
    "properties": {"a": {"type": "string"}},
    "patternProperties": {"^b": {"pattern": "c"}},
    "additionalProperties": {"prefixItems": [{"type": "string"}], "items": {"enum": [1]}},
    "required": ["a"],
    "not": {"required": ["z"]},
    "if": {"required": ["a"]},
    "then": {"dependentSchemas": {"a": {"maxProperties": 9}}},
}


def test_the_steps_of_a_check_are_counted_and_the_check_is_made() -> None:
    schema = JSONSchema(msgspec.json.encode(EVERYWHERE))
    assert [*schema.errors({"a": "x", "b": "c", "d": ["y", 1]})] == []
    assert len([*schema.errors({"a": 1, "b": "d", "d": [2, 3]})]) == 4
    assert len([*schema.errors({"a": "x", "b": "c", "z": []})]) == 1


def test_old_lists_of_items_are_counted_as_well() -> None:
    old = "http://json-schema.org/draft-07/schema#"
    schema = JSONSchema(msgspec.json.encode({"$schema": old, "items": [{"type": "string"}]}))
    assert [*schema.errors(["a", 1])] == []
    assert len([*schema.errors([1, 1])]) == 1


def test_an_invalid_array_index_in_a_reference_is_not_resolved() -> None:
    with pytest.raises((ValueError, jsonschema_rs.ValidationError)):
        JSONSchema(b'{"$ref": "#/allOf/7", "allOf": [{}]}')


def test_patterns_for_names_count_for_each_name() -> None:
    patterns: dict[str, Any] = {f"^a{i}": {} for i in range(200)}
    schema = JSONSchema(msgspec.json.encode({"patternProperties": patterns}))
    assert [*schema.errors({"a1": 1})] == []
    with pytest.raises(SchemaTooComplex):
        schema.errors({f"b{i}": 1 for i in range(200)})
