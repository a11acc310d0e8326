"""The durable log: nothing is visible before it is stored, and the end is stored at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from antiphon.core.events import (
    Completed,
    Created,
    Event,
    Failed,
    HostedToolEvent,
    InProgress,
    Queued,
)
from antiphon.core.items import Message, OutputText
from antiphon.core.response import Response
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.render import with_frames
from antiphon.errors import StoreError, StoreRefused
from antiphon.runs.durable_log import FIRST_FLUSH_S, RETRY_S, DurableLog
from antiphon.runs.stored_log import encode_batch
from antiphon.store.run_log import LoggedBatch, RunStart, RunStore
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import StoreLimits, Turn, encode_response
from tests.support.loop_clock import loop_clock
from tests.support.stores import OpenMemory
from tests.support.turns import Clock
from tests.support.waiting import LIMIT_S, until

RESPONSE = Response(id="resp_1", created_at=1, model="m", background=True)
START = RunStart(holder="me", is_background=True, is_streamed=True)


def turn_of(response: Response) -> Turn:
    document = msgspec.to_builtins(response)
    return Turn(
        id=response.id,
        created_at=1,
        status=response.status,
        model="m",
        provider="p",
        output=tuple(document["output"]),
        encoded=encode_response(response),
    )


def finished(text: str = "Hello") -> Response:
    output = [Message(id="msg_1", status="completed", content=(OutputText(text),))]
    return msgspec.structs.replace(RESPONSE, status="completed", output=output)


async def begun(
    store: SQLiteStore, start: RunStart = START, on_lost: Callable[[], object] = list
) -> DurableLog:
    token = await store.runs.begin(turn_of(RESPONSE), start)
    return log_of(store.runs, token, is_streamed=start.is_streamed, on_lost=on_lost)


def log_of(runs: RunStore, token: int, **options: Any) -> DurableLog:
    options = {"is_streamed": True, "on_lost": list, **options}
    return DurableLog(runs, RESPONSE.id, token, **options)


async def test_a_batch_is_visible_once_it_is_stored(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    log = await begun(store)
    log.feed([Created(RESPONSE)])
    log.feed([InProgress(RESPONSE)])
    assert log.visible == 0
    await log.wait()
    assert log.visible == 2
    log.feed([InProgress(RESPONSE)])
    log.feed([InProgress(RESPONSE)])
    await until(lambda: log.visible == 4, "the others are stored")
    page = await store.runs.read_events(RESPONSE.id, -1)
    assert page is not None
    assert [batch[:2] for batch in page.batches] == [(0, 1), (2, 3)]  # one for each write


async def test_an_end_that_was_not_stored_is_not_kept(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    log = await begun(store)
    log.feed([Created(RESPONSE)])
    batch = log.feed([Failed(RESPONSE)])
    assert (batch.first, log.next_number, log.has_ended) == (1, 1, False)
    await log.wait()
    await log.settle()
    page = await store.runs.read_events(RESPONSE.id, -1)
    assert page is not None
    assert [kept[:2] for kept in page.batches] == [(0, 0)]


async def test_a_log_goes_on_after_what_the_store_has(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    token = await store.runs.begin(turn_of(RESPONSE), START)
    earlier = [with_frames(EventBatch(0, [Created(RESPONSE), Queued(RESPONSE)]))]
    await store.runs.append(RESPONSE.id, token, [encode_batch(batch) for batch in earlier])
    log = log_of(store.runs, token, earlier=earlier)
    assert (log.visible, log.batches) == (1, earlier)
    log.feed([InProgress(RESPONSE)])
    await until(lambda: log.visible == 2, "it is stored")
    page = await store.runs.read_events(RESPONSE.id, -1)
    assert page is not None
    assert [*page.batches] == [encode_batch(batch) for batch in log.batches]
    assert [batch[:2] for batch in page.batches] == [(0, 1), (2, 2)]


async def test_events_that_cannot_be_rendered_are_tried_again(open_memory: OpenMemory) -> None:
    """A bug of a plug-in's dialect; the end reports it, if it is still there."""
    store = await open_memory(now=Clock())
    token = await store.runs.begin(turn_of(RESPONSE), START)
    log = log_of(store.runs, token)
    with loop_clock() as clock:
        log.feed([HostedToolEvent("response.output_item.done", {"item": object()})])
        await clock.advance(FIRST_FLUSH_S)
        assert log.visible == 0
        log.replace_last([InProgress(RESPONSE)])
        await clock.advance(RETRY_S)
        assert log.visible == 1


