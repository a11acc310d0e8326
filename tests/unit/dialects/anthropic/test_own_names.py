"""Names that Messages has for members of the canonical request."""

from __future__ import annotations

from typing import Any

from antiphon.dialects.anthropic.client import MESSAGES
from tests.support.tables import table


def name(path: str, **members: Any) -> str:
    messages = [{"role": "user", "content": "hi"}]
    document = {"model": "m", "max_tokens": 5, "messages": messages, **members}
    return MESSAGES.own_name(path, MESSAGES.parse(document))


@table(
    ("path", "own"),
    [
        ("input", "messages"),
        ("input.content", "messages"),
        ("history[3].content", "messages"),
        ("input[7]", "messages"),
        ("instructions", "system"),
        ("input_tokens", "input_tokens"),
        ("max_output_tokens", "max_tokens"),
        ("stop", "stop_sequences"),
        ("text.format.type", "output_config.format.type"),
        ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
        ("context_edits", "context_management.edits"),
        ("previous_response_id", "thread.previous_message_id"),
        ("prefill", "messages.0"),
        ("call_id", "tool_use_id"),
        ("temperature", "temperature"),
        ("reasoning.effort", "thinking"),
        ("tools[0].name", "tools"),
    ],
)
def test_members_have_other_names(path: str, own: str) -> None:
    assert name(path) == own


def test_the_name_is_the_one_that_the_client_has_used() -> None:
    assert name("reasoning.effort", output_config={"effort": "low"}) == "output_config.effort"
    form = {"type": "json_schema", "schema": {}}
    assert name("text.format.schema", output_format=form) == "output_format.schema"


def test_an_item_is_the_block_that_it_was_read_from() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "see"}, result]},
    ]
    system = [{"type": "text", "text": "Be kind."}]
    found = [name(f"input[{at}].call_id", messages=messages, system=system) for at in range(4)]
    assert found == [
        "system.0",
        "messages.0.content",
        "messages.1.content.0",
        "messages.1.content.1",
    ]
    assert name("input[0]", messages=messages, system="Be kind.") == "system"


def test_a_tool_is_found_among_tools_and_servers() -> None:
    server = {"type": "url", "url": "https://example.org", "name": "docs"}
    members = {
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "mcp_servers": [
            {**server, "name": "off", "tool_configuration": {"enabled": False}},
            server,
        ],
    }
    expected = {
        "tools[0]": "tools.0",
        "tools[0].parameters": "tools.0.input_schema",
        "tools[0].name": "tools.0.name",
        "tools[1]": "mcp_servers.1",
        "tools[1].server_url": "mcp_servers.1.url",
        "tools[1].require_approval": "mcp_servers.1.require_approval",
    }
    assert {path: name(path, **members) for path in expected} == expected
