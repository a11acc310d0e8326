"""Members of a wrong type: an error that names them, and nothing that is left out silently."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.items import Document
from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.errors import InvalidRequest
from tests.support.tables import table

HI: list[Document] = [{"role": "user", "content": "Hi"}]
IMAGE: Document = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def problem_of(**members: Any) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        parse_messages({"model": "m", "max_tokens": 100, "messages": HI, **members})
    return caught.value.message, caught.value.param


@table(
    ("members", "param", "problem"),
    [
        ({"stream": "true"}, "stream", "a valid boolean, not a string"),
        ({"metadata": "u"}, "metadata", "a valid dictionary, not a string"),
        ({"metadata": {"user_id": 7}}, "metadata.user_id", "a valid string, not an integer"),
        ({"service_tier": ["auto"]}, "service_tier", "a valid string, not an array"),
        ({"thinking": True}, "thinking", "a valid dictionary, not a boolean"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": True}},
            "thinking.budget_tokens",
            "a valid integer, not a boolean",
        ),
        (
            {"output_config": {"effort": 3}},
            "output_config.effort",
            "a valid string, not an integer",
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": "{}"}}},
            "output_config.format.schema",
            "a valid dictionary, not a string",
        ),
        ({"output_format": "json"}, "output_format", "a valid dictionary, not a string"),
        ({"tool_choice": "auto"}, "tool_choice", "a valid dictionary, not a string"),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": "yes"}},
            "tool_choice.disable_parallel_tool_use",
            "a valid boolean, not a string",
        ),
        (
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}, 7]}},
            "context_management.edits.1",
            "a valid dictionary, not an integer",
        ),
        ({"cache_control": "ephemeral"}, "cache_control", "a valid dictionary, not a string"),
        ({"thread": "x"}, "thread", "a valid dictionary, not a string"),
        ({"system": {}}, "system", "a string or a list, not an object"),
        ({"system": 0}, "system", "a string or a list, not an integer"),
    ],
)
def test_a_member_of_a_wrong_type_is_named(members: Document, param: str, problem: str) -> None:
    assert problem_of(**members) == (f"{param}: Input should be {problem}", param)


@table(
    ("tool", "param", "problem"),
    [
        ({"name": "f", "description": 1}, "description", "a valid string, not an integer"),
        ({"name": "f", "strict": "yes"}, "strict", "a valid boolean, not a string"),
        ({"name": "f", "defer_loading": 1}, "defer_loading", "a valid boolean, not an integer"),
        (
            {"type": "web_search_20250305", "name": "web_search", "max_uses": "2"},
            "max_uses",
            "a valid integer, not a string",
        ),
        (
            {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.org", 1]},
            "allowed_domains.1",
            "a valid string, not an integer",
        ),
    ],
)
def test_a_member_of_a_tool_of_a_wrong_type_is_named(
    tool: Document, param: str, problem: str
) -> None:
    param = f"tools.0.{param}"
    assert problem_of(tools=[tool]) == (f"{param}: Input should be {problem}", param)


@table(
    ("block", "param", "problem"),
    [
        ({"type": "thinking", "thinking": ["a"]}, "thinking", "a valid string, not an array"),
        (
            {"type": "thinking", "thinking": "a", "signature": {}},
            "signature",
            "a valid string, not an object",
        ),
        ({"type": "redacted_thinking", "data": 1}, "data", "a valid string, not an integer"),
        ({"type": "image", "source": "a.png"}, "source", "a valid dictionary, not a string"),
        (
            {"type": "image", "source": {"type": "base64", "data": 5}},
            "source.data",
            "a valid string, not an integer",
        ),
        (
            {"type": "document", "source": {"type": "text", "data": "a"}, "title": 5},
            "title",
            "a valid string, not an integer",
        ),
        (
            {"type": "tool_result", "tool_use_id": "a", "is_error": "no"},
            "is_error",
            "a valid boolean, not a string",
        ),
        (
            {"type": "tool_result", "tool_use_id": "a", "content": {"text": "a"}},
            "content",
            "a string or a list",
        ),
        (
            {"type": "tool_result", "tool_use_id": "a", "content": [{**IMAGE, "source": 1}]},
            "content.0.source",
            "a valid dictionary, not an integer",
        ),
        ({"type": "tool_use", "id": "a", "name": 5}, "name", "a valid string, not an integer"),
        ({"type": "text", "text": 5}, "text", "a valid string, not an integer"),
    ],
)
def test_a_member_of_a_block_of_a_wrong_type_is_named(
    block: Document, param: str, problem: str
) -> None:
    param = f"messages.0.content.0.{param}"
    messages = [{"role": "user", "content": [block]}]
    assert problem_of(messages=messages) == (f"{param}: Input should be {problem}", param)


def test_null_is_no_member_and_members_that_are_not_read_have_any_type() -> None:
    image = {**IMAGE, "citations": 5}
    request = parse_messages(
        {
            "model": "m",
            "messages": [{"role": "user", "content": [image]}],
            "system": None,
            "metadata": {"user_id": None, "more": 5},
            "tools": [{"name": "f", "description": None, "input_examples": 5}],
        }
    )
    assert (request.user, len(request.input), len(request.tools)) == (None, 1, 1)
