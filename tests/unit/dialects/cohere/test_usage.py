"""Token counts of Cohere responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import Delta, Finish, Usage
from antiphon.dialects.cohere.decode import CohereDecoder
from antiphon.framing.sse import Frame

TOKENS = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2}


USAGE = {"billed_units": {"input_tokens": 1}, "tokens": TOKENS, "cached_tokens": 4}


COUNTED = Usage(input_tokens=9, output_tokens=5, cached_tokens=4, reasoning_tokens=2)


def end(**delta: Any) -> Frame:
    return Frame(json.dumps({"type": "message-end", "delta": delta}).encode())


def feed(*frames: Frame) -> list[Delta]:
    decoder = CohereDecoder()
    return [delta for frame in frames for delta in decoder.feed(frame)] + decoder.close()


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (USAGE, [COUNTED]),
        ({"billed_units": {"input_tokens": 1, "output_tokens": 2}}, [Usage(1, 2)]),
        ({"tokens": None}, []),
        ([], []),
    ],
)
def test_actual_tokens_are_preferred_to_billed_units(usage: Any, counted: list[Delta]) -> None:
    assert feed(end(usage=usage, finish_reason="COMPLETE")) == [*counted, Finish("COMPLETE")]
