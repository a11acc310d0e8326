"""Rendering of what the provider has sent in this format."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import (
    Annotation,
    BlockMembers,
    BlockStart,
    Delta,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Refusal,
    ResponseMembers,
    Text,
    ToolCall,
)
from antiphon.core.events import HostedToolEvent
from antiphon.core.response import Response
from antiphon.dialects.anthropic.kept_blocks import BLOCK_DELTA, client_block, make_extra
from antiphon.dialects.anthropic.render_blocks import ContentBlocks
from antiphon.dialects.anthropic.render_kept import KeptContent
from antiphon.dialects.anthropic.render_message import render_whole
from tests.unit.dialects.anthropic.test_render import finished, render

Document = dict[str, Any]
USE: Document = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
URL = {"type": "url_citation", "url": "https://a.test", "title": "A"}
OWN = {"type": "web_search_result_location", "url": "https://a.test", "encrypted_index": "E"}


def blocks(*deltas: Delta) -> list[list[Document]]:
    """The start and the deltas of each block."""
    found: list[list[Document]] = []
    for event in render(finished(*deltas)):
        if event["type"] == "content_block_start":
            found.append([event["content_block"]])
        elif event["type"] == "content_block_delta":
            found[-1].append(event["delta"])
    return found


def whole(*deltas: Delta, reason: str = "stop") -> Document:
    response: Response = finished(*deltas, reason=reason)[-1].response  # type: ignore[union-attr]
    message: Document = json.loads(render_whole(response))
    return message


def test_a_block_is_rendered_as_it_came_with_its_pieces() -> None:
    piece = {"type": "input_json_delta", "partial_json": '{"query": "rain"}'}
    other = {"type": "unknown_delta", "x": 1}
    done = client_block({**USE, "input": {"query": "rain"}})
    deltas = (
        RawItemStarted(1, client_block(USE)),
        RawItemEvent(1, BLOCK_DELTA, {"delta": piece}),
        RawItemEvent(1, BLOCK_DELTA, {"delta": other}),
        RawItem(done, 1),
    )
    assert blocks(*deltas) == [[USE, piece, other]]
    assert whole(*deltas)["content"] == [done["block"]]


def test_an_input_that_came_whole_is_a_piece() -> None:
    item = client_block({**USE, "input": {"query": "rain"}})
    piece = {"type": "input_json_delta", "partial_json": '{"query":"rain"}'}
    assert blocks(RawItem(item)) == [[USE, piece]]


def test_a_block_without_input_is_whole_at_its_start() -> None:
    block = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    assert blocks(RawItem(client_block(block))) == [[block]]


def test_what_only_looks_like_a_block_is_not_rendered() -> None:
    for wrong in ({"block": "x"}, {"format": "chat"}, {"type": "other"}):
        item = client_block(USE) | wrong
        assert blocks(RawItem(item)) == []
        assert whole(RawItem(item))["content"] == []


def test_progress_of_other_items_is_not_rendered() -> None:
    kept = KeptContent(ContentBlocks(ends_with_text=False))
    assert kept.add(HostedToolEvent("response.web_search_call.searching", {"delta": {}})) == b""
    assert kept.add(HostedToolEvent(BLOCK_DELTA, {"delta": "x"})) == b""


def test_text_has_the_members_and_the_citations_of_its_block() -> None:
    deltas = (
        Text("It is "),
        BlockStart("text", make_extra({"citations": []})),
        Text("wet"),
        Annotation({**URL, "start_index": 0, "end_index": 3}),
        BlockMembers(make_extra({"citations": [OWN]})),
    )
    citation = {"type": "citations_delta", "citation": OWN}
    assert blocks(*deltas) == [
        [{"type": "text", "text": ""}, {"type": "text_delta", "text": "It is "}],
        [
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "wet"},
            citation,
        ],
    ]
    assert whole(*deltas)["content"] == [
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "wet", "citations": [OWN]},
    ]


def test_citations_that_came_with_the_start_are_rendered_at_the_end() -> None:
    deltas = (BlockStart("text", make_extra({"citations": [OWN]})), Text("wet"))
    started, _, citation = blocks(*deltas)[0]
    assert started == {"type": "text", "text": "", "citations": []}
    assert citation == {"type": "citations_delta", "citation": OWN}


def test_a_block_without_citations_of_its_own_may_be_annotated() -> None:
    place = {"start_index": 0, "end_index": 3}
    deltas = (BlockStart("text", make_extra({"x": 1})), Text("wet"), Annotation(URL | place))
    started, _, citation = blocks(*deltas)[0]
    assert started == {"type": "text", "text": "", "x": 1}
    assert citation["citation"]["url"] == "https://a.test"
    (block,) = whole(*deltas)["content"]
    assert block == {"type": "text", "text": "wet", "x": 1, "citations": [citation["citation"]]}


def test_a_block_whose_citations_are_null_has_none() -> None:
    deltas = (BlockStart("text", make_extra({"citations": None})), Text("wet"))
    assert blocks(*deltas)[0][0] == {"type": "text", "text": "", "citations": None}
    assert whole(*deltas)["content"] == [{"type": "text", "text": "wet", "citations": None}]


def test_a_call_has_the_members_of_its_block() -> None:
    caller = {"caller": {"type": "direct"}}
    deltas = (BlockStart("call", make_extra(caller)), ToolCall(0, "x", "get_weather", "{}"))
    assert blocks(*deltas)[0][0] | caller == blocks(*deltas)[0][0]
    (block,) = whole(*deltas)["content"]
    assert block["caller"] == caller["caller"]


def test_the_end_says_what_the_provider_says_of_it() -> None:
    context: Document = {"context_management": {"applied_edits": []}}
    members = {
        "stop_reason": "pause_turn",
        "container": {"id": "c"},
        "usage": {"server_tool_use": {"web_search_requests": 2}, "input_tokens": 99},
        **context,
    }
    deltas = (Text("a"), ResponseMembers(make_extra(members)))
    found = whole(*deltas, reason="pause_turn")
    assert (found["stop_reason"], found["container"]) == ("pause_turn", {"id": "c"})
    assert found["usage"]["server_tool_use"] == {"web_search_requests": 2}
    assert found["usage"]["input_tokens"] == 0  # counted
    assert found | context == found
    end = render(finished(*deltas, reason="pause_turn"))[-2]
    assert end["delta"] == {
        "stop_reason": "pause_turn",
        "stop_sequence": None,
        "container": {"id": "c"},
    }
    assert end | context == end


def test_a_reason_that_the_output_contradicts_is_not_used() -> None:
    deltas = (Text("a"), ResponseMembers(make_extra({"stop_reason": "tool_use"})))
    assert whole(*deltas)["stop_reason"] == "end_turn"
    call = ToolCall(0, "x", "get_weather", "{}")
    paused = ResponseMembers(make_extra({"stop_reason": "pause_turn"}))
    assert whole(call, paused)["stop_reason"] == "tool_use"


def test_details_of_a_refusal_are_those_of_the_provider() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "no"}
    ended = ResponseMembers(make_extra({"stop_reason": "refusal", "stop_details": details}))
    assert whole(Refusal("no"), ended)["stop_details"] == details
    assert "stop_details" not in whole(Text("no"), ended)  # for clients that get it as text
    silent = ResponseMembers(make_extra({"stop_reason": "refusal"}))
    refused = whole(Refusal("The model refused to respond."), silent)
    assert (refused["stop_reason"], "stop_details" in refused) == ("refusal", False)
