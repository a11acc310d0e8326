"""A live run: when its response begins, who reads it, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from antiphon.core.events import Event
from antiphon.core.faults.fault import connection_fault
from antiphon.core.plan.plan import Outbound
from antiphon.core.request import Request
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.engine.upstream import EchoUpstream, UpstreamResponse
from antiphon.errors import LimitExceeded, UpstreamError
from antiphon.providers.registry import Provider
from antiphon.runs.event_log import EventLog
from antiphon.runs.live_run import LiveRun
from antiphon.store.store import Store, Turn
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    open_application,
    use_upstream,
)
from tests.support.loop_clock import loop_clock
from tests.support.waiting import until

CALLER = Caller("local", "req_1")
SOON_S = 0.01
LATE_S = 60.0


class Collector:
    """A reader that keeps what it gets, and may be slow or gone."""

    def __init__(self) -> None:
        self.batches: list[EventBatch] = []
        self.ends: list[bool] = []
        self.ready = asyncio.Event()
        self.ready.set()
        self.leaves_after: int | None = None
        """Number of batches after which the connection is gone."""

    @property
    def types(self) -> list[str]:
        return [type_of(event) for batch in self.batches for event in batch.events]

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        if len(self.batches) == self.leaves_after:
            raise ConnectionResetError
        self.batches.append(batch)
        self.ends.append(is_last)
        await self.ready.wait()


def type_of(event: Event) -> str:
    return type(event).__struct_config__.tag  # type: ignore[return-value]


class SlowStore:
    """A store that saves nothing before `go_on` is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_saving = False
        self.go_on = asyncio.Event()

    async def save(self, turn: Turn, **options: Any) -> None:
        self.is_saving = True
        await self.go_on.wait()
        await self._store.save(turn, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class WholeUpstream(EchoUpstream):
    """The echo provider, which sends its whole answer in one piece."""

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        answer = await super().open(provider, outbound, key)
        data = b""
        while piece := await answer.next():
            data += piece
        return _OnePiece(answer, data)


class _OnePiece:
    def __init__(self, answer: UpstreamResponse, data: bytes) -> None:
        self._data = [data]
        self.status, self.headers = answer.status, answer.headers
        self.close = answer.close

    async def next(self) -> bytes:
        return self._data.pop() if self._data else b""

    async def read(self) -> bytes:
        return await self.next()


async def live_run(opened: OpenApplication, request: Request) -> LiveRun:
    return LiveRun(await opened.engine.create(request, CALLER), EventLog(keeps_events=False))


@asynccontextmanager
async def driven(
    upstream: GatedUpstream | None = None, text: str = "Hello there, world"
) -> AsyncIterator[tuple[OpenApplication, LiveRun]]:
    async with open_application() as opened:
        if upstream is not None:
            use_upstream(opened.engine, upstream)
        request = parse_request({"model": "echo/echo", "input": text, "stream": True})
        live = await live_run(opened, request)
        try:
            yield opened, live
        finally:
            await live.leave()
            assert not opened.engine.active


async def stored_turn(opened: OpenApplication, live: LiveRun) -> Turn | None:
    response_id = live.run.prepared.response.id
    return await opened.engine.services.store.load(response_id, client="local")


async def test_a_reader_gets_all_events_once_in_order() -> None:
    reader = Collector()
    async with driven() as (_, live):
        await live.open(LATE_S)
        await live.follow(reader)
    assert (reader.types[0], reader.types[-1]) == ("response.created", "response.completed")
    lasts = [batch.last for batch in reader.batches]
    assert [batch.first for batch in reader.batches] == [0, *(last + 1 for last in lasts[:-1])]
    assert reader.ends == [False] * (len(lasts) - 1) + [True]


async def test_the_next_batch_waits_for_the_reader() -> None:
    reader = Collector()
    reader.ready.clear()
    async with driven() as (opened, live):
        await live.open(LATE_S)
        following = asyncio.ensure_future(live.follow(reader))
        await until(lambda: reader.batches, "the first batch")
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(reader.batches) == 1
        reader.ready.set()
        await following
        assert reader.ends[-1]
        assert not opened.engine.active


async def test_a_slow_provider_does_not_delay_the_beginning() -> None:
    upstream, reader = GatedUpstream(), Collector()
    async with driven(upstream) as (_, live):
        await live.open(SOON_S)
        following = asyncio.ensure_future(live.follow(reader))
        await until(lambda: reader.batches, "the first batch")
        assert reader.types == ["response.created", "response.in_progress"]
        upstream.gate.set()
        await following
    assert reader.batches[1].first == 2


async def test_a_store_that_is_slow_does_not_begin_the_answer_twice() -> None:
    """The whole answer came with the first read, and is being stored when the limit is reached."""
    reader = Collector()
    async with driven(text="Hello") as (opened, _):
        store = SlowStore(opened.engine.services.store)
        opened.engine.services = replace(opened.engine.services, store=store)
        request = parse_request({"model": "echo/echo", "input": "Hello", "stream": True})
        upstream = WholeUpstream()
        use_upstream(opened.engine, upstream)
        slow = await live_run(opened, request)
        with loop_clock() as clock:
            opening = asyncio.ensure_future(slow.open(LATE_S))
            await until(lambda: store.is_saving, "the response is being stored")
            await clock.advance(2 * LATE_S)
            assert not opening.done()
        store.go_on.set()
        await opening
        await slow.follow(reader)
    assert len(reader.batches) == 1
    assert (reader.types[0], reader.types[-1]) == ("response.created", "response.completed")


class GatedLimits:
    """Admits or refuses a request when it is told to."""

    def __init__(self, refusal: LimitExceeded | None = None) -> None:
        self.gate = asyncio.Event()
        self.is_asked = False
        self._refusal = refusal

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        self.is_asked = True
        await self.gate.wait()
        if self._refusal is not None:
            raise self._refusal
        return {"x-ratelimit-limit-requests": "1"}


async def limited_run(opened: OpenApplication, limits: GatedLimits) -> LiveRun:
    request = parse_request({"model": "echo/echo", "input": "Hello", "stream": True})
    prepared = await opened.engine.prepare(request, CALLER)
    run = Run(opened.engine.services, prepared, admit=limits.admit)
    return LiveRun(run, EventLog(keeps_events=False))


async def test_a_response_does_not_begin_before_its_client_is_admitted() -> None:
    refusal = LimitExceeded(
        "no", code="rate_limit_exceeded", kind="requests", headers={}, permanent=False
    )
    async with open_application() as opened:
        limits = GatedLimits(refusal)
        live = await limited_run(opened, limits)
        with loop_clock() as clock:
            opening = asyncio.ensure_future(live.open(SOON_S))
            await until(lambda: limits.is_asked, "the limits are asked")
            await clock.advance(LATE_S)
            limits.gate.set()
            with pytest.raises(LimitExceeded):
                await opening
        assert not opened.engine.active


async def test_a_run_that_is_cancelled_before_it_begins_ends_its_opening() -> None:
    async with open_application() as opened:
        limits = GatedLimits()
        live = await limited_run(opened, limits)
        opening = asyncio.ensure_future(live.open(LATE_S))
        await until(lambda: limits.is_asked, "the limits are asked")
        live.cancel()
        await asyncio.wait({opening}, timeout=1.0)
        assert opening.cancelled()
        assert not opened.engine.active


async def test_a_fault_before_the_beginning_is_raised() -> None:
    upstream = GatedUpstream(error=UpstreamError(connection_fault("reset")))
    upstream.gate.set()
    async with driven(upstream) as (opened, live):
        with pytest.raises(UpstreamError):
            await live.open(LATE_S)
        assert not opened.engine.active


async def test_a_fault_after_the_beginning_is_an_event() -> None:
    upstream = GatedUpstream(error=UpstreamError(connection_fault("reset")))
    reader = Collector()
    async with driven(upstream) as (_, live):
        await live.open(SOON_S)
        upstream.gate.set()
        await live.follow(reader)
    assert reader.types == ["response.created", "response.in_progress", "response.failed"]
    assert reader.ends == [False, True]


async def test_a_reader_that_leaves_cancels_the_run_which_is_saved_as_cancelled() -> None:
    upstream = GatedUpstream()
    async with driven(upstream) as (opened, live):
        await live.open(SOON_S)
        await live.leave()
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)
        turn = await stored_turn(opened, live)
    assert turn is not None
    assert (turn.status, turn.response["status"]) == ("cancelled", "cancelled")
    assert turn.response["incomplete_details"] is None


async def test_a_reader_that_is_gone_cancels_the_run_and_hears_of_it() -> None:
    reader = Collector()
    reader.leaves_after = 1
    async with driven() as (opened, live):
        await live.open(LATE_S)
        with pytest.raises(ConnectionResetError):
            await live.follow(reader)
        assert not opened.engine.active
        turn = await stored_turn(opened, live)
    assert turn is not None
    assert turn.status == "cancelled"
    assert [item["status"] for item in turn.output] == ["incomplete"]


async def test_leaving_before_the_beginning_cancels_the_run() -> None:
    upstream = GatedUpstream()
    async with driven(upstream) as (opened, live):
        opening = asyncio.ensure_future(live.open(LATE_S))
        await until(lambda: upstream.waiting, "the provider has the request")
        opening.cancel()
        await asyncio.wait((opening,))
        await live.leave()
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)


async def test_leaving_a_run_that_was_never_opened_does_nothing() -> None:
    async with driven() as (opened, live):
        await live.leave()
        assert not opened.engine.active
