"""Retry-attach: which requests are the same, and which runs wait for their client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from antiphon.config import AttachConfig
from antiphon.core.client_profile import PROFILES
from antiphon.core.faults.fault import connection_fault
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.parse import parse_request
from antiphon.dialects.responses.render import render_batch
from antiphon.engine.services import Caller
from antiphon.errors import LimitExceeded, UpstreamError
from antiphon.runs.attach import AttachedTail, AttachTable, digest_request
from antiphon.runs.live_run import LiveRun
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    open_application,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.waiting import LIMIT_S, until

KEY = ("local", b"digest")
LATE_S = 60.0


class Collector:
    """A reader that never takes the second batch, until it is allowed to."""

    def __init__(self) -> None:
        self.data = b""
        self.ready = asyncio.Event()
        self._count = 0

    @property
    def is_blocked(self) -> bool:
        return self._count > 1 and not self.ready.is_set()

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        self.data += render_batch(batch)
        self._count += 1
        if self.is_blocked:
            await self.ready.wait()


@asynccontextmanager
async def attachable(
    window_s: float = LATE_S, upstream: GatedUpstream | None = None
) -> AsyncIterator[tuple[OpenApplication, AttachTable, LiveRun]]:
    async with open_application() as opened:
        if upstream is not None:
            use_upstream(opened.engine, upstream)
        table = AttachTable(AttachConfig(window_s=window_s), opened.application.process.live)
        request = parse_request({"model": "echo/echo", "input": "a b c d e f", "stream": True})
        engine = opened.engine
        prepared = await engine.prepare(request, Caller("local", "req_1"))
        yield opened, table, table.create(engine.services, prepared, KEY)


async def lose(run: LiveRun, reader: Collector) -> None:
    """Lose the connection in the middle of a write."""
    following = asyncio.ensure_future(run.follow(reader))
    await until(lambda: reader.is_blocked, "the reader gets the second batch")
    following.cancel()
    await asyncio.wait((following,))
    await run.leave()


def test_the_same_request_may_be_written_differently() -> None:
    one = digest_request({"model": "m", "input": [{"role": "user", "content": "a"}]})
    same = digest_request({"input": [{"content": "a", "role": "user"}], "model": "m"})
    other = digest_request({"input": [{"content": "b", "role": "user"}], "model": "m"})
    assert one == same != other


async def test_the_clients_that_may_attach() -> None:
    async with open_application() as opened:
        live = opened.application.process.live
        assert AttachTable(AttachConfig(), live).profiles == {"codex", "claude-code"}
        assert AttachTable(AttachConfig(clients=["*"]), live).profiles == set(PROFILES)
        assert AttachTable(AttachConfig(clients=[]), live).profiles == set()


async def test_a_run_goes_on_and_is_read_again_from_the_beginning() -> None:
    async with attachable() as (opened, table, run):
        await run.open(LATE_S)
        assert table.take(KEY) is None  # its reader is still there
        await lose(run, Collector())
        waiting = table.take(KEY)
        assert waiting is not None
        assert table.take(KEY) is None  # one reader at a time
        reader = Collector()
        reader.ready.set()
        await AttachedTail(waiting).follow(reader)
        assert not opened.engine.active
        await AttachedTail(waiting).leave()
        assert table.take(KEY) is None  # it has got everything
    events = events_of(reader.data)
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")


async def test_a_connection_may_be_lost_again() -> None:
    async with attachable() as (_, table, run):
        await run.open(LATE_S)
        await lose(run, Collector())
        waiting = table.take(KEY)
        assert waiting is not None
        await AttachedTail(waiting).leave()
        assert table.take(KEY) is waiting


async def test_a_run_whose_client_stays_away_is_cancelled() -> None:
    upstream = GatedUpstream()
    async with attachable(0.01, upstream) as (opened, table, run):
        await run.open(0.01)
        await until(lambda: upstream.waiting, "the provider has the request")
        await run.leave()
        assert upstream.waiting == 1
        await until(lambda: not opened.engine.active, "the run is cancelled")
        assert (upstream.waiting, table.take(KEY)) == (0, None)


async def test_a_run_that_failed_is_not_read_again() -> None:
    upstream = GatedUpstream(error=UpstreamError(connection_fault("reset")))
    async with attachable(LATE_S, upstream) as (opened, table, run):
        await run.open(0.01)
        await run.leave()
        upstream.gate.set()
        await until(lambda: not opened.engine.active, "the run has failed")
        assert table.take(KEY) is None


async def test_a_run_whose_response_was_deleted_is_not_read_again() -> None:
    async with attachable() as (opened, table, run):
        await run.open(LATE_S)
        await lose(run, Collector())
        run.delete()
        await until(lambda: not opened.engine.active, "the run is cancelled")
        assert table.take(KEY) is None


class RefusingLimits:
    """Refuses every request when it is told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.is_asked = False

    async def admit(self, client: str, request_id: str) -> Mapping[str, str]:
        self.is_asked = True
        await self.gate.wait()
        raise LimitExceeded(
            "no", code="rate_limit_exceeded", kind="requests", headers={}, permanent=False
        )

    def release(self, report: object) -> None:
        return

    def withdraw(self, client: str, request_id: str) -> None:
        return


