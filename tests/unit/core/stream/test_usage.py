"""Token usage: merged within a round, added over rounds, estimated by length."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.core.deltas import Usage
from antiphon.core.diagnostic import Code, Decision
from antiphon.core.items import (
    ApplyPatchCall,
    CustomToolCall,
    FunctionCall,
    Item,
    Message,
    OutputText,
    ReasoningItem,
    ReasoningText,
    RefusalText,
    ShellCall,
    SummaryText,
    ToolSearchCall,
)
from antiphon.core.stream.usage import (
    UsageCounter,
    add_usage,
    estimate_unfinished,
    estimate_usage,
    usage_estimated,
    wire_usage,
)
from tests.support.tables import table


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


def test_counts_are_known_once_there_are_some_of_this_or_an_earlier_round() -> None:
    assert UsageCounter(Usage(input_tokens=1)).is_known
    counter = UsageCounter()
    assert not counter.is_known
    counter.feed(Usage())
    counter.next_round()
    assert counter.is_known


def _message(*content: OutputText | RefusalText) -> Message:
    return Message(id="msg_1", status="completed", content=content)


@table(
    ("item", "tokens"),
    [
        (_message(OutputText("a")), 1),
        (_message(OutputText("a", logprobs=({"token": "a", "logprob": -1.0},) * 20)), 1),
        (_message(OutputText("")), 0),
        (_message(RefusalText("12345")), 2),
        (FunctionCall(id="fc", call_id="c", name="look", arguments="{}  ", status="completed"), 2),
        (CustomToolCall(id="c", call_id="c", name="exec", input="ls -la", status="completed"), 3),
        (ShellCall(id="s", call_id="c", action={"commands": ["ls"]}, status="completed"), 5),
        (ApplyPatchCall(id="s", call_id="c", operation={"a": "b"}, status="completed"), 3),
        (ToolSearchCall(id="s", call_id="c", arguments={}, status="completed"), 1),
        ({"type": "compaction", "encrypted_content": "x" * 400}, 0),
    ],
)
def test_an_estimate_counts_four_bytes_of_the_text_as_a_token(item: Item, tokens: int) -> None:
    expected = Usage(input_tokens=100, output_tokens=tokens, estimated=True)
    assert estimate_usage(400, [item]) == expected


@pytest.mark.parametrize(
    "parts",
    [
        {"content": (ReasoningText("12345678"),), "summary": (SummaryText("short"),)},
        {"summary": (SummaryText("1234"), SummaryText("5678"))},
    ],
)
def test_an_estimate_counts_reasoning_once(parts: dict[str, Any]) -> None:
    item = ReasoningItem(id="rs_1", status="completed", **parts)
    expected = Usage(output_tokens=2, reasoning_tokens=2, estimated=True)
    assert estimate_usage(0, [item]) == expected


def test_only_an_estimate_is_marked_as_one() -> None:
    assert msgspec.to_builtins(wire_usage(Usage(estimated=True)))["estimated"] is True
    assert "estimated" not in msgspec.to_builtins(wire_usage(Usage()))


def test_a_sum_with_an_estimate_is_an_estimate() -> None:
    counter = UsageCounter()
    counter.feed(Usage(input_tokens=1, estimated=True))
    counter.feed(Usage())
    counter.next_round()
    counter.feed(Usage(input_tokens=1))
    assert counter.total is not None
    assert counter.total.estimated


def test_a_missing_total_is_the_sum_on_the_wire() -> None:
    usage = wire_usage(Usage(input_tokens=3, output_tokens=2, cached_tokens=1, reasoning_tokens=1))
    assert (usage.total_tokens, usage.input_tokens_details.cached_tokens) == (5, 1)
    assert usage.output_tokens_details.reasoning_tokens == 1


def test_every_count_is_added_over_rounds() -> None:
    round_usage = Usage(
        input_tokens=5,
        output_tokens=4,
        cached_tokens=3,
        cache_write_tokens=2,
        reasoning_tokens=1,
        total_tokens=9,
    )
    total = add_usage(round_usage, round_usage)
    assert msgspec.structs.astuple(total)[:6] == (10, 8, 6, 4, 2, 18)


def test_a_cut_answer_is_estimated_with_what_was_reported_before() -> None:
    output = (_message(OutputText("four words of text")),)
    estimate = estimate_unfinished(40, output, None)
    assert (estimate.input_tokens, estimate.output_tokens) == (10, 5)
    reported = wire_usage(Usage(input_tokens=7, cached_tokens=3, output_tokens=1))
    merged = estimate_unfinished(40, output, reported)
    assert (merged.input_tokens, merged.output_tokens) == (7, 5)
    assert merged.input_tokens_details.cached_tokens == 3


def test_an_estimate_is_reported_with_the_model() -> None:
    note = usage_estimated("up/m")
    assert (note.code, note.decision) == (Code.USAGE_ESTIMATED, Decision.DEGRADED)
    assert note.param == "usage"
    assert "up/m" in note.message
