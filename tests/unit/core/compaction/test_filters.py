"""Filters of compactions: one item in place of an answer, or before one."""

from __future__ import annotations

from antiphon.core.compaction.filters import CompactedContextFilter, SummaryFilter
from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.compaction.summary import Summary
from antiphon.core.deltas import (
    Delta,
    EmptyReasoning,
    Failure,
    Finish,
    ItemEnd,
    RawItem,
    RawItemEvent,
    RawItemStarted,
    Reasoning,
    ReasoningState,
    Refusal,
    SearchStarted,
    Text,
    ToolCall,
)
from antiphon.core.faults.fault import protocol_fault
from tests.support.filters import DrivenFilter
from tests.support.tables import table

STOP = Finish("stop")
FAILURE = Failure(protocol_fault("broken"))


def summarized(*deltas: Delta, final: bool = True) -> list[Delta]:
    subject = DrivenFilter(SummaryFilter(SummaryTask(("shell (c1): ls",))))
    return [out for delta in deltas for out in subject.feed(delta)] + subject.close(final=final)


def test_an_answer_becomes_one_compaction_item_and_nothing_else() -> None:
    output = (Reasoning("Hm."), Text('{"goal": "Ship'), ToolCall(0, "c"), Text(' it."}'))
    summary = Summary(goal="Ship it.", open_calls=("shell (c1): ls",))
    item = RawItem({"type": "compaction", "state": summary.to_state()})
    assert summarized(*output, STOP) == [STOP, item]


def test_plain_text_is_a_summary_too() -> None:
    [_, item] = summarized(Text("The port is 8123."), STOP)
    assert isinstance(item, RawItem)
    assert item.document["state"]["summary"]["text"] == "The port is 8123."


@table("output", [Refusal("No."), Text("  "), Reasoning("Hm.")])
def test_without_a_summary_the_answer_fails(output: Delta) -> None:
    [_, failure] = summarized(output, STOP)
    assert isinstance(failure, Failure)
    assert "no summary" in failure.fault.message


@table("ending", [Finish("length"), Finish(None), FAILURE])
def test_an_answer_that_was_cut_off_or_failed_gives_no_item(ending: Delta) -> None:
    assert summarized(Text("The port is"), ending) == [ending]


def test_nothing_is_released_while_another_filter_wants_a_round() -> None:
    assert summarized(Text("a"), STOP, Finish(None), final=False) == [STOP, Finish(None)]


def with_context(*deltas: Delta) -> list[Delta]:
    subject = DrivenFilter(CompactedContextFilter({"summary": {}}))
    return [out for delta in deltas for out in subject.feed(delta)] + subject.close(final=True)


CONTEXT: list[Delta] = [
    RawItemStarted(-1, {"type": "compaction", "encrypted_content": ""}),
    RawItemEvent(-1, "response.compaction.compacting", {"item_id": ""}),
    RawItem({"type": "compaction", "encrypted_content": "", "state": {"summary": {}}}, -1),
]


@table(
    "output",
    [
        Text("a"),
        Reasoning("a"),
        Refusal("a"),
        ReasoningState("signed", "x"),
        ToolCall(0, "c"),
        RawItem({"type": "program"}),
        RawItemStarted(0, {"type": "mcp_call"}),
        EmptyReasoning(),
        SearchStarted({}),
    ],
)
def test_the_item_comes_once_before_the_first_output(output: Delta) -> None:
    assert with_context(ItemEnd(), Text(""), output, output, STOP) == [
        ItemEnd(),
        Text(""),
        *CONTEXT,
        output,
        output,
        STOP,
    ]


def test_without_output_there_is_no_item_so_that_another_attempt_can_be_made() -> None:
    nothing: list[Delta] = [Text(""), FAILURE]
    assert with_context(*nothing) == nothing
