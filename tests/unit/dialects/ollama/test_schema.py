"""JSON Schema of tools, corrected for Ollama."""

from __future__ import annotations

from antiphon.core.tools.declaration import ToolDeclaration
from tests.support.dialect_samples.ollama_history import body


def test_keywords_of_a_wrong_type_are_dropped() -> None:
    given = {
        "type": ["object", "null"],
        "properties": {
            "any": True,
            "some": {"type": ["string", None], "description": 1, "enum": ["a", 1]},
            "deep": {"anyOf": [{"type": "string"}, False], "properties": {"x": 1}, "minimum": 0},
            "odd": {"type": {}, "required": "x"},
        },
        "required": ["any", 1],
        "$defs": {"a": True},
    }
    tool = ToolDeclaration(name="look", parameters=given)
    [sent] = body(declarations=(tool,))["tools"]
    assert sent["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "any": {},
            "some": {"type": ["string"], "enum": ["a", 1]},
            "deep": {"anyOf": [{"type": "string"}, {}], "properties": {"x": {}}, "minimum": 0},
            "odd": {},
        },
        "required": ["any"],
        "$defs": {"a": True},
    }
