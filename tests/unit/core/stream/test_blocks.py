"""Output blocks: they collect until streaming starts, then every piece is an event."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.events import Event
from antiphon.core.stream.blocks import ReasoningBlock, RefusalBlock, TextBlock
from tests.support.machines import documents

LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
CITATION = {"type": "file_path", "file_id": "f", "index": 0}


def types(events: Sequence[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in documents(events)]


def delta_texts(events: Sequence[Event]) -> list[str]:
    return [event["delta"] for event in documents(events) if "delta" in event]


def plain(item: object) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(item))
    return document


def test_collected_text_is_sent_in_one_piece_when_streaming_starts() -> None:
    block = TextBlock("msg_1")
    assert block.append("a", [LOGPROB]) == block.append("b") == block.annotate(CITATION) == []
    events = block.start_streaming(3)
    assert types(events) == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
    ]
    assert delta_texts(events) == ["ab"]
    assert documents(events)[2]["logprobs"] == [LOGPROB]
    assert {event.get("output_index") for event in documents(events)} == {3}


def test_a_message_has_its_phase_from_the_first_event() -> None:
    block = TextBlock("msg_1", "commentary")
    added, *_ = documents(block.start_streaming(0))
    *_, done = documents(block.close("completed")[0])
    assert added["item"]["phase"] == done["item"]["phase"] == "commentary"
    assert "phase" not in plain(TextBlock("msg_2").item())


def test_streaming_text_is_sent_piece_by_piece() -> None:
    block = TextBlock("msg_1")
    block.start_streaming(0)
    assert delta_texts(block.append("a")) == ["a"]
    assert delta_texts(block.append("b", [LOGPROB])) == ["b"]
    [annotation] = documents(block.annotate(CITATION))
    assert (annotation["annotation_index"], annotation["annotation"]) == (0, CITATION)
    assert annotation["content_index"] == 0
    events, item = block.close("completed")
    assert types(events) == ["output_text.done", "content_part.done", "output_item.done"]
    [part] = plain(item)["content"]
    assert part == {
        "type": "output_text",
        "text": "ab",
        "annotations": [CITATION],
        "logprobs": [LOGPROB],
    }


def test_a_text_is_whole_after_any_number_of_pieces() -> None:
    block = TextBlock("msg_1")
    block.start_streaming(0)
    text = ""
    for count in range(200):
        block.append(f"{count} ")
        text += f"{count} "
        assert plain(block.item())["content"][0]["text"] == text


def test_a_piece_of_a_long_text_takes_little_more_memory_than_its_characters() -> None:
    block = TextBlock("msg_1")
    tracemalloc.start()
    for count in range(10_000):
        block.append(f"{count:8}")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 10_000 < 8 + 8


def test_an_empty_message_has_a_part_and_no_delta() -> None:
    block = TextBlock("msg_1")
    assert types(block.start_streaming(0)) == ["output_item.added", "content_part.added"]
    _, item = block.close("completed")
    assert plain(item)["content"][0]["text"] == ""


def test_a_refusal_streams_like_text() -> None:
    block = RefusalBlock("msg_1")
    assert block.append("n") == block.append("o") == []
    assert delta_texts(block.start_streaming(0)) == ["no"]
    assert delta_texts(block.append("!")) == ["!"]
    events, item = block.close("incomplete")
    assert types(events) == ["refusal.done", "content_part.done", "output_item.done"]
    assert plain(item)["content"] == [{"type": "refusal", "refusal": "no!"}]
    assert plain(item)["status"] == "incomplete"


@pytest.mark.parametrize("block", [TextBlock("msg_1"), RefusalBlock("msg_1")])
def test_the_item_of_an_open_message_has_its_text_so_far(block: TextBlock | RefusalBlock) -> None:
    block.append("a")
    block.start_streaming(0)
    item = plain(block.item())
    assert item["status"] == "in_progress"
    assert "a" in item["content"][0].values()


def test_a_change_of_kind_or_number_begins_a_new_part() -> None:
    block = ReasoningBlock("rs_1", None)
    block.append("a", "raw", 0)
    assert types(block.start_streaming(0)) == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
    ]
    assert types(block.append("b", "raw", 1)) == [
        "reasoning_text.done",
        "content_part.done",
        "content_part.added",
        "reasoning_text.delta",
    ]
    assert types(block.append("c", "summary", 1)) == [
        "reasoning_text.done",
        "content_part.done",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
    ]
    assert types(block.append("d", "summary", 1)) == ["reasoning_summary_text.delta"]
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


def test_collected_parts_are_sent_whole_except_the_last() -> None:
    block = ReasoningBlock("rs_1", None)
    for text, part in (("a", 0), ("b", 0), ("c", 1)):
        assert block.append(text, "summary", part) == []
    events = block.start_streaming(0)
    assert delta_texts(events) == ["ab", "c"]
    assert types(events)[3:5] == ["reasoning_summary_text.done", "reasoning_summary_part.done"]
    assert types(events)[-1] == "reasoning_summary_text.delta"


def test_a_reasoning_item_without_raw_text_has_no_content() -> None:
    block = ReasoningBlock("rs_1", None)
    block.append("a", "summary", 0)
    [added, *_] = documents(block.start_streaming(0))
    assert "content" not in added["item"]
    assert "content" not in plain(block.item())
    assert "encrypted_content" not in plain(block.item())


def test_state_is_sealed_even_without_reasoning_text() -> None:
    block = ReasoningBlock("rs_1", lambda states, raw: "+".join(state.value for state in states))
    block.add_state(ReasoningState("s", "x"))
    block.add_state(ReasoningState("s", "y"))
    assert types(block.start_streaming(0)) == ["output_item.added"]
    events, item = block.close("completed")
    assert types(events) == ["output_item.done"]
    assert plain(item)["encrypted_content"] == "x+y"


def test_raw_reasoning_is_sealed_with_the_item_and_not_before() -> None:
    block = ReasoningBlock("rs_1", lambda states, raw: f"sealed {raw}")
    block.append("a", "raw", 0)
    assert "encrypted_content" not in plain(block.item())
    assert plain(block.item("completed"))["encrypted_content"] == "sealed a"


def test_a_summary_alone_needs_no_seal() -> None:
    block = ReasoningBlock("rs_1", lambda states, raw: "sealed")
    block.append("a", "summary", 0)
    assert "encrypted_content" not in plain(block.item("completed"))


def test_the_work_is_linear_in_the_parts_of_reasoning() -> None:
    block = ReasoningBlock("rs_1", None)
    block.start_streaming(0)
    began = time.process_time()
    for number in range(10_000):
        block.append("a", "raw" if number % 3 else "summary", number)
    assert time.process_time() - began < 1  # were it quadratic, several seconds
    item = plain(block.close("completed")[1])
    assert (len(item["summary"]), len(item["content"])) == (3334, 6666)
