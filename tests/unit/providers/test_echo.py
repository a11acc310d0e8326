"""The echo provider: its content, its bytes, and an answer to any request."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.deltas import Failure, Finish, Reasoning, Refusal, Text, ToolCall, Usage
from antiphon.dialects.dialect import resolve
from antiphon.providers import echo
from antiphon.providers.echo import EchoResponse, respond
from tests.support.outbound_requests import CALLED, TOOL, Document, configured, encode_request
from tests.support.tables import table

DIALECT = resolve("chat")
PROVIDER = configured("echo")
WEATHER = {"type": "function", "function": {key: TOOL[key] for key in TOOL if key != "type"}}
TIME = {"type": "function", "function": {"name": "now", "description": "Tells the time."}}


def ask(said: str = "hello there", model: str = "echo", **more: Any) -> EchoResponse:
    request = {"model": model, "messages": [{"role": "user", "content": said}], **more}
    return respond(json.dumps(request).encode())


def deltas(answered: EchoResponse) -> list[Any]:
    """Decode an answer as the gateway does."""
    body = b"".join(answered.chunks)
    if answered.content_type == "application/json":
        return DIALECT.decode(body)
    framer, decoder = DIALECT.framer(), DIALECT.decoder()
    frames = [*framer.feed(body), *framer.close()]
    return [delta for frame in frames for delta in decoder.feed(frame)] + decoder.close()


def joined(found: list[Any], kind: Any) -> str:
    return "".join(delta.text for delta in found if isinstance(delta, kind))


def finish(found: list[Any]) -> list[str | None]:
    return [delta.reason for delta in found if isinstance(delta, Finish)]


def calls(found: list[Any]) -> dict[str, Any]:
    """Arguments of every call by tool name."""
    pieces: dict[int, list[ToolCall]] = {}
    for delta in found:
        if isinstance(delta, ToolCall):
            pieces.setdefault(delta.index, []).append(delta)
    return {
        "".join(piece.name or "" for piece in call): json.loads(
            "".join(piece.arguments for piece in call)
        )
        for call in pieces.values()
    }


both_ways = table("stream", [False, True], ids=["whole", "streamed"])


@both_ways
def test_echo_repeats_the_last_user_message(stream: bool) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": [{"type": "text", "text": "second"}, {"type": "image_url"}]},
    ]
    found = deltas(ask(stream=stream, messages=messages))
    assert joined(found, Text) == "second [image_url]"
    assert finish(found) == ["stop"]


def test_reminders_of_an_agent_are_neither_repeated_nor_a_reason_to_call_a_tool() -> None:
    reminder = "<system-reminder>\nThe weather tool is slow.\n</system-reminder>"
    for said in (f"{reminder}\nSay hello", f"Say hello\n{reminder}"):
        found = deltas(ask(said, tools=[WEATHER]))
        assert (joined(found, Text), calls(found)) == ("Say hello", {})
    parts = [{"type": "text", "text": text} for text in (reminder, "What is the weather?")]
    messages = [{"role": "user", "content": parts}]
    assert [*calls(deltas(ask(messages=messages, tools=[WEATHER])))] == [TOOL["name"]]


@table("unit", ["<system-reminder>", "\n", "\n<system-reminder></system-reminder>"])
def test_the_work_is_linear_in_what_may_be_reminders(unit: str) -> None:
    began = time.process_time()
    ask("<system-reminder>" + unit * (1_000_000 // len(unit)))
    assert time.process_time() - began < 5  # were it quadratic, minutes


def test_a_stream_has_a_chunk_per_word_and_one_for_its_end() -> None:
    answered = ask("one two three", stream=True)
    texts = [delta.text for delta in deltas(answered) if isinstance(delta, Text)]
    assert texts == ["one", " two", " three"]
    assert answered.content_type == "text/event-stream"
    *words, ending = answered.chunks
    assert len(words) == 3
    assert ending.startswith(b"data: {")
    assert ending.endswith(b"\n\ndata: [DONE]\n\n")


@both_ways
def test_usage_is_reported(stream: bool) -> None:
    [usage] = [delta for delta in deltas(ask(stream=stream)) if isinstance(delta, Usage)]
    assert (usage.input_tokens, usage.output_tokens) == (3, 2)


@both_ways
def test_the_reasoner_sends_reasoning_first_unless_the_effort_is_none(stream: bool) -> None:
    found = deltas(ask(model="reasoner", stream=stream))
    assert joined(found, Reasoning) == "The user said: hello there"
    assert joined(found, Text) == "hello there"
    silent = deltas(ask(model="reasoner", stream=stream, reasoning_effort="none"))
    assert joined(silent, Reasoning) == ""


@both_ways
def test_the_refuser_refuses(stream: bool) -> None:
    found = deltas(ask(model="refuser", stream=stream))
    assert joined(found, Refusal) == "I would rather not."
    assert joined(found, Text) == ""


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_an_error_model_returns_its_status(status: int) -> None:
    answered = ask(model=f"error-{status}", stream=True)
    assert (answered.status, answered.content_type) == (status, "application/json")
    assert "error" in json.loads(b"".join(answered.chunks))


def test_error_midway_fails_after_the_text() -> None:
    found = deltas(ask(model="error-midway", stream=True))
    assert joined(found, Text) == "hello there"
    assert isinstance(found[-1], Failure)
    assert finish(found) == []
    assert any(isinstance(delta, Failure) for delta in deltas(ask(model="error-midway")))


def test_the_cut_model_sends_text_without_a_finish_reason() -> None:
    answered = ask(model="cut", stream=True)
    assert joined(deltas(answered), Text) == "hello there"
    assert finish(deltas(answered)) == []
    assert b"[DONE]" not in b"".join(answered.chunks)


# Tools


@both_ways
@table(
    "said",
    ["What is the weather like?", "the forecast, please", "WEATHER", "in which city?"],
)
def test_a_tool_is_called_when_the_message_shares_a_word_with_it(said: str, stream: bool) -> None:
    found = deltas(ask(said, stream=stream, tools=[TIME, WEATHER]))
    assert calls(found) == {"get_weather": {"city": "echo"}}
    assert finish(found) == ["tool_calls"]


@pytest.mark.parametrize("said", ["hello", "what is the use of it?", "get", "a b", ""])
def test_no_tool_is_called_for_common_words(said: str) -> None:
    found = deltas(ask(said, tools=[TIME, WEATHER]))
    assert calls(found) == {}
    assert joined(found, Text) == (said or "…")


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ("auto", []),
        ("none", []),
        ("required", ["now"]),
        ({"type": "function", "function": {"name": "get_weather"}}, ["get_weather"]),
        ({"type": "function", "function": {"name": "nobody"}}, []),
    ],
)
def test_a_tool_is_called_when_tool_choice_forces_it(choice: Any, called: list[str]) -> None:
    assert list(calls(deltas(ask("hello", tools=[TIME, WEATHER], tool_choice=choice)))) == called


def test_the_tool_that_shares_the_most_words_is_called() -> None:
    found = deltas(ask("time: the forecast of the city", tools=[TIME, WEATHER]))
    assert list(calls(found)) == ["get_weather"]


def test_tool_choice_none_prevents_a_call() -> None:
    assert calls(deltas(ask("weather", tools=[WEATHER], tool_choice="none"))) == {}


def test_arguments_match_the_schema_and_are_harmless_to_run() -> None:
    schema = {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "timeout_ms": {"type": "integer", "minimum": 100},
        },
        "required": ["command", "timeout_ms"],
    }
    shell = {"type": "function", "function": {"name": "shell", "parameters": schema}}
    found = calls(deltas(ask("shell: rm -rf /", tools=[shell])))
    assert jsonschema_rs.is_valid(schema, found["shell"])
    assert found["shell"]["command"] == ["echo"]


def test_a_tool_without_a_schema_gets_an_empty_object() -> None:
    assert calls(deltas(ask("time", tools=[TIME]))) == {"now": {}}


@both_ways
def test_an_agent_completes_its_loop(stream: bool) -> None:
    """User message, tool call, tool output, answer; then another user message."""
    begun = encode_request(PROVIDER, input=CALLED[:1], tools=[TOOL], stream=stream)
    assert list(calls(deltas(respond(json.dumps(begun).encode())))) == ["get_weather"]
    answered = encode_request(PROVIDER, input=CALLED, tools=[TOOL], stream=stream)
    found = deltas(respond(json.dumps(answered).encode()))
    assert (calls(found), joined(found, Text)) == ({}, "Rain.")
    history = [
        *CALLED,
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "And the forecast for tomorrow?"},
    ]
    again = encode_request(PROVIDER, input=history, tools=[TOOL], stream=stream)
    assert list(calls(deltas(respond(json.dumps(again).encode())))) == ["get_weather"]


def test_an_image_in_a_tool_output_does_not_restart_the_loop() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    output = [{"type": "input_text", "text": "A map of the weather."}, image]
    history = [*CALLED[:3], {**CALLED[3], "output": output}]
    found = deltas(
        respond(json.dumps(encode_request(PROVIDER, input=history, tools=[TOOL])).encode())
    )
    assert calls(found) == {}
    assert "A map of the weather." in joined(found, Text)


# Formats and limits


@both_ways
def test_json_is_returned_when_a_format_is_requested(stream: bool) -> None:
    schema = TOOL["parameters"]
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    text = joined(deltas(ask(stream=stream, response_format=form)), Text)
    assert json.loads(text) == {"city": "hello there"}
    text = joined(deltas(ask(stream=stream, response_format={"type": "json_object"})), Text)
    assert json.loads(text) == {"echo": "hello there"}


@both_ways
def test_max_tokens_truncates_the_answer_and_sets_the_finish_reason(stream: bool) -> None:
    found = deltas(ask("one two three", stream=stream, max_tokens=2))
    assert (joined(found, Text), finish(found)) == ("one two", ["length"])
    found = deltas(ask("one two", model="reasoner", stream=stream, max_tokens=4))
    assert (joined(found, Reasoning), joined(found, Text)) == ("The user said: one", "")


def test_a_very_long_message_is_truncated() -> None:
    found = deltas(ask("word " * 100_000))
    assert finish(found) == ["length"]
    assert len(joined(found, Text)) < 100_000


# It has an answer to anything


@given(st.text())
def test_split_words_join_to_the_same_text(text: str) -> None:
    answered = ask(text.encode(errors="replace").decode() or "x", stream=True)
    found = [delta.text for delta in deltas(answered) if isinstance(delta, Text)]
    assert "".join(found) == (text.encode(errors="replace").decode() or "x")
    assert all(found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("role content type text function name parameters schema".split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from([model.id for model in echo.SPEC.models]) | VALUES,
        "messages": VALUES
        | st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["user", "assistant", "tool", "system"]),
                    "content": VALUES,
                }
            )
        ),
        "tools": VALUES | st.lists(st.fixed_dictionaries({"function": VALUES})),
        "tool_choice": st.sampled_from(["auto", "none", "required"]) | VALUES,
        "response_format": VALUES
        | st.fixed_dictionaries(
            {
                "type": st.just("json_schema"),
                "json_schema": st.fixed_dictionaries({"schema": VALUES}),
            }
        ),
        "stream": st.booleans() | VALUES,
        "max_tokens": VALUES,
    },
)


@given(REQUESTS)
def test_every_request_is_answered_deterministically(request: Document) -> None:
    body = json.dumps(request).encode()
    answered = respond(body)
    assert answered == respond(body)
    assert answered.chunks
    if answered.content_type == "application/json":
        json.loads(b"".join(answered.chunks))


@given(st.binary(max_size=40))
def test_any_body_is_answered(body: bytes) -> None:
    assert respond(body).status in (200, 400)


def test_a_body_that_is_not_json_is_a_bad_request() -> None:
    assert respond(b"{").status == 400
    assert respond(b"\xff").status == 400
