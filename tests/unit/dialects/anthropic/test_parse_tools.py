"""Tools of a Messages request as canonical tools."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.dialects.anthropic.parse_tools import read_tool_choice, read_tools
from antiphon.errors import InvalidRequest
from tests.support.tables import table

Document = dict[str, Any]
SCHEMA = {"type": "object", "properties": {}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


def read(*tools: Any, messages: Any = ()) -> tuple[Document, ...]:
    return read_tools(list(tools), list(messages))[0]


def whole(tool: Document) -> Document:
    return {"extra": {"format": "messages", "members": tool}}


def refused(call: Any, *arguments: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        call(*arguments)
    return caught.value.message


@table("kind", [{}, {"type": "custom"}, {"type": None}])
def test_a_tool_with_a_schema_is_a_function(kind: Document) -> None:
    tool = {
        **kind,
        "name": "f",
        "description": "d",
        "input_schema": SCHEMA,
        "strict": True,
        "cache_control": {"type": "ephemeral"},
        "input_examples": [],
    }
    assert read(tool) == (
        {
            "type": "function",
            "name": "f",
            "description": "d",
            "parameters": SCHEMA,
            "strict": True,
            "cache_control": {"type": "ephemeral"},
            "extra": {"format": "messages", "members": {"input_examples": []}},
        },
    )
    assert read({"name": "f"}) == ({"type": "function", "name": "f", "parameters": None},)


def test_a_deferred_tool_knows_whether_a_result_refers_to_it() -> None:
    names = ["b", "a", "b"]
    content = [{"type": "tool_reference", "tool_name": name} for name in names]
    result = {"type": "tool_result", "content": [*content, {"type": "text"}]}
    messages = [{"role": "user", "content": [result, 7]}, {"role": "user", "content": "hi"}, 7]
    tools = [{"name": name, "defer_loading": True} for name in "abc"]
    found = read(*tools, {"name": "d", "defer_loading": False}, messages=messages)
    assert [tool.get("found") for tool in found] == [2, 1, 0, None]


@table(
    ("kind", "name", "member"),
    [
        ("bash_20250124", "bash", "command"),
        ("text_editor_20250728", "str_replace_based_edit_tool", "old_str"),
        ("computer_20250124", "computer", "action"),
        ("memory_20250818", "memory", "path"),
    ],
)
def test_a_tool_that_the_client_runs_is_a_function_with_its_schema(
    kind: str, name: str, member: str
) -> None:
    tool = {"type": kind, "name": name}
    [function] = read(tool)
    assert (function["type"], function["name"]) == ("function", name)
    assert member in function["parameters"]["properties"]
    assert function["extra"] == whole(tool)["extra"]


def test_a_web_search_has_its_restrictions_and_its_limit() -> None:
    tool = {**SEARCH, "allowed_domains": ["a.test"], "user_location": {"city": "Bern"}}
    [search], limit = read_tools([tool], [])
    assert limit == 8
    assert search == {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.test"]},
        "user_location": {"city": "Bern"},
        **whole(tool),
    }
    bare = {"type": "web_search_20250305", "name": "web_search"}
    assert read_tools([bare], []) == (({"type": "web_search", **whole(bare)},), None)


def test_any_other_tool_keeps_its_type() -> None:
    tool = {"type": "code_execution_20250825", "name": "code_execution"}
    assert read(tool) == ({**tool, **whole(tool)},)
    odd = {"type": "bash_20250124"}
    assert read(odd) == ({**odd, **whole(odd)},)


@table(
    ("tools", "problem"),
    [
        ({}, "tools: Input should be a valid list, not an object"),
        (["f"], "tools.0: Input should be an object, not a string"),
        ([{"type": 7}], "tools.0.type: Input should be a valid string, not an integer"),
        ([{"description": "d"}], "tools.0.name: Field required"),
        (
            [{"name": "f", "input_schema": "s"}],
            "tools.0.input_schema: Input should be a valid dictionary, not a string",
        ),
    ],
)
def test_an_invalid_tool_is_refused(tools: Any, problem: str) -> None:
    assert refused(read_tools, tools, []) == problem


# --- the choice -----------------------------------------------------------------------------------


@table(
    ("choice", "mode"),
    [
        (None, "auto"),
        ({"type": "auto"}, "auto"),
        ({"type": "any", "disable_parallel_tool_use": True}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "name": "f"}),
        ({"type": "tool", "name": "web_search"}, {"type": "web_search"}),
    ],
)
def test_a_choice_is_read(choice: Any, mode: Any) -> None:
    assert read_tool_choice(choice, read({"name": "f"}, SEARCH)) == mode


def test_an_invalid_choice_is_refused() -> None:
    expected = "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"
    assert refused(read_tool_choice, {"type": "some"}, ()) == expected
    assert refused(read_tool_choice, {"type": []}, ()) == expected
    assert refused(read_tool_choice, {"type": "tool"}, ()) == "tool_choice.name: Field required"
