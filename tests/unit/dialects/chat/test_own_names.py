"""Names that Chat Completions has for members of the canonical request."""

from __future__ import annotations

from typing import Any

from antiphon.dialects.chat.client import CHAT
from tests.support.tables import table


def name(path: str, **members: Any) -> str:
    messages = [{"role": "user", "content": "hi"}]
    request = CHAT.parse({"model": "m", "messages": messages, **members})
    return CHAT.own_name(path, request)


@table(
    ("path", "own"),
    [
        ("input", "messages"),
        ("input[3].content[0]", "messages"),
        ("input.content", "messages"),
        ("history[3]", "messages"),
        ("instructions", "messages"),
        ("input_tokens", "input_tokens"),
        ("text.format", "response_format"),
        ("text.format.schema", "response_format.json_schema.schema"),
        ("text.verbosity", "verbosity"),
        ("include", "logprobs"),
        ("max_output_tokens", "max_completion_tokens"),
        ("reasoning.effort", "reasoning_effort"),
        ("tool_choice", "tool_choice"),
        ("temperature", "temperature"),
        ("tools", "tools"),
    ],
)
def test_members_have_other_names(path: str, own: str) -> None:
    assert name(path) == own


def test_the_name_is_the_one_that_the_client_has_used() -> None:
    assert name("max_output_tokens", max_tokens=5) == "max_tokens"
    assert name("max_output_tokens", max_tokens=5, max_completion_tokens=5) == (
        "max_completion_tokens"
    )
    assert name("reasoning.effort", reasoning={"effort": "low"}) == "reasoning.effort"
    functions = [{"name": "f"}]
    assert name("tool_choice", functions=functions, function_call="auto") == "function_call"


def test_a_tool_is_found_among_tools_functions_and_the_search() -> None:
    members = {
        "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "x_own"}],
        "functions": [{"name": "g"}],
        "web_search_options": {},
    }
    expected = {
        "tools[0]": "tools[0]",
        "tools[0].type": "tools[0].type",
        "tools[0].parameters": "tools[0].function.parameters",
        "tools[1].name": "tools[1].name",
        "tools[2].name": "functions[0].name",
        "tools[2].type": "functions[0]",
        "tools[3]": "web_search_options",
        "tools[3].filters": "web_search_options.filters",
    }
    assert {path: name(path, **members) for path in expected} == expected
