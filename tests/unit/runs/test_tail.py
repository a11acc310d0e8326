"""Tails: every reader gets every event after its number once, from any process."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.core.client_profile import OTHER, keepalive_as_comment
from antiphon.core.events import Completed, Created, InProgress
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import encode_event, render_batch
from antiphon.runs.event_log import EventLog
from antiphon.runs.stored_log import encode_batch
from antiphon.runs.tail import LogTail, StoreTail, Tail
from antiphon.store.run_log import EventPage, PollWatch

RESPONSE = Response(id="resp_1", created_at=1, model="m")


class Collector:
    def __init__(self) -> None:
        self.batches: list[EventBatch] = []
        self.ends: list[bool] = []

    @property
    def frames(self) -> list[bytes]:
        return [render_batch(batch) for batch in self.batches]

    @property
    def numbers(self) -> list[int]:
        return [batch.last for batch in self.batches]

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        self.batches.append(batch)
        self.ends.append(is_last)


def finished_log() -> EventLog:
    log = EventLog()
    log.feed([Created(RESPONSE), InProgress(RESPONSE)])
    log.feed([InProgress(RESPONSE), InProgress(RESPONSE), InProgress(RESPONSE)])
    log.feed([Completed(RESPONSE)])
    return log


async def read(tail: Tail) -> Collector:
    reader = Collector()
    await tail.follow(reader)
    await tail.leave()
    return reader


async def test_a_tail_begins_after_any_number() -> None:
    log = finished_log()
    events = [event for batch in log.batches for event in batch.events]
    frames = [encode_event(event, number) for number, event in enumerate(events)]

    async def read_page(after: int) -> EventPage | None:
        raise AssertionError("the first page is complete")

    for after in range(-1, 6):
        stored = [encode_batch(batch) for batch in log.batches if batch.last > after]
        page = EventPage("completed", 5, tuple(stored))
        for tail in (LogTail(log, after), StoreTail(read_page, page, after, watch=PollWatch)):
            assert tail.after == after
            reader = await read(tail)
            assert b"".join(reader.frames) == b"".join(frames[after + 1 :])
            assert reader.ends == [False] * (len(reader.ends) - 1) + [True] * bool(reader.ends)


async def test_a_thousand_tails_share_the_batches_of_a_log() -> None:
    log = EventLog()
    tails = [asyncio.ensure_future(read(LogTail(log, -1))) for _ in range(1000)]
    await asyncio.sleep(0)
    for events in ([Created(RESPONSE)], [InProgress(RESPONSE)] * 3, [Completed(RESPONSE)]):
        log.feed(events)
        await asyncio.sleep(0)
    readers = await asyncio.gather(*tails)
    assert all(
        sent is once
        for reader in readers
        for sent, once in zip(reader.batches, log.batches, strict=True)
    )


async def test_a_tail_of_a_log_that_is_closed_early_is_broken_off() -> None:
    log = EventLog()
    log.feed([Created(RESPONSE)])
    reading = asyncio.ensure_future(read(LogTail(log, -1)))
    await asyncio.sleep(0)
    log.close()
    with pytest.raises(ConnectionAbortedError):
        await reading


async def test_a_store_is_asked_again_until_the_response_has_ended() -> None:
    stored = tuple(encode_batch(batch) for batch in finished_log().batches)
    pages = [
        EventPage("in_progress", 4, stored[1:2]),
        EventPage("in_progress", 4, ()),
        EventPage("completed", 5, stored[2:]),
    ]
    asked: list[int] = []

    async def read_page(after: int) -> EventPage | None:
        asked.append(after)
        return pages.pop(0)

    first = EventPage("in_progress", 1, stored[:1])
    reader = await read(StoreTail(read_page, first, -1, watch=PollWatch))
    assert asked == [1, 4, 4]
    assert (reader.numbers, reader.ends) == ([1, 4, 5], [False, False, True])


async def test_a_tail_of_a_response_that_is_deleted_is_broken_off() -> None:
    async def read_page(after: int) -> EventPage | None:
        return None

    page = EventPage("in_progress", 0, (encode_batch(EventBatch(0, [Created(RESPONSE)])),))
    with pytest.raises(ConnectionAbortedError):
        await read(StoreTail(read_page, page, -1, watch=PollWatch))


async def test_diagnostics_of_a_tail_are_dropped() -> None:
    tail = LogTail(EventLog(), 3)
    tail.add_diagnostic(keepalive_as_comment(OTHER))
    assert tail.after == 3
