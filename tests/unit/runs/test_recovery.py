"""Ends of runs whose process is gone: gapless, and written in the end even if not at first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.events import Created, ItemDone, Queued
from antiphon.core.items import Message, OutputText
from antiphon.core.response import Response
from antiphon.dialects.responses.render import SSEEncoder
from antiphon.errors import StoreError, StoreUnavailable
from antiphon.runs.lease import ProcessLease
from antiphon.runs.recovery import PROCESS_LOST, AbandonedRuns
from antiphon.store.run_log import ClaimedRun, LoggedBatch, RenewedRuns, RunStart, RunStore
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import StoreLimits, Turn
from tests.support.gateways import events_of
from tests.support.stores import OpenMemory
from tests.support.turns import Clock, turn

LEASE_S = 10.0


class StoreWithRuns:
    """A store with other runs."""

    def __init__(self, store: SQLiteStore, runs: Any) -> None:
        self._store = store
        self.runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def abandoned_of(store: SQLiteStore, runs: Any = None) -> AbandonedRuns:
    used: Any = StoreWithRuns(store, runs or store.runs)
    return AbandonedRuns(used, ProcessLease(used.runs, "me", LEASE_S, lambda requested: None))


async def begin(store: SQLiteStore, id: str, *, is_streamed: bool = False) -> int:
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
    abandoned = abandoned_of(store)
    assert [await abandoned.end_expired() for _ in range(2)] == [1, 0]
    found = await store.load("resp_1")
    assert found is not None
    assert (found.status, found.response) == ("completed", turn("resp_1").response)
    await store.close()


@pytest.mark.parametrize("logged", [0, 3])
async def test_a_run_whose_process_is_gone_ends_as_failed(
    open_memory: OpenMemory, logged: int
) -> None:
    clock = Clock()
    store = await open_memory(now=clock)
    token = await begin(store, "resp_1", is_streamed=True)
    for number in range(logged):
        frame = b'event: x\ndata: {"type":"x","sequence_number":%d}\n\n' % number
        await store.runs.append("resp_1", token, [LoggedBatch(number, number, frame)])
    assert await abandoned_of(store).end_expired() == 0
    clock.now += 11
    assert await abandoned_of(store).end_expired() == 1
    assert await abandoned_of(store).end_expired() == 0
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


async def test_a_run_whose_process_is_gone_keeps_the_items_that_its_log_has(
    open_memory: OpenMemory,
) -> None:
    """Its readers have seen them, and may have acted on them."""
    clock = Clock()
    store = await open_memory(now=clock)
    token = await begin(store, "resp_1", is_streamed=True)
    message = Message(id="msg_1", status="completed", content=(OutputText(text="Hello"),))
    frames = SSEEncoder().feed([ItemDone(output_index=0, item=message)])
    await store.runs.append("resp_1", token, [LoggedBatch(0, 0, frames)])
    clock.now += 11
    assert await abandoned_of(store).end_expired() == 1
    found = await store.load("resp_1")
    assert found is not None
    assert (found.status, found.response["output_text"]) == ("failed", "Hello")
    assert [item["id"] for item in found.output] == ["msg_1"]
    assert found.response["output"] == [*found.output]
    page = await store.runs.read_events("resp_1", 0)
    assert page is not None
    [failed] = events_of(page.batches[0].frames)
    assert failed["response"] == found.response


async def test_a_run_that_was_only_queued_begins_before_it_ends(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock)
    token = await begin(store, "resp_1", is_streamed=True)
    response = Response(id="resp_1", created_at=1, model="m", status="queued")
    frames = SSEEncoder().feed([Created(response), Queued(response)])
    await store.runs.append("resp_1", token, [LoggedBatch(0, 1, frames)])
    clock.now += 11
    assert await abandoned_of(store).end_expired() == 1
    page = await store.runs.read_events("resp_1", 1)
    assert page is not None
    events = events_of(page.batches[0].frames)
    kinds = [(event["type"], event["sequence_number"]) for event in events]
    assert kinds == [("response.in_progress", 2), ("response.failed", 3)]


async def test_a_run_that_was_to_be_cancelled_ends_as_cancelled(open_memory: OpenMemory) -> None:
    clock = Clock()
    store = await open_memory(now=clock)
    await begin(store, "resp_1")
    await store.runs.request_cancel("resp_1")
    clock.now += 11
    assert await abandoned_of(store).end_expired() == 1
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


async def test_an_end_that_cannot_be_stored_is_tried_again(open_memory: OpenMemory) -> None:
    """The claimed runs are this process's now, so nobody else would end them."""
    clock = Clock()
    store = await open_memory(now=clock)
    for id in ("resp_1", "resp_2"):
        await begin(store, id)
    clock.now += 11
    runs = AwayRuns(store.runs)
    abandoned = abandoned_of(store, runs)
    with pytest.raises(StoreError):
        await abandoned.end_expired()
    runs.is_away = False
    assert await abandoned.end_expired() == 0  # none that was not found before
    for id in ("resp_1", "resp_2"):
        found = await store.load(id)
        assert found is not None
        assert found.status == "failed"


