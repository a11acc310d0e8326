"""Token usage: merged within a round, added over rounds, estimated by length."""

from __future__ import annotations

import msgspec

from antiphon.core.stream.deltas import Usage
from antiphon.core.stream.usage import UsageCounter, estimate_usage, wire_usage


def test_counts_are_added_over_rounds_and_replaced_within_one() -> None:
    counter = UsageCounter()
    counter.feed(Usage(input_tokens=5))
    counter.feed(Usage(input_tokens=7, output_tokens=1))
    counter.next_round()
    assert counter.total == Usage(input_tokens=7, output_tokens=1)
    counter.feed(Usage(input_tokens=10, output_tokens=2, total_tokens=13))
    assert counter.total == Usage(input_tokens=17, output_tokens=3, total_tokens=21)


def test_rounds_without_counts_have_no_total() -> None:
    counter = UsageCounter()
    counter.next_round()
    assert counter.total is None


def test_an_estimate_counts_four_bytes_as_a_token() -> None:
    item = {"type": "compaction"}
    length = len(msgspec.json.encode(item))
    assert estimate_usage(400, [item]) == Usage(input_tokens=100, output_tokens=length // 4)


def test_a_missing_total_is_the_sum_on_the_wire() -> None:
    usage = wire_usage(Usage(input_tokens=3, output_tokens=2, cached_tokens=1, reasoning_tokens=1))
    assert (usage.total_tokens, usage.input_tokens_details.cached_tokens) == (5, 1)
    assert usage.output_tokens_details.reasoning_tokens == 1