@asynccontextmanager
async def left_before_it_is_refused() -> AsyncIterator[
    tuple[OpenApplication, AttachTable, RefusingLimits]
]:
    """A run whose client has left while its limits are asked."""
    async with open_application() as opened:
        table = AttachTable(AttachConfig(window_s=LATE_S), opened.application.process.live)
        limits = RefusingLimits()
        accounting = replace(opened.engine.services.accounting, limiter=limits)
        services = replace(opened.engine.services, accounting=accounting)
        request = parse_request({"model": "echo/echo", "input": "a", "stream": True})
        prepared = await opened.engine.prepare(request, Caller("local", "req_1"))
        run = table.create(services, prepared, KEY)
        opening = asyncio.ensure_future(run.open(LATE_S))
        await until(lambda: limits.is_asked, "the limits are asked")
        opening.cancel()
        await asyncio.wait((opening,))
        await run.leave()
        yield opened, table, limits


async def test_a_run_that_was_refused_without_its_client_is_not_read_again() -> None:
    async with left_before_it_is_refused() as (opened, table, limits):
        limits.gate.set()
        await until(lambda: not opened.engine.active, "the run is refused")
        assert table.take(KEY) is None


async def test_a_client_that_is_back_when_its_run_is_refused_gets_the_reason() -> None:
    async with left_before_it_is_refused() as (_, table, limits):
        waiting = table.take(KEY)
        assert waiting is not None
        tail = AttachedTail(waiting)
        reading = asyncio.ensure_future(tail.response())
        limits.gate.set()
        with pytest.raises(LimitExceeded):
            await asyncio.wait_for(reading, LIMIT_S)
        await tail.leave()
        assert table.take(KEY) is None


async def test_a_client_that_is_back_does_not_wait_for_a_run_that_was_cancelled_too_early() -> None:
    """Before it began: it has no events, and no end."""
    async with left_before_it_is_refused() as (_, table, _limits):
        waiting = table.take(KEY)
        assert waiting is not None
        reading = asyncio.ensure_future(AttachedTail(waiting).response())
        waiting.cancel()
        with pytest.raises(ConnectionAbortedError):
            await asyncio.wait_for(reading, LIMIT_S)


async def test_a_run_that_never_began_does_not_wait() -> None:
    upstream = GatedUpstream(error=UpstreamError(connection_fault("reset")))
    upstream.gate.set()
    async with attachable(LATE_S, upstream) as (_, table, run):
        try:
            await run.open(LATE_S)
        except UpstreamError:
            await run.leave()
        assert table.take(KEY) is None


async def test_a_reader_that_gets_everything_leaves_nothing_behind() -> None:
    async with attachable() as (_, table, run):
        await run.open(LATE_S)
        reader = Collector()
        reader.ready.set()
        await run.follow(reader)
        await run.leave()
        assert table.take(KEY) is None
