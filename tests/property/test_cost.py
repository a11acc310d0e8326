"""The cost of an event does not grow with what has been streamed already.

Counted, not timed: the number of calls that the interpreter makes for equal stretches of a stream.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from antiphon.core.stream.source import Source
from antiphon.core.translation.translation import Translation
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.dialects.responses.render import SSEEncoder
from tests.support.machines import machine

STRETCH = 400


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    document = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def call(arguments: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more}}]}


STREAMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"content": "Once"}, {"content": " upon"}),
    "reasoning": ({"reasoning_content": "Hm"}, {"reasoning_content": " well"}),
    "arguments": (call('{"city":"', name="get_weather"), call("Ulm ")),
    "input of a custom tool": (call('{"input":"', name="exec"), call("ls ")),
}


class CallCounter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


def count_calls(kind: str, stretches: int) -> list[int]:
    """Number of calls for each stretch of a stream, from the bytes of the provider to those of
    the client."""
    translation, encoder = Translation(machine(), Source(ChatDialect())), SSEEncoder()
    first, more = STREAMS[kind]
    encoder.feed(translation.feed(chunk({"role": "assistant", **first})))
    one = chunk(more)
    return [_count(translation, encoder, [one] * STRETCH) for _ in range(stretches)]


def _count(translation: Translation, encoder: SSEEncoder, chunks: Iterable[bytes]) -> int:
    counter = CallCounter()
    sys.setprofile(counter)
    try:
        for each in chunks:
            encoder.feed(translation.feed(each))
    finally:
        sys.setprofile(None)
    return counter.count


@pytest.mark.parametrize("kind", STREAMS)
def test_a_later_stretch_of_a_stream_costs_no_more_than_an_earlier_one(kind: str) -> None:
    count_calls(kind, 1)  # what is made once is made now
    first, *later = count_calls(kind, 8)
    assert first > STRETCH
    assert max(later) <= first * 1.01
