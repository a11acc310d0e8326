"""The request for a summary: the whole history, a prompt, a format, and no tools."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.compaction.request_summary import (
    FORMAT,
    PROMPT,
    find_open_calls,
    request_summary,
    with_trigger,
)
from antiphon.core.request import Request
from antiphon.core.structured_output.contract import check_schema
from antiphon.dialects.responses.parse import parse_request
from antiphon.errors import InvalidRequest

HELLO = {"role": "user", "content": "Hello?"}
TRIGGER = {"type": "compaction_trigger"}
BODY: dict[str, Any] = {
    "model": "m",
    "instructions": "Be brief.",
    "reasoning": {"effort": "low"},
    "tools": [{"type": "function", "name": "f"}],
    "tool_choice": "required",
    "text": {"format": {"type": "json_object"}},
    "max_output_tokens": 100,
    "previous_response_id": "resp_1",
    "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    "stream": True,
}


def request(*items: dict[str, Any], **body: Any) -> Request:
    return parse_request({**BODY, "input": list(items), **body})


def test_the_prompt_takes_the_place_of_the_trigger_and_no_tool_is_offered() -> None:
    summary, task = request_summary(request(HELLO, TRIGGER), [])
    hello, prompt, update = summary.input
    assert hello["content"] == "Hello?"
    assert prompt["content"][0]["text"] == PROMPT
    assert update == {"type": "configuration_update", "text": {"format": FORMAT}}
    assert (summary.tools, summary.tool_choice, summary.max_output_tokens) == ((), "auto", None)
    assert summary.context_management == ()
    assert task.open_calls == ()


def test_what_the_client_decides_about_the_call_itself_is_kept() -> None:
    summary, _ = request_summary(request(HELLO, TRIGGER, frobnicate=1), [])
    assert summary.unknown == ("frobnicate",)
    assert (summary.instructions, summary.effort, summary.stream) == ("Be brief.", "low", True)
    assert summary.raw.keys() == {"model", "instructions", "reasoning"}


def test_a_history_alone_can_be_compacted() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    summary, task = request_summary(request(TRIGGER), [HELLO, call])
    assert summary.input[0]["content"][0]["text"] == PROMPT
    assert task.open_calls == ("f (c1): {}",)


def test_nothing_to_compact_is_an_error() -> None:
    with pytest.raises(InvalidRequest, match="nothing to compact") as caught:
        request_summary(request(TRIGGER), [])
    assert (caught.value.param, caught.value.status) == ("input", 400)


def test_a_request_with_a_trigger_holds_the_whole_history_and_stores_nothing() -> None:
    whole = with_trigger(request(HELLO, background=True), [{"role": "user", "content": "First."}])
    assert [item.get("content") for item in whole.input] == ["First.", "Hello?", None]
    assert whole.input[-1] == TRIGGER
    assert (whole.previous_response_id, whole.stream, whole.store) == (None, False, False)
    assert (whole.background, whole.context_management) == (False, ())


def test_the_format_is_a_supported_schema_that_requires_every_field() -> None:
    schema = FORMAT["schema"]
    assert check_schema(schema) is None
    assert schema["required"] == list(schema["properties"])
    assert all(f"- {name}: " in PROMPT for name in schema["properties"])


def test_calls_without_an_output_are_described() -> None:
    items: list[dict[str, Any]] = [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x" * 300},
        {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}},
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "computer_call", "call_id": "c4"},
        {"role": "user", "call_id": "c5"},
        {"type": "reasoning", "call_id": "c6"},
    ]
    assert find_open_calls(items) == (
        f"patch (c2): {'x' * 200}…",
        "shell_call (c3): {'commands': ['ls']}",
        "computer_call (c4): ",
    )
