"""Parsing of Chat Completions requests: members, messages, tools, and the errors of bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.items import Document
from antiphon.core.request import Request, Thinking
from antiphon.dialects.chat.client_call_ids import SealedStates, write_call_id
from antiphon.dialects.chat.parse import parse_chat
from antiphon.dialects.chat.parse_messages import ROLES
from antiphon.errors import InvalidRequest
from tests.support.tables import table

HELLO = {"role": "user", "content": "hello"}


def parse(*messages: Any, **members: Any) -> Request:
    return parse_chat({"model": "m", "messages": list(messages) or [HELLO], **members})


def refuse(*messages: Any, **members: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(*messages, **members)
    return caught.value


# --- messages -------------------------------------------------------------------------------------


def test_messages_of_clients_become_messages() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = parse(
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": parts},
        {"role": "user", "content": None},
    )
    assert request.input == (
        {"type": "message", "role": "system", "content": "be kind"},
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        },
        {"type": "message", "role": "user", "content": ""},
    )


@table(
    ("part", "read"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
            {"type": "input_image", "image_url": "data:x", "detail": "low"},
        ),
        (
            {"type": "image_url", "image_url": "https://a/b.png"},
            {"type": "input_image", "image_url": "https://a/b.png"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}},
            {"type": "input_file", "filename": "a.pdf", "file_data": "AA=="},
        ),
        ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "refusal": "no"}),
        ({"type": "input_text", "text": "a"}, {"type": "input_text", "text": "a"}),
    ],
)
def test_a_part_of_a_user_message_keeps_what_it_says(part: Any, read: Any) -> None:
    [message] = parse({"role": "user", "content": [part]}).input
    assert message["content"] == [read]


def test_a_message_of_the_assistant_becomes_reasoning_text_and_calls_in_this_order() -> None:
    function = {"name": "ls", "arguments": '{"a": 1}'}
    custom = {"name": "patch", "input": "x"}
    items = parse(
        {
            "role": "assistant",
            "content": "I look.",
            "refusal": "not that",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"id": "c2", "type": "custom", "custom": custom},
                {"id": "c3", "function": {"name": "pwd"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "out"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "done"}]},
    ).input
    assert items == (
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "I look."},
                {"type": "refusal", "refusal": "not that"},
            ],
        },
        {"type": "function_call", "call_id": "c1", **function},
        {"type": "custom_tool_call", "call_id": "c2", **custom},
        {"type": "function_call", "call_id": "c3", "name": "pwd", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "out"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "done"}],
        },
    )


def test_parts_of_an_assistant_message_are_output() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    [message] = parse({"role": "assistant", "content": parts}).input
    assert [part["type"] for part in message["content"]] == ["output_text", "refusal"]
    assert parse({"role": "assistant", "content": ""}, HELLO).input[0]["role"] == "user"


def test_sealed_reasoning_needs_no_text() -> None:
    details = [{"type": "reasoning.encrypted", "data": "ap2.one"}]
    [item] = parse({"role": "assistant", "content": "", "reasoning_details": details}).input
    assert item == {"type": "reasoning", "summary": [], "encrypted_content": "ap2.one"}


def test_sealed_reasoning_comes_back_from_reasoning_details() -> None:
    details = [
        {"type": "reasoning.text", "text": "hm"},
        {"type": "reasoning.encrypted", "data": "ap2.one"},
        {"type": "reasoning.encrypted", "data": "ap2.two"},
    ]
    first, second = parse(
        {"role": "assistant", "reasoning": "hm", "reasoning_details": details}
    ).input
    assert first["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert (first["encrypted_content"], second["encrypted_content"]) == ("ap2.one", "ap2.two")


def test_state_within_the_id_of_a_call_stands_in_front_of_this_call() -> None:
    """The list beside the message has the same state, and not its place."""
    call_id = write_call_id("up_1", "fc_1", SealedStates(before=("ap2.one",)))
    message: Document = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": call_id, "type": "function", "function": {"name": "ls"}}],
    }
    sealed = {"type": "reasoning.encrypted", "data": "ap2.one"}
    items = parse({**message, "reasoning_details": [sealed]}).input
    assert [item["type"] for item in items] == ["message", "reasoning", "function_call"]
    more = {"type": "reasoning.encrypted", "data": "ap2.two"}
    items = parse({**message, "reasoning_details": [sealed, more]}).input
    assert [item["type"] for item in items] == [
        "reasoning",
        "reasoning",
        "message",
        "function_call",
    ]


def test_calls_of_older_clients_find_their_results_by_name() -> None:
    items = parse(
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "out"},
    ).input
    assert [item["type"] for item in items] == ["function_call", "function_call_output"]
    assert items[0]["call_id"] == items[1]["call_id"]
    error = refuse({"role": "function", "name": "ls", "content": "out"})
    assert error.param == "messages[0]"


def test_an_unknown_role_is_answered_with_the_known_ones() -> None:
    error = refuse({"role": "usr", "content": "hi"})
    assert all(repr(role) in error.message for role in ROLES)
    assert "Did you mean 'user'?" in error.message


# --- tools ----------------------------------------------------------------------------------------


SERVER: dict[str, Any] = {"type": "mcp", "server_label": "a", "require_approval": "never"}


def test_a_server_that_needs_no_approval_is_a_tool() -> None:
    nested = {**SERVER, "allowed_tools": ["read"], "mcp": {"headers": "x"}}
    assert parse(tools=[nested]).tools == (nested,)


def test_tools_are_flattened_and_keep_their_members() -> None:
    grammar = {"definition": "start: /a/", "syntax": "lark"}
    request = parse(
        tools=[
            {"type": "function", "function": {"name": "ls", "parameters": {}, "strict": True}},
            {
                "type": "custom",
                "custom": {"name": "p", "format": {"type": "grammar", "grammar": grammar}},
            },
            {"type": "custom", "custom": {"name": "q", "format": {"type": "text"}}},
            {"type": "custom", "custom": {"name": "r", "format": None}},
            {"type": "web_search"},
        ],
        functions=[{"name": "old", "description": "d"}],
        web_search_options={
            "search_context_size": "low",
            "user_location": {"type": "approximate", "approximate": {"city": "Oslo"}},
        },
    )
    assert request.tools == (
        {"type": "function", "name": "ls", "parameters": {}, "strict": True},
        {"type": "custom", "name": "p", "format": {"type": "grammar", **grammar}},
        {"type": "custom", "name": "q", "format": {"type": "text"}},
        {"type": "custom", "name": "r", "format": None},
        {"type": "web_search"},
        {"type": "function", "name": "old", "description": "d"},
        {
            "type": "web_search",
            "search_context_size": "low",
            "user_location": {"type": "approximate", "city": "Oslo"},
        },
    )
    assert parse(web_search_options={}).tools == ({"type": "web_search"},)


def test_a_client_that_sends_functions_gets_one_call_at_a_time() -> None:
    functions = [{"name": "old"}]
    assert parse(functions=functions).parallel_tool_calls is False
    newer = [{"type": "function", "function": {"name": "new"}}]
    assert parse(functions=functions, tools=newer).parallel_tool_calls is None


@table(
    ("members", "choice"),
    [
        ({}, "auto"),
        ({"tool_choice": "required"}, "required"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "ls"}}},
            {"type": "function", "name": "ls"},
        ),
        (
            {"tool_choice": {"type": "custom", "custom": {"name": "p"}}},
            {"type": "custom", "name": "p"},
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "auto",
                        "tools": [
                            {"type": "function", "function": {"name": "ls"}},
                            {"type": "web_search"},
                        ],
                    },
                }
            },
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "ls"}, {"type": "web_search"}],
            },
        ),
        ({"function_call": "none"}, "none"),
        ({"function_call": {"name": "ls"}}, {"type": "function", "name": "ls"}),
    ],
)
def test_the_tool_choice_is_that_of_the_client(members: Any, choice: Any) -> None:
    assert parse(**members).tool_choice == choice


# --- other members --------------------------------------------------------------------------------


def test_members_with_the_same_meaning_keep_their_values() -> None:
    members: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_usage": True},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "seed": 7,
        "logit_bias": {"50256": -100.0},
        "top_logprobs": 2,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "verbosity": "low",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "user": "u",
    }
    request = parse(**members)
    assert {name: getattr(request, name) for name in members} == members


@table(
    ("members", "field", "value"),
    [
        ({"stop": "END"}, "stop", ("END",)),
        ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        ({"max_tokens": 5}, "max_output_tokens", 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, "max_output_tokens", 7),
        ({"reasoning_effort": "low"}, "effort", "low"),
        ({"reasoning": {"effort": "high"}}, "effort", "high"),
        ({"reasoning": {"enabled": False}}, "effort", "none"),
        ({"reasoning": {"max_tokens": 2048}}, "effort", "low"),
        ({"reasoning": {"max_tokens": 2048, "effort": "high"}}, "effort", "high"),
        (
            {"reasoning": {"max_tokens": 2048}},
            "thinking",
            Thinking(mode="enabled", budget_tokens=2048),
        ),
        ({"reasoning": {"max_tokens": 0}}, "thinking", None),
        ({"reasoning": {"max_tokens": 2048, "enabled": False}}, "thinking", None),
        ({"logprobs": True}, "include", {"message.output_text.logprobs"}),
        ({"logprobs": False}, "include", set()),
        ({"web_search_options": {"user_location": 1}}, "tools", ({"type": "web_search"},)),
        ({"store": True}, "store", True),
        ({}, "store", False),
        ({}, "text_format", {"type": "text"}),
        ({"response_format": {"type": "json_object"}}, "text_format", {"type": "json_object"}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}, "strict": True},
                }
            },
            "text_format",
            {"type": "json_schema", "name": "n", "schema": {}, "strict": True},
        ),
        ({"n": 1, "modalities": ["text"], "surprise": 1}, "unknown", ("surprise",)),
        ({"temperature": None}, "temperature", None),
    ],
)
def test_a_member_becomes_a_field_of_the_canonical_request(
    members: Any, field: str, value: Any
) -> None:
    assert getattr(parse(**members), field) == value


@table(
    ("body", "param"),
    [
        ({"messages": [HELLO]}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": [{"content": "x"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "owner"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "video"}]}]},
            "messages[0].content[0].type",
        ),
        ({"model": "m", "messages": [{"role": "tool"}]}, "messages[0].tool_call_id"),
        (
            {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{}]}]},
            "messages[0].tool_calls[0].id",
        ),
        (
            {
                "model": "m",
                "messages": [
                    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}
                ],
            },
            "messages[0].tool_calls[0].function",
        ),
        ({"model": "m", "messages": [HELLO], "n": 2}, "n"),
        ({"model": "m", "messages": [HELLO], "modalities": ["text", "audio"]}, "modalities"),
        ({"model": "m", "messages": [HELLO], "tools": [{"type": "function"}]}, "tools[0].function"),
        ({"model": "m", "messages": [HELLO], "tools": [{"type": "mcp"}]}, "tools[0].server_label"),
        (
            {"model": "m", "messages": [HELLO], "tools": [{"type": "mcp", "server_label": "a"}]},
            "tools[0].require_approval",
        ),
        (
            {"model": "m", "messages": [HELLO], "tools": [{**SERVER, "require_approval": {}}]},
            "tools[0].require_approval",
        ),
        (
            {"model": "m", "messages": [HELLO], "tools": [{**SERVER, "headers": "x"}]},
            "tools[0].headers",
        ),
        ({"model": "m", "messages": [HELLO], "max_tokens": 0}, "max_tokens"),
        ({"model": "m", "messages": [HELLO], "reasoning": "much"}, "reasoning"),
        (
            {"model": "m", "messages": [HELLO], "stream_options": {"include_usage": "true"}},
            "stream_options.include_usage",
        ),
    ],
)
def test_an_error_names_the_member_as_the_client_spells_it(body: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(body)
    assert caught.value.param == param
