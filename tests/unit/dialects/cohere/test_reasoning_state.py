"""Reasoning of Cohere models, and its state."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Delta, Finish, Reasoning, ReasoningState, Text, ToolCall, ToolEnd
from antiphon.dialects.cohere.decode import CohereDecoder
from antiphon.framing.sse import Frame

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}


def event(kind: str, index: Any = None, **message: Any) -> Frame:
    body: dict[str, Any] = {"type": kind, "delta": {"message": message}}
    if index is not None:
        body["index"] = index
    return Frame(json.dumps(body).encode(), kind)


def arguments(text: str, index: int = 0) -> Frame:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": text}})


def text(piece: str, index: int = 0) -> Frame:
    return event("content-delta", index, content={"text": piece})


def end(**delta: Any) -> Frame:
    return Frame(json.dumps({"type": "message-end", "delta": delta}).encode())


def feed(*frames: Frame) -> list[Delta]:
    decoder = CohereDecoder()
    return [delta for frame in frames for delta in decoder.feed(frame)] + decoder.close()


def test_each_thinking_block_has_its_state_without_an_end_event() -> None:
    assert feed(
        event("content-delta", 0, content={"thinking": "a"}),
        event("content-delta", 1, content={"thinking": "b"}),
        text("Well", 2),
    ) == [
        Reasoning("a"),
        ReasoningState("cohere.thinking", "a", "block"),
        Reasoning("b", part=1),
        ReasoningState("cohere.thinking", "b", "block"),
        Text("Well"),
    ]


def test_a_tool_plan_is_reasoning_and_its_state_precedes_the_call() -> None:
    assert feed(
        event("tool-plan-delta", tool_plan="I will"),
        event("tool-plan-delta", tool_plan=" look."),
        event("tool-call-start", 0, tool_calls=CALL),
        arguments('{"x":'),
        arguments("1}"),
        event("tool-call-end", 0),
        end(finish_reason="TOOL_CALL"),
    ) == [
        Reasoning("I will"),
        Reasoning(" look."),
        ReasoningState("cohere.tool_plan", "I will look.", "block"),
        ToolCall(0, "c", "look"),
        ToolCall(0, arguments='{"x":'),
        ToolCall(0, arguments="1}"),
        ToolEnd(0),
        Finish("TOOL_CALL"),
    ]


def test_a_cut_thinking_block_has_the_state_received_so_far() -> None:
    assert feed(
        event("content-delta", 0, content={"thinking": "hm"}), end(finish_reason="MAX_TOKENS")
    ) == [
        Reasoning("hm"),
        ReasoningState("cohere.thinking", "hm", "block"),
        Finish("MAX_TOKENS"),
    ]
