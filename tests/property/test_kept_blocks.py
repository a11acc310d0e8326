"""Any events of Anthropic for a client of the same format: one end, blocks one after another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.events import TERMINAL_EVENTS, Event, HostedToolEvent
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from antiphon.dialects.anthropic.kept_blocks import BLOCK_DELTA, CLIENT_BLOCK
from antiphon.dialects.anthropic.render import MessagesRenderer
from antiphon.dialects.anthropic.render_message import render_whole
from antiphon.dialects.client_dialect import EventBatch
from tests.property.test_history import junk, mangled
from tests.support.format_judges import frames
from tests.support.machines import documents, machine
from tests.support.stream_validator import check

DIALECT = AnthropicDialect().for_client("messages")

texts = st.sampled_from(["", "a", "é\n", "{}", '{"x": 1}', "{"])
indexes = st.integers(0, 2)
kinds = st.sampled_from(
    """
    text thinking redacted_thinking tool_use server_tool_use web_search_tool_result mcp_tool_use
    compaction
    """.split()
)
citation = mangled(url=texts, title=texts, encrypted_index=texts, cited_text=texts)
block = mangled(
    type=kinds,
    id=texts,
    name=texts,
    text=texts,
    thinking=texts,
    input=st.just({"x": 1}) | junk,
    citations=st.lists(citation, max_size=2) | st.none(),
    caller=junk,
    content=junk,
)
delta = mangled(
    type=st.sampled_from(
        "text_delta thinking_delta signature_delta input_json_delta citations_delta other".split()
    ),
    text=texts,
    thinking=texts,
    signature=texts,
    partial_json=texts,
    citation=citation,
)
usage = mangled(input_tokens=st.integers(), server_tool_use=junk, service_tier=texts)
ending = mangled(
    stop_reason=st.sampled_from(["end_turn", "tool_use", "pause_turn", "max_tokens", "refusal"]),
    stop_sequence=texts,
    stop_details=junk,
    container=junk,
)
event = st.one_of(
    mangled(type=st.just("content_block_start"), index=indexes, content_block=block),
    mangled(type=st.just("content_block_delta"), index=indexes, delta=delta),
    mangled(type=st.just("content_block_stop"), index=indexes),
)
last = mangled(type=st.just("message_delta"), delta=ending, usage=usage, context_management=junk)
whole = mangled(
    type=st.just("message"),
    content=st.lists(block, max_size=4),
    usage=usage,
    stop_reason=st.sampled_from(["end_turn", "tool_use", "pause_turn"]),
    container=junk,
)


def is_piece(event: Event) -> bool:
    return isinstance(event, HostedToolEvent) and event.type == BLOCK_DELTA


def check_pieces(events: list[dict[str, Any]]) -> None:
    """Check that the pieces of a kept block come while its item is open."""
    is_kept = False
    for each in events:
        if each["type"] == "response.output_item.added":
            is_kept = each["item"]["type"] == CLIENT_BLOCK
        elif each["type"] == "response.output_item.done":
            is_kept = False
        elif each["type"] == BLOCK_DELTA:
            assert is_kept


def check_events(events: list[Event]) -> None:
    """Check the canonical events, and what they are rendered as."""
    # The format has no rule for pieces of a kept block: only a client of the same format gets them.
    check(documents([each for each in events if not is_piece(each)]))
    check_pieces(documents(events))
    assert isinstance(events[-1], TERMINAL_EVENTS)
    response: Response = events[-1].response
    json.loads(render_whole(response))
    renderer = MessagesRenderer()
    data = renderer.feed(EventBatch(0, events)) + renderer.close()
    count = 0
    is_open = False
    for name, text in frames(data):
        if name == "content_block_start":
            assert json.loads(text)["index"] == count
            count += 1
            is_open = True
        elif name in ("content_block_delta", "content_block_stop"):
            assert is_open
            assert json.loads(text)["index"] == count - 1
            is_open = name != "content_block_stop"


def translation() -> Translation:
    seal = machine((), seal=lambda states, text: "ap2.sealed", empty_arguments="{}")
    return Translation(seal, Source(DIALECT))


@given(st.lists(event | junk, max_size=10), last)
def test_any_events_give_blocks_one_after_another(sent: list[Any], end: Any) -> None:
    data = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in (*sent, end))
    made = translation()
    check_events(made.feed(data) + made.close())


def test_pieces_of_a_kept_block_come_while_it_is_open() -> None:
    started = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": "{}"}
    sent = [
        {"type": "content_block_start", "index": 0, "content_block": started},
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]
    made = translation()
    events = made.feed(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in sent))
    events += made.close()
    assert any(map(is_piece, events))
    check_events(events)


@given(whole | junk)
def test_any_whole_message_gives_blocks_one_after_another(document: Any) -> None:
    check_events(translation().feed_whole(json.dumps(document).encode()))


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_does_not_raise(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    for name in (b"content", b"citations", b"caller", b"input"):
        body = b'{"type":"message","content":[{"type":"server_tool_use","%b":%b}]}' % (name, nested)
        check_events(translation().feed_whole(body))
