"""Finished items of a response that has not ended, out of its event log."""

from __future__ import annotations

from antiphon.runs.finished_items import finished_items, load_finished_items
from antiphon.store.memory import MemoryStore
from antiphon.store.run_log import PAGE_BATCHES, LoggedBatch, RunStart
from antiphon.wire.events import HostedToolEvent, ItemAdded, ItemDone
from antiphon.wire.items import Message, OutputText
from antiphon.wire.sse import SSEEncoder
from tests.support.turns import Clock, turn

QUOTED = 'event: response.output_item.done\ndata: {"item": 1}\n\n'


def message(number: int) -> Message:
    return Message(
        id=f"msg_{number}", status="completed", content=(OutputText(text=f"{QUOTED}{number}"),)
    )


def batch_of(number: int) -> LoggedBatch:
    """An item that begins, and one that ends."""
    encoder = SSEEncoder()
    encoder.sequence_number = number * 2
    added = ItemAdded(output_index=number, item=message(number + 1))
    done = ItemDone(output_index=number, item=message(number))
    return LoggedBatch(number * 2, number * 2 + 1, encoder.feed([done, added]))


def test_items_are_finished_with_their_last_event() -> None:
    items = finished_items([batch_of(0), batch_of(1)])
    assert [item["id"] for item in items] == ["msg_0", "msg_1"]
    assert items[1]["content"][0]["text"] == f"{QUOTED}1"


def test_items_of_hosted_tools_are_found_as_well() -> None:
    done = HostedToolEvent("response.output_item.done", {"output_index": 0, "item": {"id": "ws_1"}})
    assert finished_items([LoggedBatch(0, 0, SSEEncoder().feed([done]))]) == [{"id": "ws_1"}]


async def test_every_page_of_a_stored_log_is_read() -> None:
    store = MemoryStore(now=Clock())
    assert await load_finished_items(store.runs, "resp_1", "") == []
    start = RunStart(holder="me", is_background=True, is_streamed=True)
    token = await store.runs.begin(turn("resp_1", status="in_progress"), start)
    assert await load_finished_items(store.runs, "resp_1", "") == []
    batches = [batch_of(number) for number in range(PAGE_BATCHES + 1)]
    await store.runs.append("resp_1", token, batches)
    assert len(await load_finished_items(store.runs, "resp_1", "")) == PAGE_BATCHES + 1
