"""Token counts of an Anthropic answer."""

from __future__ import annotations

from antiphon.core.deltas import Usage
from tests.support.dialect_samples.anthropic import (
    fed,
    stop,
    whole,
)


def test_cache_reads_and_writes_count_as_input() -> None:
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 100,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 5},
    }
    assert whole(usage=usage) == [
        Usage(111, 7, cached_tokens=10, cache_write_tokens=100, reasoning_tokens=5)
    ]


def test_later_counts_replace_earlier_ones_and_missing_ones_do_not() -> None:
    first = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    later = {"input_tokens": 6, "cache_read_input_tokens": None, "output_tokens": 9}
    details = {"output_tokens_details": {"thinking_tokens": 4}}
    deltas = fed(
        {"type": "message_start", "message": {"usage": first | details}},
        stop(None, later | {"output_tokens_details": {"thinking_tokens": "x"}}),
    )
    assert deltas[1:] == [
        Usage(7, 1, cached_tokens=2, reasoning_tokens=4),
        Usage(8, 9, cached_tokens=2, reasoning_tokens=4),
    ]


def test_an_input_that_was_cached_whole_replaces_an_estimate() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 9}}}
    cached = {"input_tokens": 0, "cache_read_input_tokens": 5, "output_tokens": 1}
    ended = {"type": "message_delta", "delta": {}, "usage": cached}
    assert fed(start, ended)[-1] == Usage(5, 1, cached_tokens=5)
    nothing = {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 0}}
    assert fed(start, nothing)[-1] == Usage(9, 0)
