"""Guards by name, around a decoder or a whole answer."""

from __future__ import annotations

import json

import pytest

from antiphon.core.stream.deltas import (
    Delta,
    Finish,
    Reasoning,
    ReasoningState,
    Start,
    Text,
    ToolCall,
)
from antiphon.dialects.chat.decode import ChatDecoder
from antiphon.dialects.guard import GUARDS, GuardedDecoder, build_guards, guarded
from antiphon.errors import ConfigError
from antiphon.wire.sse import Frame

CALL = '<tool_call>{"name": "f"}</tool_call>'


def frame(content: str, **choice: object) -> Frame:
    body = {"model": "m", "choices": [{"delta": {"content": content}, **choice}]}
    return Frame(data=json.dumps(body).encode())


def test_every_name_builds_a_guard() -> None:
    assert [len(build_guards([name])) for name in GUARDS] == [1] * len(GUARDS)
    assert len(build_guards(GUARDS)) == 2
    assert build_guards([]) == []


def test_an_unknown_name_is_a_mistake_in_the_data() -> None:
    with pytest.raises(ConfigError, match="There is no guard 'thnik'; known: think, "):
        build_guards(["think", "thnik"])


def test_guards_are_fresh_for_every_answer() -> None:
    for _ in range(2):
        assert guarded([Text("<think>a")], build_guards(["think"])) == [Reasoning("a")]


def test_without_guards_nothing_changes() -> None:
    deltas: list[Delta] = [Text("<think>a</think>"), ToolCall(0), Reasoning("b")]
    assert guarded(deltas, []) == deltas
    decoder = GuardedDecoder(ChatDecoder(), [])
    assert decoder.feed(frame("<think>")) == [Start("m"), Text("<think>")]
    assert decoder.close() == []


def test_a_guarded_decoder_drives_every_guard() -> None:
    decoder = GuardedDecoder(ChatDecoder(), build_guards(["hermes", "think"]))
    assert decoder.feed(frame(f"<think>{CALL}</th")) == [Start("m"), Reasoning(CALL)]
    assert decoder.feed(frame("ink>\nx" + CALL[:5])) == [Reasoning("\n"), Text("x")]
    assert decoder.feed(frame(CALL[5:], finish_reason="stop")) == [
        ToolCall(0, name="f", arguments="{}"),
        Finish("stop"),
    ]
    assert decoder.feed(frame("<tool")) == []
    ended_before = decoder.ended
    assert decoder.feed(Frame(data=b"[DONE]")) == []
    assert (ended_before, decoder.ended) == (False, True)
    assert decoder.close() == [Text("<tool")]


def test_what_one_guard_lets_go_at_the_end_reaches_the_next() -> None:
    decoder = GuardedDecoder(ChatDecoder(), build_guards(["think", "glm"]))
    decoder.feed(frame("<tool"))
    assert decoder.close() == [Text("<tool")]


def test_thought_in_the_text_of_a_whole_answer_goes_before_its_calls() -> None:
    state = ReasoningState("x", "y", "tool")
    deltas: list[Delta] = [
        Start("m"),
        ReasoningState("x", "z"),
        state,
        ToolCall(0, "a", "f", "{}"),
        Text("<think>b</think>\n\nc"),
        Finish("stop"),
    ]
    assert guarded(deltas, build_guards(["think"])) == [
        *deltas[:2],
        Reasoning("b"),
        Reasoning("\n\n"),
        *deltas[2:4],
        Text("c"),
        Finish("stop"),
    ]
