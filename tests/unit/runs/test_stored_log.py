"""Logs in the store: what is read from them is what was written, as events again."""

from __future__ import annotations

from antiphon.core.client_profile import OTHER
from antiphon.core.events import Created, Event, HostedToolEvent, ItemAdded, ItemDone, TextDelta
from antiphon.core.items import Message, OutputText
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import ResponsesRenderer, render_batch
from antiphon.runs.event_log import batch_after
from antiphon.runs.stored_log import (
    decode_batch,
    encode_batch,
    load_finished_items,
    read_stored_log,
)
from antiphon.store.run_log import PAGE_BATCHES, LoggedBatch, RunStart
from tests.support.stores import OpenMemory
from tests.support.turns import Clock, turn

QUOTED = 'event: response.output_item.done\ndata: {"item": 1}\n\n'


def message(number: int) -> Message:
    return Message(
        id=f"msg_{number}", status="completed", content=(OutputText(text=f"{QUOTED}{number}"),)
    )


def batch_of(number: int) -> EventBatch:
    """An item that ends, and one that begins."""
    added = ItemAdded(output_index=number, item=message(number + 1))
    done = ItemDone(output_index=number, item=message(number))
    return EventBatch(number * 2, [done, added])


EVENTS: list[Event] = [
    Created(Response(id="resp_1", created_at=1, model="m", temperature=1e-7)),
    TextDelta("msg_1", 0, 0, 'é\u2028\n\n"', ({"token": "é", "logprob": -0.1},)),
    HostedToolEvent("response.x.delta", {"delta": "a", "obfuscation": "xyz", "n": 10**18}),
    ItemDone(output_index=0, item=message(1)),
]


def test_a_batch_that_is_read_is_rendered_to_the_same_bytes() -> None:
    stored = encode_batch(EventBatch(7, EVENTS))
    assert stored[:2] == (7, 10)
    read = decode_batch(stored)
    assert (read.first, read.last, read.frames) == (7, 10, stored.frames)
    assert render_batch(EventBatch(read.first, read.events)) == stored.frames


def test_a_batch_that_is_read_can_be_cut_after_any_event() -> None:
    read = decode_batch(encode_batch(EventBatch(7, EVENTS)))
    for after in range(7, 10):
        expected = render_batch(EventBatch(after + 1, EVENTS[after - 6 :]))
        assert render_batch(batch_after(read, after)) == expected


def test_padding_is_left_out_of_what_is_read_but_not_of_text() -> None:
    text = ',"obfuscation":"a"'
    events: list[Event] = [
        HostedToolEvent("response.x.delta", {"delta": text, "obfuscation": "xyz", "n": 1}),
        TextDelta("msg_1", 0, 0, text),
    ]
    renderer = ResponsesRenderer(OTHER, keeps_obfuscation=False)
    rendered = renderer.feed(decode_batch(encode_batch(EventBatch(0, events))))
    plain = HostedToolEvent("response.x.delta", {"delta": text, "n": 1})
    assert rendered == render_batch(EventBatch(0, [plain, events[1]]))


async def test_every_page_of_a_stored_log_is_read(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    assert await load_finished_items(store.runs, "resp_1", "") == []
    start = RunStart(holder="me", is_background=True, is_streamed=True)
    token = await store.runs.begin(turn("resp_1", status="in_progress"), start)
    assert await load_finished_items(store.runs, "resp_1", "") == []
    batches = [encode_batch(batch_of(number)) for number in range(PAGE_BATCHES + 1)]
    await store.runs.append("resp_1", token, batches)
    items = await load_finished_items(store.runs, "resp_1", "")
    assert [item["id"] for item in items] == [f"msg_{n}" for n in range(PAGE_BATCHES + 1)]
    assert items[1]["content"][0]["text"] == f"{QUOTED}1"
    read = [batch async for batch in read_stored_log(store.runs, "resp_1", "")]
    assert [LoggedBatch(batch.first, batch.last, batch.frames or b"") for batch in read] == batches
