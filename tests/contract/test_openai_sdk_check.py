"""The official client reads our events, for every kind of item and every ending."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.core.deltas import Annotation, Delta, Finish, Reasoning, Refusal, Text, ToolCall
from antiphon.core.faults.classify import classify
from tests.support.machines import Document, documents, machine, run
from tests.support.openai_sdk_check import check_with_sdk, parse
from tests.support.stream_validator import check
from tests.support.tables import table
from tests.support.valid_streams import (
    call,
    cut_call,
    keepalive,
    message,
    reasoning,
    refusal,
    response,
    stream,
)

LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
SAID: dict[str, list[Delta]] = {
    "nothing": [],
    "text": [Text("a"), Text("b", [LOGPROB])],
    "citation": [
        Text("a"),
        Annotation(
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
        ),
    ],
    "refusal": [Refusal("n"), Refusal("o")],
    "raw reasoning": [Reasoning("a"), Reasoning("b"), Text("c")],
    "summary": [Reasoning("a", "summary"), Reasoning("b", "summary", 1), Text("c")],
    "both": [Reasoning("a", "summary"), Reasoning("b"), Text("c")],
    "function": [ToolCall(0, "a", "get_weather", '{"x"'), ToolCall(0, arguments=":1}")],
    "namespace": [ToolCall(0, "a", "mcp__files__read", "{}")],
    "custom": [ToolCall(0, "a", "exec", '{"input":"l'), ToolCall(0, arguments='s"}')],
    "free text": [ToolCall(0, "a", "grep", "x", "custom")],
    "shell": [ToolCall(0, "a", "shell", '{"commands":["ls"],"timeout_ms":3}')],
    "local shell": [ToolCall(0, "a", "local_shell", '{"command":["ls"]}')],
    "patch": [
        ToolCall(
            0,
            "a",
            "apply_patch",
            '{"operation":{"type":"create_file","path":"a","diff":"+b"}}',
        )
    ],
    "deletion": [
        ToolCall(0, "a", "apply_patch", '{"operation":{"type":"delete_file","path":"a"}}')
    ],
    "tool search": [ToolCall(0, "a", "tool_search", '{"query":"x"}')],
    "parallel": [ToolCall(0, "a", "get_weather", "{}"), ToolCall(1, "a", "get_weather", "{}")],
    "everything": [
        Reasoning("a"),
        Text("b"),
        ToolCall(0, "a", "get_weather", "{"),
        ToolCall(1, "b", "exec", '{"input":"x'),
        Text("c"),
    ],
}


@table("reason", ["stop", "length", "content_filter", "surprise", None])
@table("name", SAID)
def test_the_official_client_reads_every_kind_of_item(name: str, reason: str | None) -> None:
    events = run([*SAID[name], Finish(reason)])
    check(events)
    check_with_sdk(events)
    assert events[-1]["response"]["status"] in ("completed", "incomplete", "failed")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error":{"code":"context_length_exceeded"}}'),
        (429, b'{"error":{"code":"insufficient_quota"}}'),
        (429, b""),
        (500, b""),
        (403, b'{"error":{"code":"cyber_policy"}}'),
    ],
)
def test_the_official_client_reads_every_failure(status: int, body: bytes) -> None:
    subject = machine()
    events = documents(subject.start() + subject.fail(classify(status, {}, body)))
    check(events)
    check_with_sdk(events)
    assert events[-1]["response"]["error"]["message"]


# The oracle itself

GOOD = stream(
    reasoning(raw=("a",), summary=("b",)),
    keepalive,
    message("a", "b"),
    call('{"x"', ":1}"),
    call("x", kind="custom_tool_call"),
    refusal("no"),
)


def test_the_sdk_check_accepts_a_handmade_stream() -> None:
    check_with_sdk(GOOD)
    assert parse(GOOD[0]).response.id == "resp_1"
    check_with_sdk(stream(message("a"), cut_call("{"), end="failed"))
    check_with_sdk(stream(message("a", status="incomplete"), end="incomplete"))


def at(events: list[Document], kind: str) -> Document:
    return next(event for event in events if event["type"].endswith(kind))


Break = Callable[[list[Document]], Any]
BREAKS: dict[str, Break] = {
    "a missing field": lambda e: at(e, "output_text.delta").pop("logprobs"),
    "a number as a string": lambda e: at(e, "output_text.delta").update(output_index="1"),
    "an unknown event": lambda e: e[2].update(type="response.reasoning_text_part.added"),
    "an item without annotations": lambda e: at(e, "content_part.done")["part"].pop("text"),
    "an unknown status": lambda e: e[-1]["response"].update(status="done"),
    "usage without its details": lambda e: e[-1]["response"].update(usage={"input_tokens": 1}),
    "an unknown reason": lambda e: e[-1]["response"].update(
        incomplete_details={"reason": "length"}
    ),
    "an unknown error code": lambda e: e[-1]["response"].update(
        error={"code": "made_up", "message": "x"}
    ),
    "an unknown service tier": lambda e: e[0]["response"].update(service_tier="standard"),
    "no created event": lambda e: e.pop(0),
    "another response": lambda e: e[-1].update(response=response("completed", id="resp_2")),
    "text that was not streamed": lambda e: at(e, "output_text.delta").update(delta="x"),
    "arguments that were not streamed": lambda e: at(e, "arguments.delta").update(delta="x"),
    "an output without its items": lambda e: e[-1]["response"]["output"].pop(),
    "an item that was never done": lambda e: e.remove(at(e, "output_item.done")),
    "another item at the end": lambda e: at(e, "output_item.done")["item"].update(
        status="incomplete"
    ),
}


@table("name", BREAKS)
def test_the_sdk_check_rejects_broken_streams(name: str) -> None:
    events = copy.deepcopy(GOOD)
    BREAKS[name](events)
    assert events != GOOD
    with pytest.raises((AssertionError, RuntimeError)):
        check_with_sdk(events)
