"""Token counts of an Anthropic answer."""

from __future__ import annotations

from antiphon.core.stream.deltas import (
    Usage,
)
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
