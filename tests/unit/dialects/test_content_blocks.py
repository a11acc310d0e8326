"""Content blocks that several dialects share: what is counted over a message, and what a block
leaves when it is closed."""

from __future__ import annotations

from typing import Any

from antiphon.core.deltas import (
    Annotation,
    Delta,
    Extra,
    Reasoning,
    ReasoningState,
    Text,
    ToolCall,
    ToolEnd,
)
from antiphon.dialects.content_blocks import (
    CallBlock,
    ContentBlocks,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    url_citation,
)

URL = "https://example.org"


def annotate(citation: Any, start: int, end: int) -> Annotation | None:
    return url_citation(citation, None, start, end) if isinstance(citation, str) else None


def make_state(text: str, signature: str) -> ReasoningState | None:
    return ReasoningState("scheme", [text, signature], "block") if signature else None


def test_citations_cover_the_text_of_their_block() -> None:
    block = TextBlock(10, annotate, [URL])
    assert (block.write("Rain"), block.write(""), block.write(7)) == ([Text("Rain")], [], [])
    assert block.cite({"page": 1}) == []
    assert block.close() == [url_citation(URL, "", 10, 14), Extra("citation", {"page": 1})]


def test_only_a_title_that_is_text_is_sent() -> None:
    titles = [url_citation(URL, title, 0, 0).annotation["title"] for title in ("A", None, 7)]
    assert titles == ["A", "", ""]


def test_reasoning_leaves_the_state_of_the_whole_block() -> None:
    block = ReasoningBlock(2, make_state)
    assert block.write("Hm.") == [Reasoning("Hm.", part=2)]
    assert block.write("") == block.sign("a") == block.sign("b") == []
    assert block.close() == [ReasoningState("scheme", ["Hm.", "ab"], "block")]
    assert ReasoningBlock(1, make_state).close() == []


def test_a_call_has_the_arguments_of_its_pieces_or_those_it_was_opened_with() -> None:
    block = CallBlock(0, '{"a":1}')
    assert block.write("") == []
    assert block.close() == [ToolCall(0, arguments='{"a":1}'), ToolEnd(0)]
    block = CallBlock(1)
    assert block.write('{"b"') == [ToolCall(1, arguments='{"b"')]
    assert block.close() == [ToolEnd(1)]


def test_calls_and_reasoning_are_counted_over_the_message() -> None:
    blocks = ContentBlocks(annotate)
    assert [blocks.new_call()[0], blocks.new_call()[0]] == [0, 1]
    first, second = blocks.new_reasoning(make_state), blocks.new_reasoning(make_state)
    assert first.write("a") + second.write("b") == [Reasoning("a", part=1), Reasoning("b", part=2)]


def test_text_begins_where_the_text_of_the_same_output_message_ends() -> None:
    def next_start() -> object:
        block = blocks.new_text([URL])
        [annotation] = block.close()
        return annotation

    blocks = ContentBlocks(annotate)
    blocks.measure([Text("Rain"), Extra("x", None)])
    assert next_start() == url_citation(URL, "", 4, 4)
    ends: list[Delta] = [Reasoning("Hm."), ToolCall(0)]
    for delta in ends:
        assert blocks.measure([Text("Rain"), delta]) == [Text("Rain"), delta]
        assert next_start() == url_citation(URL, "", 0, 0)
    blocks.measure([Text("Rain"), ReasoningState("scheme", "x", "block")])
    assert next_start() == url_citation(URL, "", 4, 4)
    blocks.end_message()
    assert next_start() == url_citation(URL, "", 0, 0)


def test_blocks_are_closed_once() -> None:
    blocks = ContentBlocks(annotate)
    for index in (3, 5):
        number, block = blocks.new_call()
        blocks.open(index, block)
        assert (blocks[index], number) == (block, index == 5)
    blocks.open(7, OpaqueBlock())
    assert blocks.close(5) == [ToolCall(1, arguments="{}"), ToolEnd(1)]
    assert (blocks.close(5), blocks[5]) == ([], None)
    assert blocks.close_all() == [ToolCall(0, arguments="{}"), ToolEnd(0)]
    assert blocks.close_all() == []


def test_a_call_that_the_end_of_the_message_cuts_off_is_not_complete() -> None:
    blocks = ContentBlocks(annotate)
    blocks.open(0, blocks.new_text())
    blocks.open(1, blocks.new_call()[1])
    assert blocks.close_all(is_cut=True) == [ToolEnd(0, complete=False)]
    assert blocks.close_all(is_cut=True) == []
