"""Parsing of Messages requests: members, parameters and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.request import Request, Thinking
from antiphon.dialects.anthropic.parse import parse_messages
from antiphon.errors import InvalidRequest
from tests.support.tables import table

Document = dict[str, Any]
HI = [{"role": "user", "content": "hi"}]


def parse(headers: dict[str, str] | None = None, /, **fields: Any) -> Request:
    document = {"model": "m", "max_tokens": 100, "messages": HI, **fields}
    return parse_messages(document, headers=headers or {})


def refused(document: Document) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        parse_messages(document)
    assert caught.value.status == 400
    return caught.value.message, caught.value.param


def test_a_minimal_request_is_not_stored_and_asks_for_sealed_state() -> None:
    document = {"model": "m", "max_tokens": 100, "messages": HI}
    request = parse_messages(document, is_large=True)
    assert request.raw is document
    assert (request.model, request.max_output_tokens, request.is_large) == ("m", 100, True)
    assert (request.stream, request.store, request.prefill) == (False, False, None)
    assert request.include == {"reasoning.encrypted_content"}
    assert request.shows_searches
    assert (request.prompt_caching, request.client_format) == ("client", "messages")
    assert request.stream_options == {"include_obfuscation": False}
    assert (request.unknown, request.extra, request.tool_choice) == ((), None, "auto")


def test_every_parameter_is_read() -> None:
    request = parse(
        stream=True,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop_sequences=["END", " "],
        service_tier="standard_only",
        cache_control={"type": "ephemeral"},
        metadata={"user_id": "u"},
        context_management={"edits": [{"type": "compact_20260112"}]},
    )
    assert request.stream
    assert (request.temperature, request.top_p, request.top_k) == (0.5, 0.9, 40)
    assert request.stop == ("END",)
    assert (request.service_tier, request.user) == ("default", "u")
    assert request.cache_control == {"type": "ephemeral"}
    assert request.context_edits == ({"type": "compact_20260112"},)
    assert parse(service_tier="auto").service_tier == "auto"
    assert parse(context_management={}).context_edits is None
    assert parse(stop_sequences="END").stop == ("END",)


def test_null_is_the_same_as_absent() -> None:
    names = "system tools tool_choice stream stop_sequences temperature thinking metadata thread"
    given = parse(**dict.fromkeys(names.split()))
    fields = [name for name in Request.__struct_fields__ if name != "raw"]
    assert [getattr(given, name) for name in fields] == [getattr(parse(), name) for name in fields]


def test_a_count_is_never_a_stream() -> None:
    document = {"model": "m", "messages": HI, "stream": True}
    assert parse_messages(document, is_count=True).stream is False


def test_a_wish_beyond_the_bounds_is_not_refused() -> None:
    assert parse(max_tokens=0).max_output_tokens == 1
    assert parse(top_k=-1).top_k == 0


def test_unknown_members_are_kept_for_a_provider_of_the_format() -> None:
    request = parse(container="c", speed="fast", mood=None)
    assert request.unknown == ("container", "speed")
    assert request.extra == {
        "format": "messages",
        "members": {"container": "c", "speed": "fast"},
    }


def test_betas_are_read_from_the_header() -> None:
    assert parse({"anthropic-beta": "a, b,,"}).betas == ("a", "b")
    assert parse({"anthropic-beta": "a,\udcff,\u00e9"}).betas == ("a",)  # bytes that are no text
    assert parse().betas is None


@table(
    ("headers", "user", "session"),
    [
        ({"x-claude-code-session-id": "s1"}, "u", "s1"),
        ({"x-claude-code-session-id": "s\udcff"}, "u", None),  # a byte that is no text
        ({}, json.dumps({"device_id": "d", "session_id": "s2"}), "s2"),
        ({}, json.dumps({"session_id": 7}), None),
        ({}, "{broken", None),
        ({}, '{"a":' + "[" * 5000, None),
        ({}, '{"session_id": "\ud800"}', None),
        ({}, "user-1", None),
        ({}, None, None),
    ],
)
def test_the_session_is_the_cache_key(
    headers: dict[str, str], user: str | None, session: str | None
) -> None:
    request = parse(headers, metadata={"user_id": user})
    assert (request.user, request.prompt_cache_key) == (user, session)


# --- thinking, formats, threads -------------------------------------------------------------------


@table(
    ("thinking", "config", "read", "effort"),
    [
        (None, None, Thinking(), None),
        (None, {"effort": "high"}, Thinking(effort="high"), "high"),
        (
            {"type": "adaptive", "display": "updates"},
            {"effort": "xhigh"},
            Thinking(mode="adaptive", display="updates", effort="xhigh"),
            "xhigh",
        ),
        ({"type": "adaptive"}, None, Thinking(mode="adaptive"), "high"),
        (
            {"type": "enabled", "budget_tokens": 31_999},
            None,
            Thinking(mode="enabled", budget_tokens=31_999),
            "high",
        ),
        (
            {"type": "enabled", "budget_tokens": 8000},
            None,
            Thinking(mode="enabled", budget_tokens=8000),
            "medium",
        ),
        (
            {"type": "enabled", "budget_tokens": 1024},
            None,
            Thinking(mode="enabled", budget_tokens=1024),
            "low",
        ),
        (
            {"type": "disabled"},
            {"effort": "high"},
            Thinking(mode="disabled", effort="high"),
            "none",
        ),
        ({"type": "new", "budget_tokens": 0}, {"effort": ""}, Thinking(), None),
    ],
)
def test_thinking_and_effort_are_read_together(
    thinking: Any, config: Any, read: Thinking, effort: str | None
) -> None:
    request = parse(thinking=thinking, output_config=config)
    assert (request.thinking, request.effort) == (read, effort)


@table("member", ["output_config", "output_format"])
def test_an_output_format_is_strict(member: str) -> None:
    schema = {"type": "object"}
    form = {"type": "json_schema", "schema": schema}
    given = {"output_config": {"format": form}} if member == "output_config" else {member: form}
    expected = {"type": "json_schema", "name": "output", "schema": schema, "strict": True}
    assert parse(**given).text_format == expected


@table(
    ("format", "problem"),
    [
        ({"type": "json_schema"}, "schema: Field required"),
        ({"type": "regex"}, "type: Input should be 'json_schema'"),
        ({}, "type: Input should be 'json_schema'"),
    ],
)
def test_an_output_format_that_cannot_be_kept_is_refused(format: Document, problem: str) -> None:
    document = {"model": "m", "messages": HI}
    for path, members in (
        ("output_config.format", {"output_config": {"format": format}}),
        ("output_format", {"output_format": format}),
    ):
        message, param = refused({**document, **members})
        assert (message, param) == (f"{path}.{problem}", f"{path}.{problem.partition(':')[0]}")


@table(
    ("edit", "compaction"),
    [
        ({"type": "clear_thinking_20251015", "keep": "all"}, ()),
        ({"type": "compact_20260112"}, ({"type": "compaction"},)),
        (
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 5000}},
            ({"type": "compaction", "compact_threshold": 5000},),
        ),
    ],
)
def test_an_edit_that_compacts_is_one_for_the_gateway_too(
    edit: Document, compaction: tuple[Document, ...]
) -> None:
    request = parse(context_management={"edits": [edit]})
    assert (request.context_edits, request.context_management) == ((edit,), compaction)


def test_a_thread_is_a_chain_of_stored_responses() -> None:
    created = parse(thread={"type": "create"})
    assert (created.store, created.previous_response_id) == (True, None)
    continued = parse(thread={"type": "continue", "previous_message_id": "msg_1"})
    assert (continued.store, continued.previous_response_id) == (True, "resp_1")
    assert parse(thread=None).store is False


@table(
    ("thread", "param", "code"),
    [
        ({"type": "continue"}, "thread.previous_message_id", None),
        ({"type": "continue", "previous_message_id": ""}, "thread.previous_message_id", None),
        ({}, "thread.type", "thread_unsupported_request"),
        ({"type": "fork", "previous_message_id": "m"}, "thread.type", "thread_unsupported_request"),
    ],
)
def test_a_thread_is_never_served_without_its_history(
    thread: Document, param: str, code: str | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(thread=thread)
    assert (caught.value.param, caught.value.wire_code) == (param, code)


@table(
    ("last", "is_prefill"),
    [
        ({"role": "assistant", "content": "{"}, True),
        ({"role": "assistant", "content": [{"type": "text", "text": "{"}]}, True),
        ({"role": "assistant", "content": ""}, None),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}, None),
        ({"role": "user", "content": "{"}, None),
    ],
)
def test_text_of_the_assistant_at_the_end_is_a_prefill(last: Any, is_prefill: bool | None) -> None:
    assert parse(messages=[*HI, last]).prefill is is_prefill


# --- errors ---------------------------------------------------------------------------------------


@table(
    ("document", "message", "param"),
    [
        ({"messages": HI}, "model: Field required", "model"),
        (
            {"model": " ", "messages": HI},
            "model: Input should be a non-empty string",
            "model",
        ),
        (
            {"model": "m" * 257, "messages": HI},
            "model: String should have at most 256 characters",
            "model",
        ),
        ({"model": "m"}, "messages: Field required", "messages"),
        (
            {"model": "m", "messages": {}},
            "messages: Input should be a valid list, not an object",
            "messages",
        ),
        (
            {"model": "m", "messages": []},
            "messages: at least one message is required",
            "messages",
        ),
        (
            {"model": "m", "messages": HI, "max_tokens": "1"},
            "max_tokens: Input should be a valid integer",
            "max_tokens",
        ),
        (
            {"model": "m", "messages": HI, "temperature": True},
            "temperature: Input should be a valid number",
            "temperature",
        ),
        (
            {"model": "m", "messages": HI, "stop_sequences": ["a", 1]},
            "stop_sequences.1: Input should be a valid string",
            "stop_sequences.1",
        ),
    ],
)
def test_an_error_names_the_member(document: Document, message: str, param: str) -> None:
    assert refused(document) == (message, param)


def test_a_turn_that_the_provider_has_paused_is_no_prefill() -> None:
    text = {"type": "text", "text": "It "}
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    for blocks, is_prefill in (([text], True), ([use, text], None), ([text, use], None)):
        last = {"role": "assistant", "content": blocks}
        assert parse(messages=[*HI, last]).prefill is is_prefill