async def test_an_end_that_is_too_large_to_be_stored_has_no_output_and_delays_no_other(
    open_memory: OpenMemory,
) -> None:
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_turn_bytes=2000))
    token = await begin(store, "resp_1", is_streamed=True)
    await begin(store, "resp_2")
    message = Message(id="msg_1", status="completed", content=(OutputText(text="x" * 2000),))
    frames = SSEEncoder().feed([ItemDone(output_index=0, item=message)])
    await store.runs.append("resp_1", token, [LoggedBatch(0, 0, frames)])
    clock.now += 11
    assert await abandoned_of(store).end_expired() == 2
    found = [await store.load(id) for id in ("resp_1", "resp_2")]
    assert [turn and (turn.status, turn.output) for turn in found] == [("failed", ())] * 2
    page = await store.runs.read_events("resp_1", 0)
    assert page is not None
    [failed] = events_of(page.batches[0].frames)
    assert failed["response"]["output"] == []
    assert "exceed the limit of 2,000" in failed["response"]["error"]["message"]


async def test_a_run_whose_end_cannot_be_stored_in_any_way_is_deleted(
    open_memory: OpenMemory,
) -> None:
    """Else it would be in progress for ever: its end is longer than its beginning."""
    clock = Clock()
    store = await open_memory(now=clock, limits=StoreLimits(max_turn_bytes=340))
    await begin(store, "resp_1")
    clock.now += 11
    abandoned = abandoned_of(store)
    assert [await abandoned.end_expired() for _ in range(2)] == [1, 0]
    assert await store.load("resp_1") is None


class OverlappingRuns(AwayRuns):
    """Runs whose end is written by an older claim between a later claim and its lease."""

    def __init__(self, runs: RunStore) -> None:
        super().__init__(runs)
        self.is_away = False
        self.claimed = asyncio.Event()
        self._ending = asyncio.Event()
        self._leasing = asyncio.Event()
        self._written = asyncio.Event()

    async def claim_expired(self, holder: str, limit: int) -> list[ClaimedRun]:
        found = await self._runs.claim_expired(holder, limit)
        self.claimed.set()
        await self._ending.wait()
        return found

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        self._leasing.set()
        await self._written.wait()
        return await self._runs.renew(holder, lease_s)

    async def finish(self, *arguments: Any, **options: Any) -> None:
        self._ending.set()
        await self._leasing.wait()
        try:
            await super().finish(*arguments, **options)
        finally:
            self._written.set()


async def test_a_run_that_is_claimed_again_while_it_is_ended_has_its_end(
    open_memory: OpenMemory,
) -> None:
    """A process whose disk stood still for longer than its lease finds its own runs abandoned."""
    clock = Clock()
    store = await open_memory(now=clock)
    await begin(store, "resp_1")
    await store.runs.request_cancel("resp_1")
    clock.now += 11
    [earlier] = await store.runs.claim_expired("me", 1)
    runs = OverlappingRuns(store.runs)
    abandoned = abandoned_of(store, runs)
    recovery = asyncio.create_task(abandoned.end_expired())
    await runs.claimed.wait()
    await abandoned.end(earlier, is_cancelled=True)
    await recovery
    assert await abandoned.end_expired() == 0
    found = await store.load("resp_1")
    assert found is not None
    assert found.status == "cancelled"


class LeasedLaterRuns(AwayRuns):
    """Runs of a store whose lease is renewed only once an older claim was ended."""

    def __init__(self, runs: RunStore) -> None:
        super().__init__(runs)
        self.is_away = False
        self.leasing = asyncio.Event()
        self.is_ended = asyncio.Event()

    async def renew(self, holder: str, lease_s: float) -> RenewedRuns:
        self.leasing.set()
        await self.is_ended.wait()
        return await self._runs.renew(holder, lease_s)


async def test_an_end_by_an_older_claim_does_not_take_the_place_of_a_later_claim(
    open_memory: OpenMemory,
) -> None:
    """The client leaves after a stop of the disk, when recovery has claimed the run again."""
    clock = Clock()
    store = await open_memory(now=clock)
    await begin(store, "resp_1")
    clock.now += 11
    [earlier] = await store.runs.claim_expired("me", 1)
    runs = LeasedLaterRuns(store.runs)
    abandoned = abandoned_of(store, runs)
    recovery = asyncio.create_task(abandoned.end_expired())
    await runs.leasing.wait()
    await abandoned.end(earlier, is_cancelled=False)
    runs.is_ended.set()
    await recovery
    assert await abandoned.end_expired() == 0
    found = await store.load("resp_1")
    assert found is not None
    assert found.status == "failed"


async def test_runs_are_ended_under_a_lease(open_memory: OpenMemory) -> None:
    """Else another process would claim them as well, and both would write their ends."""
    clock = Clock()
    store = await open_memory(now=clock)
    await begin(store, "resp_1")
    clock.now += 11
    claimed_by_others: list[int] = []

    class WatchedRuns(AwayRuns):
        async def finish(self, *arguments: Any, **options: Any) -> None:
            claimed_by_others.append(len(await store.runs.claim_expired("other", 10)))
            await self._runs.finish(*arguments, **options)

    assert await abandoned_of(store, WatchedRuns(store.runs)).end_expired() == 1
    assert claimed_by_others == [0]
