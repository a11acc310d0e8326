"""Output sequencer: one item at a time, the queue, and the cases of closing at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.core.deltas import ToolCall
from antiphon.core.events import Event
from antiphon.core.items import Item, Message, OutputText, ReasoningItem, RefusalText, Status
from antiphon.core.stream.blocks import TextBlock
from antiphon.core.stream.call_block import CallBlock
from antiphon.core.stream.raw_block import RawBlock
from antiphon.core.stream.sequencer import Block, OutputSequencer, join_output_text
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.errors import ResponseTooLarge
from antiphon.framing.limits import ResponseLimits
from tests.support.machines import documents
from tests.support.tables import table

TOOLS = ToolIdentityMap([ToolIdentity("get_weather", "get_weather")])


def text(content: str) -> TextBlock:
    block = TextBlock("msg_1")
    block.append(content)
    return block


def call(arguments: str, name: str | None = "get_weather") -> CallBlock:
    block = CallBlock(0, TOOLS, lambda prefix: f"{prefix}_1", "")
    block.append(ToolCall(0, "call_1", name, arguments))
    return block


def raw() -> RawBlock:
    return RawBlock({"type": "compaction", "id": "cmp_1"}, str)


def sequence(*blocks: Block) -> OutputSequencer:
    sequencer = OutputSequencer()
    for block in blocks:
        sequencer.enqueue(block)
    sequencer.advance()
    return sequencer


def test_items_beyond_the_limit_are_too_many() -> None:
    sequencer = OutputSequencer(ResponseLimits(items=2))
    for block in (text("a"), text("b")):
        sequencer.enqueue(block)
        sequencer.advance()
    with pytest.raises(ResponseTooLarge, match="items = 2"):
        sequencer.enqueue(text("c"))
    assert len(sequencer.output) == 2


def test_items_that_wait_count_towards_the_limit() -> None:
    sequencer = OutputSequencer(ResponseLimits(items=3))
    for block in (text("a"), text("b"), text("c")):
        sequencer.enqueue(block)
    with pytest.raises(ResponseTooLarge, match="items = 3"):
        sequencer.enqueue(text("d"))


def test_calls_beyond_the_limit_are_too_many() -> None:
    sequencer = OutputSequencer(ResponseLimits(calls=1))
    sequencer.enqueue(call("{}"))
    sequencer.enqueue(text("a"))
    with pytest.raises(ResponseTooLarge, match="calls = 1"):
        sequencer.enqueue(call("{}"))


def done(events: Sequence[Event]) -> list[str]:
    return [
        event["item"]["status"]
        for event in documents(events)
        if event["type"].endswith("item.done")
    ]


def statuses(sequencer: OutputSequencer) -> list[str]:
    return [item["status"] for item in map(_plain, sequencer.output)]


def _plain(item: object) -> dict[str, str]:
    return {"status": getattr(item, "status", "none")}


def test_text_is_closed_when_another_item_waits() -> None:
    sequencer = OutputSequencer()
    sequencer.enqueue(text("Let me look."))
    sequencer.advance()
    sequencer.enqueue(call(""))
    assert done(sequencer.advance()) == ["completed"]
    assert isinstance(sequencer.current, CallBlock)


@pytest.mark.parametrize("open_call", [call('{"city": '), call("", name=None)])
def test_an_open_call_keeps_later_items_waiting(open_call: CallBlock) -> None:
    sequencer = sequence(open_call, text("Done."))
    assert sequencer.current is open_call
    assert len(sequencer.waiting) == 1
    assert done(sequencer.close_finished()) == []


def test_a_raw_item_is_closed_at_once() -> None:
    sequencer = sequence(raw())
    assert (sequencer.current, sequencer.finished_count) == (None, 1)


def test_a_complete_call_that_waits_counts_as_finished() -> None:
    sequencer = sequence(call('{"city": '), call("{}"))
    assert [getattr(item, "arguments", "") for item in sequencer.finished_items(0)] == ["{}"]


@table(
    ("blocks", "publish", "done_statuses", "output_statuses"),
    [
        # The stream was cut by a token limit.
        ([text("The ans")], True, ["incomplete"], ["incomplete"]),
        ([call('{"city": "Ro')], True, ["incomplete"], ["incomplete"]),
        ([call("", name=None)], True, [], []),
        # The connection broke.
        ([text("The ans")], False, [], ["incomplete"]),
        ([call('{"city": "Ro')], False, [], ["incomplete"]),
        ([call('{"city": "Rome"}')], False, ["completed"], ["completed"]),
        ([call('{"city": "Ro'), text("The")], False, [], ["incomplete", "incomplete"]),
        ([call("", name=None), text("a"), call("{}")], False, ["completed"] * 2, ["completed"] * 2),
    ],
)
def test_every_open_item_is_closed_by_its_case_at_the_end(
    blocks: list[Block], publish: bool, done_statuses: list[Status], output_statuses: list[Status]
) -> None:
    sequencer = sequence(*blocks)
    events = sequencer.close_all("incomplete", ended_well=False, publish=publish)
    assert done(events) == done_statuses
    assert statuses(sequencer) == output_statuses
    assert sequencer.open_blocks == []


def test_output_text_is_the_text_of_all_messages() -> None:
    def message(*content: OutputText | RefusalText) -> Message:
        return Message(id="msg_1", status="completed", content=content)

    output: list[Item] = [
        message(OutputText("Let me see. ")),
        ReasoningItem(id="rs_1", status="completed"),
        {"type": "web_search_call", "id": "ws_1"},
        message(OutputText("It rains"), RefusalText("no"), OutputText(".")),
    ]
    assert join_output_text(output) == "Let me see. It rains."
    assert join_output_text([]) == ""
