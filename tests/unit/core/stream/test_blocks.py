"""Items while they grow: silent until they go live, then an event for every piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from antiphon.core.stream.blocks import ReasoningBlock, RefusalBlock, TextBlock
from antiphon.core.stream.deltas import ReasoningState
from antiphon.wire.events import Event
from tests.support.machines import documents

LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
CITATION = {"type": "file_path", "file_id": "f", "index": 0}


def types(events: Sequence[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in documents(events)]


def told(events: Sequence[Event]) -> list[str]:
    return [event["delta"] for event in documents(events) if "delta" in event]


def plain(item: object) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(item))
    return document


def test_text_off_the_air_is_told_in_one_piece_when_it_goes_live() -> None:
    block = TextBlock("msg_1")
    assert block.grow("a", [LOGPROB]) == block.grow("b") == block.annotate(CITATION) == []
    events = block.go_live(3)
    assert types(events) == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
    ]
    assert told(events) == ["ab"]
    assert documents(events)[2]["logprobs"] == [LOGPROB]
    assert {event.get("output_index") for event in documents(events)} == {3}


def test_a_message_shows_its_label_from_its_first_word() -> None:
    block = TextBlock("msg_1", "commentary")
    added, *_ = documents(block.go_live(0))
    *_, done = documents(block.close("completed")[0])
    assert added["item"]["phase"] == done["item"]["phase"] == "commentary"
    assert "phase" not in plain(TextBlock("msg_2").item())


def test_text_on_the_air_is_told_piece_by_piece() -> None:
    block = TextBlock("msg_1")
    block.go_live(0)
    assert told(block.grow("a")) == ["a"]
    assert told(block.grow("b", [LOGPROB])) == ["b"]
    [annotation] = documents(block.annotate(CITATION))
    assert (annotation["annotation_index"], annotation["annotation"]) == (0, CITATION)
    events, item = block.close("completed")
    assert types(events) == ["output_text.done", "content_part.done", "output_item.done"]
    [part] = plain(item)["content"]
    assert part == {
        "type": "output_text",
        "text": "ab",
        "annotations": [CITATION],
        "logprobs": [LOGPROB],
    }


def test_an_empty_message_has_a_part_and_no_delta() -> None:
    block = TextBlock("msg_1")
    assert types(block.go_live(0)) == ["output_item.added", "content_part.added"]
    _, item = block.close("completed")
    assert plain(item)["content"][0]["text"] == ""


def test_a_refusal_grows_like_text() -> None:
    block = RefusalBlock("msg_1")
    assert block.grow("n") == block.grow("o") == []
    assert told(block.go_live(0)) == ["no"]
    assert told(block.grow("!")) == ["!"]
    events, item = block.close("incomplete")
    assert types(events) == ["refusal.done", "content_part.done", "output_item.done"]
    assert plain(item)["content"] == [{"type": "refusal", "refusal": "no!"}]
    assert plain(item)["status"] == "incomplete"


@pytest.mark.parametrize("block", [TextBlock("msg_1"), RefusalBlock("msg_1")])
def test_a_look_at_a_growing_message_shows_what_is_there(block: TextBlock | RefusalBlock) -> None:
    block.grow("a")
    block.go_live(0)
    item = plain(block.item())
    assert item["status"] == "in_progress"
    assert "a" in item["content"][0].values()


def test_a_change_of_kind_or_number_begins_a_new_part() -> None:
    block = ReasoningBlock("rs_1", None)
    block.grow("a", "raw", 0)
    assert types(block.go_live(0)) == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
    ]
    assert types(block.grow("b", "raw", 1)) == [
        "reasoning_text.done",
        "content_part.done",
        "content_part.added",
        "reasoning_text.delta",
    ]
    assert types(block.grow("c", "summary", 1)) == [
        "reasoning_text.done",
        "content_part.done",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
    ]
    assert types(block.grow("d", "summary", 1)) == ["reasoning_summary_text.delta"]
    events, item = block.close("completed")
    assert types(events) == [
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert plain(item) == {
        "type": "reasoning",
        "id": "rs_1",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "cd"}],
        "content": [
            {"type": "reasoning_text", "text": "a"},
            {"type": "reasoning_text", "text": "b"},
        ],
    }


def test_parts_that_were_collected_are_told_whole_but_for_the_last() -> None:
    block = ReasoningBlock("rs_1", None)
    for text, part in (("a", 0), ("b", 0), ("c", 1)):
        assert block.grow(text, "summary", part) == []
    events = block.go_live(0)
    assert told(events) == ["ab", "c"]
    assert types(events)[3:5] == ["reasoning_summary_text.done", "reasoning_summary_part.done"]
    assert types(events)[-1] == "reasoning_summary_text.delta"


def test_raw_content_is_left_out_where_there_is_none() -> None:
    block = ReasoningBlock("rs_1", None)
    block.grow("a", "summary", 0)
    [added, *_] = documents(block.go_live(0))
    assert "content" not in added["item"]
    assert "content" not in plain(block.item())
    assert "encrypted_content" not in plain(block.item())


def test_state_leaves_sealed_even_without_a_word_of_thought() -> None:
    block = ReasoningBlock("rs_1", lambda states, raw: "+".join(state.value for state in states))
    block.keep(ReasoningState("s", "x"))
    block.keep(ReasoningState("s", "y"))
    assert types(block.go_live(0)) == ["output_item.added"]
    events, item = block.close("completed")
    assert types(events) == ["output_item.done"]
    assert plain(item)["encrypted_content"] == "x+y"


def test_raw_reasoning_is_sealed_with_the_item_and_not_before() -> None:
    block = ReasoningBlock("rs_1", lambda states, raw: f"sealed {raw}")
    block.grow("a", "raw", 0)
    assert "encrypted_content" not in plain(block.item())
    assert plain(block.item("completed"))["encrypted_content"] == "sealed a"


def test_a_summary_alone_needs_no_seal() -> None:
    block = ReasoningBlock("rs_1", lambda states, raw: "sealed")
    block.grow("a", "summary", 0)
    assert "encrypted_content" not in plain(block.item("completed"))
