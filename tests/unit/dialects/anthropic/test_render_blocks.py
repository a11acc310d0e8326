"""Content blocks of a message: their indexes, and where the state of a provider goes."""

from __future__ import annotations

import json
from typing import Any

from antiphon.dialects.anthropic.render_blocks import (
    EMPTY_TEXT,
    EMPTY_THOUGHT,
    TEXT,
    THINKING,
    ContentBlocks,
)

SIGNED = [
    ("content_block_start", 1, EMPTY_THOUGHT),
    ("content_block_delta", 1, {"type": "signature_delta", "signature": "sealed"}),
    ("content_block_stop", 1, None),
]


def read(data: bytes) -> list[tuple[str, int, Any]]:
    frames = [json.loads(frame.split(b"data: ")[1]) for frame in data.split(b"\n\n") if frame]
    return [
        (each["type"], each["index"], each.get("content_block", each.get("delta")))
        for each in frames
    ]


def with_text(*, ends_with_text: bool = False) -> ContentBlocks:
    blocks = ContentBlocks(ends_with_text=ends_with_text)
    blocks.show(("text", 0), EMPTY_TEXT)
    blocks.close()
    return blocks


def test_a_block_is_opened_once_and_closed_before_the_next() -> None:
    blocks = ContentBlocks(ends_with_text=False)
    data = blocks.show(("text", 0), EMPTY_TEXT) + blocks.delta(TEXT, "Hi")
    assert blocks.show(("text", 0), EMPTY_TEXT) == b""
    data += blocks.show(("text", 1), EMPTY_TEXT) + blocks.close() + blocks.close()
    assert read(data) == [
        ("content_block_start", 0, EMPTY_TEXT),
        ("content_block_delta", 0, {"type": "text_delta", "text": "Hi"}),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, EMPTY_TEXT),
        ("content_block_stop", 1, None),
    ]


def test_every_block_begins_without_input() -> None:
    blocks = ContentBlocks(ends_with_text=False)
    blocks.open(("item", 0), {})
    had_input = [blocks.has_input]
    delta = {"type": "input_json_delta", "partial_json": "{}"}
    assert read(blocks.add_input("{}")) == [("content_block_delta", 0, delta)]
    had_input.append(blocks.has_input)
    blocks.open(("item", 1), {})
    assert [*had_input, blocks.has_input] == [False, True, False]


def test_a_block_that_is_left_open_is_not_closed_by_the_next() -> None:
    blocks = ContentBlocks(ends_with_text=False)
    blocks.open(("item", 0), {})
    blocks.leave_open()
    assert read(blocks.open(("item", 1), {})) == [("content_block_start", 1, {})]
    assert read(blocks.show(("text", 2), EMPTY_TEXT)) == [("content_block_start", 2, EMPTY_TEXT)]


def test_state_is_the_signature_of_the_open_thought() -> None:
    blocks = with_text()
    data = blocks.show(("thinking", 0), EMPTY_THOUGHT) + blocks.delta(THINKING, "Hm")
    data += blocks.end_thought("sealed")
    thought = ("content_block_delta", 1, {"type": "thinking_delta", "thinking": "Hm"})
    assert read(data) == [SIGNED[0], thought, *SIGNED[1:]]


def test_state_without_a_thought_is_an_empty_one() -> None:
    assert read(with_text().end_thought("sealed")) == SIGNED


def test_state_after_text_waits_for_the_next_block_if_text_is_to_be_last() -> None:
    blocks = with_text(ends_with_text=True)
    assert blocks.end_thought("sealed") == b""
    assert read(blocks.open(("item", 1), {})) == [*SIGNED, ("content_block_start", 2, {})]
    assert read(blocks.close()) == [("content_block_stop", 2, None)], "it is rendered once"
