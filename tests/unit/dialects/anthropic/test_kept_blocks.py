"""Blocks that are kept as they are, for a client of the same format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Annotation,
    BlockMembers,
    BlockStart,
    Delta,
    Extra,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    ResponseMembers,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.anthropic.decode import AnthropicDecoder, decode
from antiphon.dialects.anthropic.dialect import AnthropicDialect
from antiphon.dialects.anthropic.kept_blocks import (
    BLOCK_DELTA,
    client_block,
    echoed_block,
    is_own_citation,
    make_extra,
)
from tests.support.dialect_samples.anthropic import begin, end, fed, grow, stop, text

Document = dict[str, Any]

USE: Document = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
RESULT: Document = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITATION = {
    "type": "web_search_result_location",
    "url": "https://a.test",
    "title": "A",
    "cited_text": "wet",
    "encrypted_index": "E",
}


def kept(*events: Any) -> list[Delta]:
    return fed(*events, decoder=AnthropicDecoder(keeps_blocks=True))


def whole(*content: Any, **fields: Any) -> list[Delta]:
    body = {"type": "message", "id": "x", "model": "m", "content": content, **fields}
    _, *deltas, members = decode(json.dumps(body).encode(), keeps_blocks=True)
    assert isinstance(members, ResponseMembers)
    return deltas


def arguments(fragment: str) -> Document:
    return grow(type="input_json_delta", partial_json=fragment)


def test_only_a_client_of_the_same_format_gets_the_blocks() -> None:
    events = (begin(USE), end())
    frames = json.dumps({"type": "message", "content": [USE]}).encode()
    dialect = AnthropicDialect()
    for other in ("", "responses", "chat"):
        assert fed(*events, decoder=dialect.for_client(other).decoder()) == fed(*events)
        assert dialect.for_client(other).decode(frames) == decode(frames)
    same = dialect.for_client("messages")
    assert fed(*events, decoder=same.decoder()) == kept(*events)
    assert same.decode(frames) == decode(frames, keeps_blocks=True)


# --- blocks without a canonical form --------------------------------------------------------------


def test_a_call_of_the_provider_is_an_item_with_its_pieces() -> None:
    pieces = ('{"query"', ': "rain"}')
    deltas = kept(begin(USE), *map(arguments, pieces), end(), begin(RESULT, 1), end(1))
    events = [
        RawItemEvent(1, BLOCK_DELTA, {"delta": arguments(piece)["delta"]}) for piece in pieces
    ]
    assert deltas == [
        RawItemStarted(1, client_block(USE)),
        *events,
        RawItem(client_block({**USE, "input": {"query": "rain"}}), 1),
        RawItemStarted(2, client_block(RESULT)),
        RawItem(client_block(RESULT), 2),
    ]


def test_an_input_that_was_cut_off_is_left_out() -> None:
    *_, last = kept(begin(USE), arguments('{"query'), end())
    assert last == RawItem(client_block(USE), 1)


def test_other_pieces_are_members_of_the_block() -> None:
    block = {"type": "compaction", "content": None}
    delta = {"type": "compaction_delta", "content": "so far"}
    started, event, done = kept(begin(block), grow(**delta), end())
    assert started == RawItemStarted(1, client_block(block))
    assert event == RawItemEvent(1, BLOCK_DELTA, {"delta": delta})
    assert done == RawItem(client_block({"type": "compaction", "content": "so far"}), 1)


def test_a_piece_without_a_type_is_none() -> None:
    _, extra, _ = kept(begin(USE), {"type": "content_block_delta", "index": 0, "delta": {}}, end())
    assert extra == Extra("content_block_delta", {})


def test_a_block_without_a_type_is_not_kept() -> None:
    assert kept(begin({"id": "x"})) == [Extra("content_block", {"id": "x"})]


def test_a_whole_block_is_an_item_as_well() -> None:
    block = {**USE, "input": {"query": "rain"}}
    assert whole(block) == [RawItemStarted(1, client_block(block)), RawItem(client_block(block), 1)]


# --- text -----------------------------------------------------------------------------------------


def test_plain_text_has_nothing_to_keep() -> None:
    assert kept(begin({"type": "text", "text": ""}), text("a"), text("b"), end()) == [
        Text("a"),
        Text("b"),
    ]


def test_a_second_block_of_text_begins_an_item_of_its_own() -> None:
    block = {"type": "text", "text": ""}
    deltas = kept(begin(block), text("ab"), end(), begin(block, 1), text("c", 1), text("d", 1))
    assert deltas == [Text("ab"), BlockStart("text", make_extra({})), Text("c"), Text("d")]


def test_a_block_without_text_begins_no_item() -> None:
    assert kept(begin({"type": "text", "text": "", "citations": []}), end()) == []


def test_citations_are_members_of_their_block() -> None:
    cited = {"type": "text", "text": "", "citations": []}
    delta = grow(type="citations_delta", citation=CITATION)
    opened, told, annotation, members = kept(begin(cited), delta, text("wet"), end())
    assert (opened, told) == (BlockStart("text", make_extra({"citations": []})), Text("wet"))
    assert isinstance(annotation, Annotation)
    assert annotation.annotation["url"] == "https://a.test"
    assert members == BlockMembers(make_extra({"citations": [CITATION]}))


def test_citations_of_a_block_that_announces_none_are_annotations_alone() -> None:
    delta = grow(type="citations_delta", citation=CITATION)
    before = (begin({"type": "text", "text": "It is "}), end())
    block = begin({"type": "text", "text": ""}, 1)
    *_, annotation = kept(*before, block, {**delta, "index": 1}, text("wet", 1), end(1))
    assert isinstance(annotation, Annotation)
    place = annotation.annotation["start_index"], annotation.annotation["end_index"]
    assert place == (0, 3)  # in its own part


def test_text_keeps_members_without_a_name() -> None:
    block = {"type": "text", "text": "a", "citations": None, "x": 1}
    assert whole(block) == [
        BlockStart("text", make_extra({"citations": None, "x": 1})),
        Text("a"),
    ]


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_of_the_client_keeps_members_without_a_name() -> None:
    block = {"type": "tool_use", "id": "x", "name": "f", "input": {}}
    call = [ToolCall(0, "x", "f"), ToolCall(0, arguments="{}"), ToolEnd(0)]
    assert whole(block) == call
    caller = {"caller": {"type": "direct"}}
    assert whole({**block, **caller}) == [BlockStart("call", make_extra(caller)), *call]


# --- the end of a message -------------------------------------------------------------------------


def test_members_of_a_message_without_a_name_are_kept() -> None:
    start = {"id": "x", "usage": {"input_tokens": 1, "cache_creation": {"ephemeral": 0}}}
    ended = stop("pause_turn", {"output_tokens": 2, "server_tool_use": {"n": 1}}, container={})
    *_, members, finish = kept(
        {"type": "message_start", "message": start},
        {**ended, "context_management": {"applied_edits": []}},
    )
    assert members == ResponseMembers(
        make_extra(
            {
                "stop_reason": "pause_turn",
                "container": {},
                "context_management": {"applied_edits": []},
                "usage": {"cache_creation": {"ephemeral": 0}, "server_tool_use": {"n": 1}},
            }
        )
    )
    assert finish.reason == "pause_turn"  # type: ignore[union-attr]


def test_a_whole_message_keeps_its_members_as_well() -> None:
    body = {"type": "message", "content": [], "stop_reason": "end_turn", "container": {"id": "c"}}
    _, _, members, _ = decode(json.dumps(body).encode(), keeps_blocks=True)
    expected = {"stop_reason": "end_turn", "container": {"id": "c"}, "usage": {}}
    assert members == ResponseMembers(make_extra(expected))


# --- blocks that a client sends back --------------------------------------------------------------


@pytest.mark.parametrize("block", [USE, RESULT, {"type": "unknown"}])
def test_a_block_without_a_canonical_form_stands_for_itself(block: Document) -> None:
    item = {"type": "client_block", "role": "assistant", "format": "messages", "block": block}
    assert client_block(block) == echoed_block(block) == item


def test_other_tools_that_the_provider_runs_stand_for_calls_and_results() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "1"}}
    done = {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"stdout": "1"}}
    assert client_block(use)["instead"] == {
        "type": "function_call",
        "call_id": "s",
        "name": "code_execution",
        "arguments": '{"code":"1"}',
    }
    assert client_block(done)["instead"] == {
        "type": "function_call_output",
        "call_id": "s",
        "output": '{"stdout":"1"}',
    }


@pytest.mark.parametrize(
    "block",
    [
        {**USE, "id": "srvtoolu_ap1x"},
        {**RESULT, "tool_use_id": "srvtoolu_ap1x"},
    ],
)
def test_a_search_that_the_renderer_has_written_is_for_no_provider(block: Document) -> None:
    item = echoed_block(block)
    assert (item["format"], item["hint"]) == ("", True)


def test_a_citation_that_the_renderer_has_written_has_no_index() -> None:
    assert is_own_citation({**CITATION, "encrypted_index": ""})
    assert not is_own_citation(CITATION)
    assert not is_own_citation("x")
