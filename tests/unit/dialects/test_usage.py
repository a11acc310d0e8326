"""Token counts and log probabilities of a Chat Completions answer, in every spelling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import Delta, Start, Text, Usage
from antiphon.dialects.chat.decode import ChatDecoder
from antiphon.framing.sse import Frame
from tests.support.tables import table


def feed(chunk: dict[str, Any]) -> list[Delta]:
    """The deltas of a chunk, without who is answering."""
    deltas = ChatDecoder().feed(Frame(json.dumps(chunk).encode()))
    return [delta for delta in deltas if not isinstance(delta, Start)]


# Log probabilities


LOGPROB = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}


@table(
    ("logprobs", "expected"),
    [
        (None, ()),
        ({}, ()),
        ("odd", ()),
        ({"content": None, "refusal": None}, ()),
        ({"content": [LOGPROB]}, (LOGPROB,)),
        ({"content": [{"token": "a", "logprob": -1}]}, (LOGPROB,)),
        ({"content": [LOGPROB | {"bytes": None, "top_logprobs": None}]}, (LOGPROB,)),
        ({"content": [LOGPROB | {"more": 1}]}, (LOGPROB,)),
        ({"content": [{"token": "a"}, {"logprob": -1}, "a", None]}, ()),
        (
            {"content": [LOGPROB | {"top_logprobs": [{"token": "é", "logprob": -2}, {}]}]},
            (LOGPROB | {"top_logprobs": [{"token": "é", "logprob": -2, "bytes": [0xC3, 0xA9]}]},),
        ),
    ],
)
def test_logprobs_have_every_member_that_clients_require(
    logprobs: object, expected: tuple[dict[str, Any], ...]
) -> None:
    chunk = {"choices": [{"delta": {"content": "a"}, "logprobs": logprobs}]}
    assert feed(chunk) == [Text("a", expected)]


# Usage


@table(
    ("usage", "expected"),
    [
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
            Usage(3, 2, total_tokens=5),
        ),
        ({"prompt_tokens": 3, "completion_tokens": 2}, Usage(3, 2)),
        ({"prompt_tokens": None, "completion_tokens": "2", "total_tokens": True}, Usage()),
        ({"prompt_tokens": -1, "completion_tokens": 2.5, "total_tokens": 1e300}, Usage(0, 2)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, 0, 4)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, Usage(9)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(9, 0, 4)),
        ({"prompt_tokens": 9, "cached_tokens": 4}, Usage(9, 0, 4)),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 4}, Usage(9, 0, 4)),
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 4}, Usage(9, 0, 0, 4)),
        ({"prompt_tokens_details": {"cache_write_tokens": 4}}, Usage(0, 0, 0, 4)),
        ({"prompt_tokens": 9, "num_cached_tokens": 4}, Usage(9, 0, 4)),  # vercel/ai issue 14382
        ({"prompt_tokens": 9, "prompt_token_details": {"cached_tokens": 4}}, Usage(9, 0, 4)),
        (  # mlx-vlm: earendil-works/pi issue 2326
            {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16},
            Usage(11, 5, total_tokens=16),
        ),
        (
            {
                "input_tokens": 11,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 3},
                "prompt_tokens_details": {},
            },
            Usage(11, 5, 4, 0, 3),
        ),
        (  # a gateway of Qwen: zed-industries/zed issue 38412
            {"prompt_tokens_details": {"cache_read_tokens": 2, "cache_creation_tokens": 4}},
            Usage(0, 0, 2, 4),
        ),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}},
            Usage(0, 9, reasoning_tokens=4),
        ),
        ({"completion_tokens": 9, "reasoning_tokens": 4}, Usage(0, 9, reasoning_tokens=4)),
        (
            {
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "total_tokens": 7,
                "reasoning_tokens": 4,
            },
            Usage(1, 6, reasoning_tokens=4, total_tokens=7),
        ),
    ],
)
def test_usage_is_read_in_every_spelling(usage: dict[str, Any], expected: Usage) -> None:
    assert feed({"choices": [], "usage": usage}) == [expected]
    assert feed({"choices": [], "x_groq": {"usage": usage}}) == [expected]
    assert feed({"choices": [{"delta": {}, "usage": usage}]}) == [expected]


@pytest.mark.parametrize(
    "chunk", [{"usage": None}, {"usage": 5}, {"x_groq": 1}, {"x_groq": {"id": 1}}]
)
def test_invalid_usage_gives_no_delta(chunk: dict[str, Any]) -> None:
    assert feed({"choices": [], **chunk}) == []
