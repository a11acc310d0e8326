"""Ends of runs whose process is gone: gapless, and written in the end even if not at first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError, StoreUnavailable
from antiphon.runs.endings import RunEndings
from antiphon.runs.lease import PROCESS_LOST, ProcessLease
from antiphon.store.memory import MemoryStore
from antiphon.store.run_log import LoggedBatch, RunStart, RunStore
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import Turn
from antiphon.wire.events import Created, ItemDone, Queued
from antiphon.wire.items import Message, OutputText
from antiphon.wire.response import Response
from antiphon.wire.sse import SSEEncoder
from tests.support.gateways import events_of
from tests.support.turns import Clock, turn

LEASE_S = 10.0


def endings_of(store: MemoryStore, runs: Any = None) -> RunEndings:
    runs = runs or store.runs
    return RunEndings(runs, ProcessLease(runs, "me", LEASE_S, lambda requested: None))


async def begin(store: MemoryStore, id: str, *, is_streamed: bool = False) -> int:
    """Begin a run of a process that is gone in eleven seconds."""
    await store.runs.renew("dead", LEASE_S)
    response = {"id": id, "object": "response", "status": "in_progress", "output": []}
    running: Turn = turn(id, status="in_progress", output=(), response=response)
    start = RunStart(holder="dead", is_background=True, is_streamed=is_streamed)
    return await store.runs.begin(running, start)


async def test_a_response_that_has_ended_stays_as_it_is_if_a_run_of_it_is_found(
    tmp_path: Path,
) -> None:
    """Its beginning was given up, and reached the store all the same."""
    clock = Clock()
    store = SQLiteStore(tmp_path / "turns.db", now=clock)
    await store.open()
    await store.runs.renew("dead", LEASE_S)
    await store.runs.begin(turn("resp_1", status="in_progress"), RunStart(holder="dead"))
    await store.save(turn("resp_1"))
    clock.now += 11
    endings = RunEndings(store.runs, ProcessLease(store.runs, "me", LEASE_S, lambda _: None))
    assert [await endings.end_expired() for _ in range(2)] == [1, 0]
    found = await store.load("resp_1")
    assert found is not None
    assert (found.status, found.response) == ("completed", turn("resp_1").response)
    await store.close()


@pytest.mark.parametrize("logged", [0, 3])
async def test_a_run_whose_process_is_gone_ends_as_failed(logged: int) -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    token = await begin(store, "resp_1", is_streamed=True)
    for number in range(logged):
        frame = b'event: x\ndata: {"type":"x","sequence_number":%d}\n\n' % number
        await store.runs.append("resp_1", token, [LoggedBatch(number, number, frame)])
    assert await endings_of(store).end_expired() == 0
    clock.now += 11
    assert await endings_of(store).end_expired() == 1
    assert await endings_of(store).end_expired() == 0
    found = await store.load("resp_1")
    assert found is not None
    assert found.response["error"] == {"code": "server_error", "message": PROCESS_LOST}
    assert (found.response["output_text"], found.response["usage"]["total_tokens"]) == ("", 0)
    page = await store.runs.read_events("resp_1", -1)
    assert page is not None
    assert page.status == found.status == "failed"
    events = events_of(b"".join(batch.frames for batch in page.batches))
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    kinds = [event["type"] for event in events if event["type"] != "x"]
    first = [] if logged else ["response.created", "response.in_progress"]
    assert kinds == [*first, "response.failed"]


async def test_a_run_whose_process_is_gone_keeps_the_items_that_its_log_has() -> None:
    """Its readers have seen them, and may have acted on them."""
    clock = Clock()
    store = MemoryStore(now=clock)
    token = await begin(store, "resp_1", is_streamed=True)
    message = Message(id="msg_1", status="completed", content=(OutputText(text="Hello"),))
    frames = SSEEncoder().feed([ItemDone(output_index=0, item=message)])
    await store.runs.append("resp_1", token, [LoggedBatch(0, 0, frames)])
    clock.now += 11
    assert await endings_of(store).end_expired() == 1
    found = await store.load("resp_1")
    assert found is not None
    assert (found.status, found.response["output_text"]) == ("failed", "Hello")
    assert [item["id"] for item in found.output] == ["msg_1"]
    assert found.response["output"] == [*found.output]
    page = await store.runs.read_events("resp_1", 0)
    assert page is not None
    [failed] = events_of(page.batches[0].frames)
    assert failed["response"] == found.response


async def test_a_run_that_was_only_queued_begins_before_it_ends() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    token = await begin(store, "resp_1", is_streamed=True)
    response = Response(id="resp_1", created_at=1, model="m", status="queued")
    frames = SSEEncoder().feed([Created(response), Queued(response)])
    await store.runs.append("resp_1", token, [LoggedBatch(0, 1, frames)])
    clock.now += 11
    assert await endings_of(store).end_expired() == 1
    page = await store.runs.read_events("resp_1", 1)
    assert page is not None
    events = events_of(page.batches[0].frames)
    kinds = [(event["type"], event["sequence_number"]) for event in events]
    assert kinds == [("response.in_progress", 2), ("response.failed", 3)]


async def test_a_run_that_was_to_be_cancelled_ends_as_cancelled() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    await begin(store, "resp_1")
    await store.runs.request_cancel("resp_1")
    clock.now += 11
    assert await endings_of(store).end_expired() == 1
    found = await store.load("resp_1")
    assert found is not None
    assert (found.status, found.response["error"]) == ("cancelled", None)


class AwayRuns:
    """Runs of a store that is away just when the ends are written."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self.is_away = True

    async def finish(self, *arguments: Any, **options: Any) -> None:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        await self._runs.finish(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)


async def test_an_end_that_cannot_be_stored_is_tried_again() -> None:
    """The claimed runs are this process's now, so nobody else would end them."""
    clock = Clock()
    store = MemoryStore(now=clock)
    for id in ("resp_1", "resp_2"):
        await begin(store, id)
    clock.now += 11
    runs = AwayRuns(store.runs)
    endings = endings_of(store, runs)
    with pytest.raises(StoreError):
        await endings.end_expired()
    runs.is_away = False
    assert await endings.end_expired() == 0  # none that was not found before
    for id in ("resp_1", "resp_2"):
        found = await store.load(id)
        assert found is not None
        assert found.status == "failed"


async def test_runs_are_ended_under_a_lease() -> None:
    """Else another process would claim them as well, and both would write their ends."""
    clock = Clock()
    store = MemoryStore(now=clock)
    await begin(store, "resp_1")
    clock.now += 11
    claimed_by_others: list[int] = []

    class WatchedRuns(AwayRuns):
        async def finish(self, *arguments: Any, **options: Any) -> None:
            claimed_by_others.append(len(await store.runs.claim_expired("other", 10)))
            await self._runs.finish(*arguments, **options)

    assert await endings_of(store, WatchedRuns(store.runs)).end_expired() == 1
    assert claimed_by_others == [0]
