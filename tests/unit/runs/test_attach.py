"""Retry-attach: which requests are the same, and which runs wait for their client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.config import AttachConfig
from antiphon.core.client_profile import PROFILES
from antiphon.core.faults.fault import connection_fault
from antiphon.engine.services import Caller
from antiphon.errors import UpstreamError
from antiphon.runs.attach import AttachedTail, AttachTable, digest_request
from antiphon.runs.driver import RunDriver
from antiphon.wire.request import Request
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    open_application,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.waiting import until

KEY = ("local", b"digest")
LATE_S = 60.0


class Collector:
    """A reader that never takes the second batch, until it is allowed to."""

    def __init__(self) -> None:
        self.data = b""
        self.ready = asyncio.Event()

    async def send(self, frames: bytes, last_seq: int, is_last: bool) -> None:
        self.data += frames
        await self.ready.wait()


@asynccontextmanager
async def attachable(
    window_s: float = LATE_S, upstream: GatedUpstream | None = None
) -> AsyncIterator[tuple[OpenApplication, AttachTable, RunDriver]]:
    async with open_application() as opened:
        if upstream is not None:
            use_upstream(opened.engine, upstream)
        table = AttachTable(AttachConfig(window_s=window_s), opened.application.live)
        request = Request.read({"model": "echo/echo", "input": "a b c d e f", "stream": True})
        run = await opened.engine.create(request, Caller("local", "req_1"))
        yield opened, table, table.make_driver(run, KEY)


async def lose(driver: RunDriver, reader: Collector) -> None:
    """Lose the connection in the middle of a write."""
    following = asyncio.ensure_future(driver.follow(reader))
    await until(lambda: reader.data, "the reader gets something")
    following.cancel()
    await asyncio.wait((following,))
    await driver.leave()


def test_the_same_request_may_be_written_differently() -> None:
    one = digest_request({"model": "m", "input": [{"role": "user", "content": "a"}]})
    same = digest_request({"input": [{"content": "a", "role": "user"}], "model": "m"})
    other = digest_request({"input": [{"content": "b", "role": "user"}], "model": "m"})
    assert one == same != other


async def test_the_clients_that_may_attach() -> None:
    async with open_application() as opened:
        live = opened.application.live
        assert AttachTable(AttachConfig(), live).profiles == {"codex"}
        assert AttachTable(AttachConfig(clients=["*"]), live).profiles == set(PROFILES)
        assert AttachTable(AttachConfig(clients=[]), live).profiles == set()


async def test_a_run_goes_on_and_is_read_again_from_the_beginning() -> None:
    async with attachable() as (opened, table, driver):
        await driver.open(LATE_S)
        assert table.take(KEY) is None  # its reader is still there
        await lose(driver, Collector())
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
    async with attachable() as (_, table, driver):
        await driver.open(LATE_S)
        await lose(driver, Collector())
        waiting = table.take(KEY)
        assert waiting is not None
        await AttachedTail(waiting).leave()
        assert table.take(KEY) is waiting


async def test_a_run_whose_client_stays_away_is_cancelled() -> None:
    upstream = GatedUpstream()
    async with attachable(0.01, upstream) as (opened, table, driver):
        await driver.open(0.01)
        await until(lambda: upstream.waiting, "the provider has the request")
        await driver.leave()
        assert upstream.waiting == 1
        await until(lambda: not opened.engine.active, "the run is cancelled")
        assert (upstream.waiting, table.take(KEY)) == (0, None)


async def test_a_run_that_failed_is_not_read_again() -> None:
    upstream = GatedUpstream(error=UpstreamError(connection_fault("reset")))
    async with attachable(LATE_S, upstream) as (opened, table, driver):
        await driver.open(0.01)
        await driver.leave()
        upstream.gate.set()
        await until(lambda: not opened.engine.active, "the run has failed")
        assert table.take(KEY) is None


async def test_a_run_that_never_began_does_not_wait() -> None:
    upstream = GatedUpstream(error=UpstreamError(connection_fault("reset")))
    upstream.gate.set()
    async with attachable(LATE_S, upstream) as (_, table, driver):
        try:
            await driver.open(LATE_S)
        except UpstreamError:
            await driver.leave()
        assert table.take(KEY) is None


async def test_a_reader_that_gets_everything_leaves_nothing_behind() -> None:
    async with attachable() as (_, table, driver):
        await driver.open(LATE_S)
        reader = Collector()
        reader.ready.set()
        await driver.follow(reader)
        assert driver.outlive is None
        await driver.leave()
        assert table.take(KEY) is None
