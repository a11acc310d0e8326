"""The event log: events are numbered once, and readable from any number on."""

from __future__ import annotations

import asyncio

from antiphon.core.events import Completed, Created, Failed, HostedToolEvent, InProgress, ItemDone
from antiphon.core.items import Message, OutputText
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.runs.event_log import (
    JOINED_BYTES,
    EventLog,
    batch_after,
    finished_items,
    join_batches,
)

RESPONSE = Response(id="resp_1", created_at=1, model="m")


def test_a_log_numbers_and_keeps_events() -> None:
    log = EventLog()
    batch = log.feed([Created(RESPONSE), InProgress(RESPONSE)])
    assert batch == EventBatch(0, [Created(RESPONSE), InProgress(RESPONSE)])
    assert (log.batches, log.visible, log.has_ended) == ([batch], 1, False)
    assert log.feed([Completed(RESPONSE)]).first == 2
    assert (log.visible, log.has_ended, log.has_failed) == (2, True, False)


def test_a_log_goes_on_after_earlier_events_and_may_replace_what_was_not_shown() -> None:
    earlier = [EventBatch(0, [Created(RESPONSE), InProgress(RESPONSE)])]
    log = EventLog(earlier=earlier)
    assert (log.visible, log.last_visible, log.next_number) == (1, 1, 2)
    log.add([InProgress(RESPONSE), Completed(RESPONSE)])
    log.replace_last([Failed(RESPONSE)])
    assert log.batches == [*earlier, EventBatch(2, [Failed(RESPONSE)])]
    assert (log.visible, log.last_visible, log.next_number) == (1, 1, 3)
    assert EventLog().last_visible == -1


def test_a_failure_is_an_end() -> None:
    log = EventLog()
    log.feed([Failed(RESPONSE)])
    assert (log.has_ended, log.has_failed) == (True, True)


def test_a_log_that_nobody_reads_later_numbers_events_and_keeps_none() -> None:
    log = EventLog(keeps_events=False)
    assert [log.feed([InProgress(RESPONSE)] * 2).first for _ in range(3)] == [0, 2, 4]
    assert (log.batches, log.next_number) == ([], 6)


def test_a_batch_is_cut_after_any_of_its_events() -> None:
    events = [HostedToolEvent(str(number), {}) for number in (4, 5, 6)]
    batch = EventBatch(4, events, b"rendered")
    assert batch_after(batch, -1) is batch
    assert batch_after(batch, 3) is batch
    assert batch_after(batch, 4) == EventBatch(5, events[1:])
    assert batch_after(batch, 5) == EventBatch(6, events[2:])
    assert batch_after(batch, 6) == EventBatch(7, [])


def test_consecutive_batches_are_joined_up_to_a_size() -> None:
    event = InProgress(RESPONSE)
    large = b"x" * JOINED_BYTES
    frames = (b"a", b"b", large, b"c")
    batches = [EventBatch(number, [event], each) for number, each in enumerate(frames, 4)]
    joined = [EventBatch(4, [event] * 3, b"ab" + large), EventBatch(7, [event], b"c")]
    assert join_batches(batches) == joined
    assert join_batches(batches[:1]) == batches[:1]
    assert join_batches([]) == []


def test_batches_that_are_not_rendered_are_joined_without_frames() -> None:
    event = InProgress(RESPONSE)
    batches = [EventBatch(0, [event], b"a"), EventBatch(1, [event, event])]
    assert join_batches(batches) == [EventBatch(0, [event] * 3)]
    many = [EventBatch(number, [event]) for number in range(1000)]
    joined = join_batches(many)
    assert 1 < len(joined) < 10
    assert [batch.first for batch in joined[1:]] == [batch.last + 1 for batch in joined[:-1]]
    assert sum(len(batch.events) for batch in joined) == 1000


async def test_who_waits_is_woken_by_a_batch_and_by_the_end() -> None:
    log = EventLog()
    for act in (lambda: log.feed([Created(RESPONSE)]), log.close):
        waiting = [asyncio.ensure_future(log.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        act()
        await asyncio.wait(waiting)
    assert log.is_closed


def test_items_are_finished_with_their_last_event() -> None:
    message = Message(id="msg_1", status="completed", content=(OutputText(text="Hi"),))
    hosted = {"output_index": 1, "item": {"id": "ws_1"}}
    batches = [
        EventBatch(0, [Created(RESPONSE), ItemDone(output_index=0, item=message)]),
        EventBatch(2, [HostedToolEvent("response.output_item.done", hosted)]),
        EventBatch(3, [HostedToolEvent("response.output_item.added", hosted)]),
    ]
    first, second = finished_items(batches)
    assert (first["id"], first["content"][0]["text"]) == ("msg_1", "Hi")
    assert second == {"id": "ws_1"}