async def test_the_end_is_stored_with_the_last_events(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    log = await begun(store)
    log.feed([Created(RESPONSE)])
    events: list[Event] = [InProgress(RESPONSE), Completed(finished())]
    assert await log.finish(turn_of(finished()), events) == events
    batch = log.feed(events)
    assert (batch.first, batch.events) == (1, events)
    assert batch is log.batches[-1]
    assert (log.visible, log.has_ended, log.is_finished) == (2, True, True)
    page = await store.runs.read_events(RESPONSE.id, -1)
    assert page is not None
    assert (page.status, page.last_seq) == ("completed", 2)


async def test_readers_share_the_frames_that_are_stored(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    log = await begun(store)
    log.feed([Created(RESPONSE)])
    assert log.batches[0].frames is None  # nothing is rendered before it is needed
    await until(lambda: log.visible == 1, "it is stored")
    page = await store.runs.read_events(RESPONSE.id, -1)
    assert page is not None
    assert page.batches[0].frames == log.batches[0].frames


async def test_without_a_stream_only_the_end_is_stored(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    log = await begun(store, msgspec.structs.replace(START, is_streamed=False))
    await log.finish(turn_of(finished()), [Completed(finished())])
    turn = await store.load(RESPONSE.id)
    assert turn is not None
    assert turn.status == "completed"
    assert await store.runs.read_events(RESPONSE.id, -1) is None


async def test_a_run_that_was_taken_over_is_given_up(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock())
    lost: list[str] = []
    for act in ("flush", "finish"):
        log = await begun(store, on_lost=partial(lost.append, act))
        await store.delete(RESPONSE.id)
        if act == "flush":
            log.feed([Created(RESPONSE)])
            await log.wait()
        else:
            await log.finish(turn_of(finished()), [Completed(finished())])
        assert (lost.pop(), log.is_closed, log.is_finished, log.visible) == (act, True, True, 0)


async def test_a_response_that_is_too_large_fails_and_ends(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock(), limits=StoreLimits(max_turn_bytes=2000))
    log = await begun(store)
    response = finished("x" * 3000)
    [event] = await log.finish(turn_of(response), [Completed(response)])
    assert isinstance(event, Failed)
    turn = await store.load(RESPONSE.id)
    assert turn is not None
    assert (turn.status, turn.output) == ("failed", ())
    assert "bytes exceed the limit" in turn.response["error"]["message"]


async def test_what_cannot_be_made_smaller_is_refused(open_memory: OpenMemory) -> None:
    store = await open_memory(now=Clock(), limits=StoreLimits(max_turn_bytes=2000))
    log = await begun(store)
    response = msgspec.structs.replace(finished(), output=(), instructions="x" * 3000)
    with pytest.raises(StoreRefused):
        await log.finish(turn_of(response), [Completed(response)])


class BusyRuns:
    """A store that fails the first time."""

    def __init__(self, store: SQLiteStore) -> None:
        self._runs = store.runs
        self.failures = 1

    async def append(self, response_id: str, token: int, batches: Sequence[LoggedBatch]) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise StoreError("disk full")
        await self._runs.append(response_id, token, batches)

    async def finish(self, *arguments: object, **options: object) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise StoreError("disk full")
        await self._runs.finish(*arguments, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("act", ["append", "finish"])
async def test_a_store_that_is_away_is_waited_for(open_memory: OpenMemory, act: str) -> None:
    store = await open_memory(now=Clock())
    token = await store.runs.begin(turn_of(RESPONSE), START)
    runs = BusyRuns(store)
    log = log_of(runs, token, retry_s=0.01)  # type: ignore[arg-type]
    if act == "append":
        log.feed([Created(RESPONSE)])
        log.feed([InProgress(RESPONSE)])
        await until(lambda: log.visible == 2, "both are stored")
    else:
        await asyncio.wait_for(log.finish(turn_of(finished()), [Completed(finished())]), LIMIT_S)
        assert log.is_finished
    assert runs.failures < 0
