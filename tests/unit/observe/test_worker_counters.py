"""Counters of limits that workers share through their parent, over a real pair of sockets."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from antiphon.config import ClientLimitConfig
from antiphon.engine.accounting import DOLLAR
from antiphon.observe.counters import MemoryLimitCounters, list_periods
from antiphon.observe.limits import ClientLimiter
from antiphon.observe.worker_counters import WorkerLimitCounters
from antiphon.server.workers.limit_server import LimitServer
from tests.support.waiting import until_async

NOON = 1_790_000_000.0
STREAM = ClientLimitConfig(max_streams=1)


def memory() -> MemoryLimitCounters:
    return MemoryLimitCounters(lambda: 0.0, lambda: NOON)


class Parent:
    """The loop of the parent, run by that of the test."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.server = LimitServer(self._selector, lambda: 0.0, lambda: NOON)

    def run(self) -> None:
        for key, _ in self._selector.select(0):
            key.data()

    def close(self) -> None:
        self.server.close()
        self._selector.close()

    async def run_always(self) -> None:
        while True:
            self.run()
            await asyncio.sleep(0)

    async def connect(self) -> WorkerLimitCounters:
        worker = WorkerLimitCounters(self.server.connect(), memory())
        await worker.open()
        return worker


@asynccontextmanager
async def running_parent() -> AsyncIterator[Parent]:
    parent = Parent()
    running = asyncio.ensure_future(parent.run_always())
    try:
        yield parent
    finally:
        running.cancel()
        await asyncio.wait([running])
        parent.close()


async def refusal(worker: WorkerLimitCounters, id: str) -> str | None:
    return (await worker.acquire("me", id, STREAM)).refused_by


async def test_a_limit_is_one_for_all_workers_also_in_a_burst() -> None:
    limits = ClientLimitConfig(requests_per_minute=60)
    async with running_parent() as parent:
        both = [await parent.connect() for _ in range(2)]
        asked = (both[n % 2].acquire("me", f"r{n}", limits) for n in range(2000))
        states = await asyncio.gather(*asked)
        for each in both:
            await each.close()
    assert sum(each.refused_by is None for each in states) == 60
    assert states[-1].requests == 60


async def test_what_one_worker_releases_and_spends_counts_for_the_others() -> None:
    limits = ClientLimitConfig(max_streams=1, cost_per_day=1.5)
    async with running_parent() as parent:
        first, second = await parent.connect(), await parent.connect()
        assert (await first.acquire("me", "r1", limits)).refused_by is None
        assert (await second.acquire("me", "r2", limits)).refused_by == "max_streams"
        first.release("me", "r1", 7, DOLLAR)
        assert (await first.acquire("me", "r3", limits)).tokens == 7
        first.release("me", "r3", 0, DOLLAR)
        assert (await first.acquire("other", "r4", limits)).refused_by is None
        state = await second.acquire("me", "r5", limits)
        assert (state.refused_by, state.spent) == ("cost_per_day", 2 * DOLLAR)
        second.note_spent("new", dict.fromkeys(list_periods(NOON), 3 * DOLLAR))
        assert (await second.acquire("new", "r6", limits)).spent == 3 * DOLLAR
        await first.close()
        await second.close()


async def test_a_stream_of_a_worker_that_is_gone_does_not_count() -> None:
    async with running_parent() as parent:
        gone, other = await parent.connect(), await parent.connect()
        assert await refusal(gone, "r1") is None
        assert await refusal(other, "r2") == "max_streams"
        await gone.close()

        async def is_released() -> bool:
            return await refusal(other, "r3") is None

        await until_async(is_released, "the stream of the worker that is gone")
        assert await refusal(other, "r4") == "max_streams"
        await other.close()


async def test_a_request_that_is_given_up_while_it_waits_does_not_count() -> None:
    async with running_parent() as parent:
        worker = await parent.connect()
        given_up = asyncio.ensure_future(worker.acquire("me", "r1", STREAM))
        refused = asyncio.ensure_future(worker.acquire("me", "r2", STREAM))
        await asyncio.sleep(0)
        given_up.cancel()
        assert (await refused).refused_by == "max_streams"
        assert await refusal(worker, "r3") is None
        await worker.close()


class HastyCounters(WorkerLimitCounters):
    """Counters of a worker whose request is given up just when its reply has come."""

    request: asyncio.Future[Any] | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.request is not None:
            self.request.cancel()
            self.request = None


async def test_a_request_that_is_given_up_when_its_reply_has_come_does_not_count() -> None:
    async with running_parent() as parent:
        worker = HastyCounters(parent.server.connect(), memory())
        await worker.open()
        limiter = ClientLimiter({"me": STREAM}, worker, lambda: NOON, lambda entry: None)
        given_up = worker.request = asyncio.ensure_future(limiter.admit("me", "r1"))
        await asyncio.wait([given_up])
        assert given_up.cancelled()
        assert await refusal(worker, "r2") is None
        await worker.close()


async def test_a_worker_counts_by_itself_when_its_parent_is_gone() -> None:
    parent = Parent()
    worker = await parent.connect()
    waiting = asyncio.ensure_future(refusal(worker, "r1"))
    await asyncio.sleep(0)
    parent.close()
    assert await waiting is None
    assert await refusal(worker, "r2") == "max_streams"
    worker.release("me", "r1", 0, 0)
    assert await refusal(worker, "r3") is None
    await worker.close()
