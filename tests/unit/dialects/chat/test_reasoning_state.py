"""Reasoning state of Chat Completions servers: reasoning details and signatures."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import Delta, Reasoning, ReasoningState
from antiphon.core.history.steps import MessageStep, ReasoningStep, Step, TextPart, ToolCallStep
from antiphon.dialects.chat import decode as chat
from antiphon.dialects.chat.reasoning_state import (
    add_call_signatures,
    collect_details,
    text_signature,
)
from antiphon.framing.sse import SSEDecoder
from tests.support import corpus

Body = dict[str, Any]


def thought(*chunks: Any) -> ReasoningStep:
    return ReasoningStep(
        states=tuple(ReasoningState("openrouter.reasoning_details", c) for c in chunks)
    )


def piece(text: str, index: int | None = 0, **more: Any) -> Body:
    place = {} if index is None else {"index": index}
    return {"type": "reasoning.text", "text": text, **place, **more}


def test_fragments_of_one_block_are_joined_in_order() -> None:
    chunks = [[piece("a", format="x")], [piece("b")], [piece("", signature="s")]]
    assert collect_details([thought(*chunks)]) == [
        {"type": "reasoning.text", "text": "ab", "index": 0, "format": "x", "signature": "s"}
    ]


def test_another_type_or_index_is_another_block() -> None:
    summary = {"type": "reasoning.summary", "summary": "s", "index": 0}
    encrypted = {"type": "reasoning.encrypted", "data": "d", "index": 0}
    chunks = [[piece("a")], [summary], [piece("b", 1)], [encrypted], [piece("c", 1)], [piece("d")]]
    assert collect_details([thought(*chunks)]) == [piece("ad"), summary, piece("bc", 1), encrypted]


def test_a_fragment_without_an_index_continues_the_last_block() -> None:
    other = {"type": "reasoning.encrypted", "data": "d"}
    chunks = [[piece("a", None)], [piece("b", None)], [other], [piece("c", None)]]
    assert collect_details([thought(*chunks)]) == [piece("ab", None), other, piece("c", None)]


def test_blocks_of_one_chunk_are_never_joined() -> None:
    whole = [piece("a"), piece("b"), piece("c", None), piece("d", None)]
    assert collect_details([thought(whole)]) == whole


def test_unknown_members_are_replayed_and_null_does_not_overwrite() -> None:
    begun = piece("a", id="r1", format=None, extra={"deep": 1})
    later = piece("b", id=None, format="f")
    assert collect_details([thought([begun], [later])]) == [
        piece("ab", id="r1", format="f", extra={"deep": 1})
    ]


def test_a_block_that_continues_after_text_is_one_block() -> None:
    steps: list[Step] = [
        thought([piece("a")]),
        MessageStep("assistant", (TextPart("hi"),)),
        thought([piece("", signature="s")]),
    ]
    assert collect_details(steps) == [piece("a", signature="s")]


@pytest.mark.parametrize("odd", ["text", None, [1, "x"], {}])
def test_details_that_are_not_a_list_of_objects_are_ignored(odd: Any) -> None:
    assert collect_details([thought(odd)]) == []
    assert collect_details([ReasoningStep(states=(ReasoningState("other", [piece("a")]),))]) == []


def test_the_recorded_state_is_not_modified() -> None:
    chunk = [piece("a")]
    assert collect_details([thought(chunk, [piece("b")])]) == [piece("ab")]
    assert chunk == [piece("a")]


def test_recorded_blocks_are_joined_to_the_whole_reasoning() -> None:
    """The text of the blocks is the reasoning; an encrypted block is as it came."""
    recordings = [
        case
        for case in corpus.cases("chat", wire="sse")
        if "reasoning_field:reasoning_details" in case.meta["quirks"]
    ]
    if not recordings:
        pytest.skip(corpus.ABSENT)
    for case in recordings:
        found = deltas(case.data)
        states = tuple(each for each in found if isinstance(each, ReasoningState))
        blocks = collect_details([ReasoningStep(states=states)])
        places = [(block["type"], block.get("index")) for block in blocks]
        assert len(places) == len(set(places)), case.id
        thoughts = "".join(each.text for each in found if isinstance(each, Reasoning))
        texts = [str(block.get("text") or block.get("summary") or "") for block in blocks]
        assert "".join(texts) == thoughts, case.id


def deltas(data: bytes) -> list[Delta]:
    framer, decoder = SSEDecoder(), chat.ChatDecoder()
    frames = [*framer.feed(data), *framer.close()]
    return [delta for frame in frames for delta in decoder.feed(frame)]


# --- signatures -----------------------------------------------------------------------------------


def signature(value: Any, attach: Any) -> ReasoningStep:
    return ReasoningStep(states=(ReasoningState("gemini.thought_signature", value, attach),))


A, B = ToolCallStep("a", "look", "{}"), ToolCallStep("b", "look", "{}")


def extra(value: str) -> Body:
    return {"extra_content": {"google": {"thought_signature": value}}}


def test_a_signature_is_added_to_the_call_that_follows_it() -> None:
    steps: list[Step] = [signature("s", "tool"), A, B]
    assert add_call_signatures(steps, [{"id": "a"}, {"id": "b"}]) == [
        {"id": "a", **extra("s")},
        {"id": "b"},
    ]
    steps = [signature("s", "tool"), A, signature("t", "tool"), B]
    assert add_call_signatures(steps, [{"id": "a"}, {"id": "b"}]) == [
        {"id": "a", **extra("s")},
        {"id": "b", **extra("t")},
    ]


def test_a_signature_of_vertex_goes_back_where_it_was() -> None:
    """earendil-works/pi issue 6733: Vertex AI has a member of its own, in its Chat endpoint."""
    state = ReasoningState("vertex.thought_signature", "s", "tool")
    steps: list[Step] = [ReasoningStep(states=(state,)), A]
    assert add_call_signatures(steps, [{"id": "a"}]) == [
        {"id": "a", "extra_content": {"vertex": {"thought_signature": "s"}}}
    ]


def test_a_signature_of_the_text_is_added_to_the_message() -> None:
    steps: list[Step] = [signature("s", "text"), MessageStep("assistant", (TextPart("hi"),))]
    assert text_signature(steps) == extra("s")
    assert add_call_signatures([*steps, A], [{"id": "a"}]) == [{"id": "a"}]


@pytest.mark.parametrize("odd", [None, 1, {"a": 1}])
def test_an_invalid_signature_is_left_out(odd: Any) -> None:
    assert add_call_signatures([signature(odd, "tool"), A], [{"id": "a"}]) == [{"id": "a"}]
    assert text_signature([signature(odd, "text")]) == {}
