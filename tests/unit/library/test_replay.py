"""`replay`: recorded bytes to Responses events, deterministically."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

import antiphon
from antiphon import replay
from antiphon.core.capabilities import Capabilities
from antiphon.core.deltas import Finish, Text
from antiphon.errors import UnknownDialect
from tests.support.openai_sdk_check import check_with_sdk
from tests.support.stream_validator import check
from tests.support.tables import table
from tests.support.wire_schemas import check_response

CHUNK = {"id": "x", "model": "answering", "choices": [{"delta": {"content": "hé"}}]}
FINISH = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
STREAM = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in (CHUNK, FINISH))


def replay_body(
    message: dict[str, Any], finish_reason: str | None = "stop"
) -> list[dict[str, Any]]:
    body = {"model": "answering", "choices": [{"message": message, "finish_reason": finish_reason}]}
    events = replay(json.dumps(body, indent=1).encode())
    check(events)
    check_with_sdk(events)
    return events


def test_the_package_exports_replay_and_parse_delta() -> None:
    assert antiphon.replay is replay
    assert isinstance(antiphon.__version__, str)
    deltas: list[antiphon.Delta] = antiphon.parse_delta({"text": "Hello", "finishReason": "stop"})
    assert deltas == [Text("Hello"), Finish("stop")]
    assert all(hasattr(antiphon, name) for name in antiphon.__all__)


def test_importing_the_package_loads_no_server_store_or_cryptography() -> None:
    script = "import antiphon, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "antiphon" in loaded
    assert not loaded & {"aiohttp", "asyncio", "cryptography", "llguidance", "sqlite3"}


def test_events_are_plain_dicts_in_sequence() -> None:
    events = replay(STREAM)
    assert json.loads(json.dumps(events)) == events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert list(events[0])[:2] == ["type", "sequence_number"]


def test_the_same_recording_gives_the_same_events() -> None:
    assert replay(STREAM) == replay(STREAM)


@table("cuts", [[], [0], [-5, 10**9], [3, 3, 3], range(len(STREAM)), {9, 2}])
def test_cuts_may_be_any_offsets(cuts: Any) -> None:
    assert replay(STREAM, cuts=cuts) == replay(STREAM)


def test_a_complete_json_body_is_recognized_by_its_first_byte() -> None:
    body = (
        b" \n"
        + json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}).encode()
    )
    assert replay(body, cuts=[4])[-1]["type"] == "response.completed"


@table("data", [b"", b"<html>Bad Gateway</html>", b"\xff\xfe", b"data: [DONE]\n\n"])
def test_bytes_without_a_response_give_a_failed_response(data: bytes) -> None:
    events = replay(data)
    check(events)
    assert events[-1]["type"] == "response.failed"


def test_an_unknown_dialect_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(UnknownDialect, match=r"'morse'.*chat") as raised:
        replay(STREAM, dialect="morse")
    assert raised.value.code == "dialect.unknown"


@table(
    ("request_body", "model"),
    [
        (None, "answering"),
        ({}, "answering"),
        ({"model": "asked"}, "asked"),
        ({"model": None}, "answering"),
        ({"model": 3, "tools": "odd"}, "answering"),
    ],
)
def test_the_model_is_that_of_the_request(request_body: dict[str, Any] | None, model: str) -> None:
    assert replay(STREAM, request=request_body)[0]["response"]["model"] == model


@table(
    "tool",
    [
        {"type": "function", "function": {"name": "get_weather"}},
        {"type": "custom", "custom": {"name": "get_weather"}},
    ],
)
def test_a_tool_the_request_declared_is_announced_before_its_arguments(
    tool: dict[str, Any],
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": ""}}
    chunk = {"choices": [{"delta": {"tool_calls": [call]}}]}
    stream = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    request = {"tools": [tool, {"type": "odd"}, None, tool]}
    types = [event["type"] for event in replay(stream, request=request)]
    assert "response.output_item.added" in types
    assert "response.output_item.added" not in [event["type"] for event in replay(stream)]


def test_with_the_request_of_the_client_a_call_has_the_type_of_its_tool() -> None:
    arguments = json.dumps({"input": "*** Begin Patch"})
    call = {"index": 0, "id": "a", "function": {"name": "patch", "arguments": arguments}}
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}}]}, FINISH]
    stream = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)
    request = {"model": "m", "input": "Hi", "tools": [{"type": "custom", "name": "patch"}]}
    events = replay(stream, request=request, cuts=range(len(stream)))
    check(events)
    [item] = events[-1]["response"]["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin Patch")


def test_a_client_that_is_not_known_has_no_profile_of_its_own() -> None:
    request = {"model": "m", "input": "Hi"}
    assert replay(STREAM, request=request, client="x") == replay(STREAM, request=request)


# Whole answers


def test_a_complete_answer_is_ordered_reasoning_calls_message() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    events = replay_body({"content": "c", "reasoning_content": "r", "tool_calls": [call]})
    assert [item["type"] for item in events[-1]["response"]["output"]] == [
        "reasoning",
        "function_call",
        "message",
    ]


@table("content", [None, "", []])
def test_a_complete_answer_without_text_has_an_empty_message(content: object) -> None:
    [message] = replay_body({"content": content})[-1]["response"]["output"]
    assert message["content"][0]["text"] == ""


@table("reason", ["stop", "length", "content_filter", None])
@table("message", [{}, {"content": ""}, {"reasoning_content": "Hm."}])
def test_an_empty_answer_is_the_same_streamed_and_whole(
    message: dict[str, Any], reason: str | None
) -> None:
    choice = {"index": 0, "delta": message, "finish_reason": reason}
    stream = (
        b"data: %b\n\ndata: [DONE]\n\n"
        % json.dumps({"model": "answering", "choices": [choice]}).encode()
    )
    streamed = replay(stream)[-1]["response"]
    assert streamed == replay_body(message, reason)[-1]["response"]
    has_message = "message" in [item["type"] for item in streamed["output"]]
    assert has_message == (reason == "stop")


def test_a_complete_answer_with_only_calls_has_no_message() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    [item] = replay_body({"content": None, "tool_calls": [call]}, "tool_calls")[-1]["response"][
        "output"
    ]
    assert item["type"] == "function_call"


@table(
    ("reason", "status"),
    [
        ("stop", "completed"),
        ("length", "incomplete"),
        ("content_filter", "incomplete"),
        (None, "failed"),
    ],
)
def test_the_finish_reason_of_a_complete_answer_decides_its_status(
    reason: str | None, status: str
) -> None:
    response = replay_body({"content": "a"}, reason)[-1]["response"]
    assert response["status"] == status
    assert response["output"][0]["content"][0]["text"] == "a"


def test_a_complete_answer_has_every_required_field() -> None:
    events = replay_body({"content": "a"})
    for event in (events[0], events[-1]):
        check_response(event["response"], "here")
    final = events[-1]["response"]
    assert final["object"] == "response"
    assert (final["temperature"], final["top_p"], final["top_logprobs"]) == (1.0, 1.0, 0)
    assert (final["tool_choice"], final["tools"], final["parallel_tool_calls"]) == (
        "auto",
        [],
        True,
    )
    assert (final["store"], final["background"], final["truncation"]) == (True, False, "disabled")
    assert final["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert final["reasoning"] == {"effort": None, "summary": None}


LINES = (
    b'{"model":"m","message":{"role":"assistant","content":"Hel"},"done":false}\n'
    b'{"model":"m","message":{"role":"assistant","content":"lo"},"done":true,"done_reason":"stop"}\n'
)


def test_ndjson_is_a_stream_at_any_chunk_boundaries() -> None:
    replay_body = replay(LINES, dialect="ollama")
    deltas = [event["delta"] for event in replay_body if event["type"].endswith("text.delta")]
    assert deltas == ["Hel", "lo"]
    assert replay(LINES, dialect="ollama", cuts=range(len(LINES))) == replay_body


def test_a_single_line_of_ndjson_is_a_complete_answer() -> None:
    [line, _] = LINES.splitlines()
    assert replay(line, dialect="ollama")[-1]["type"].startswith("response.")


@table("tool", [{"name": "f", "input_schema": {}}, {"type": "function", "name": "f"}])
def test_declared_tools_are_read_in_the_form_of_every_dialect(tool: dict[str, Any]) -> None:
    piece = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
    data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    events = replay(data, request={"tools": [tool]})
    assert events[2]["item"]["name"] == "f"


# With the client's request: the translator's plan, filters and stages

CLIENT_REQUEST = {"model": "up/m", "input": "Hi"}


def last_response(fields: Mapping[str, Any], *, client: str = "other", **message: Any) -> Any:
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    request = {**CLIENT_REQUEST, **fields}
    data = json.dumps(body).encode()
    managed = Capabilities(web_search="managed")
    events = antiphon.replay(data, request=request, client=client, capabilities=managed)
    return events[-1]["response"]


def test_the_response_repeats_the_request() -> None:
    response = last_response({"instructions": "Be kind."}, content="Hello")
    assert (response["model"], response["instructions"]) == ("up/m", "Be kind.")
    assert response["created_at"] == 0


def test_the_profile_of_the_client_applies() -> None:
    plain = last_response({}, refusal="No.")
    assert plain["output"][0]["content"][0]["type"] == "refusal"
    assert last_response({}, client="codex", refusal="No.")["output_text"] == "No."


def test_an_answer_that_breaks_its_contract_has_failed() -> None:
    response = last_response({"text": {"format": {"type": "json_object"}}}, content="Hello")
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")


def test_an_answer_whose_further_round_is_not_recorded_ends() -> None:
    call = {"id": "c", "function": {"name": "web_search", "arguments": '{"query": "rain"}'}}
    search = {"tools": [{"type": "web_search"}]}
    response = last_response(search, content="Let me look.", tool_calls=[call])
    assert response["status"] in ("completed", "failed")
    assert response["output_text"] == "Let me look."


def test_a_request_that_the_gateway_would_reject_is_rejected() -> None:
    with pytest.raises(antiphon.InvalidRequest, match="temperature"):
        last_response({"temperature": 5}, content="Hello")
