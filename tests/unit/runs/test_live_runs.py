"""Live runs: a long foreground response is stored when it begins, and ended by somebody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace as replace_services
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.config import BackgroundConfig, StoreConfig
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.services import Caller
from antiphon.errors import StoreError
from antiphon.runs.live_run import START_AFTER_S, LiveRun
from antiphon.runs.live_runs import LiveRuns, recovery_interval
from antiphon.store.run_log import LaterRuns, LoggedBatch, RunStart, RunStore
from antiphon.store.store import Store
from antiphon.store.turn import Turn
from tests.support.applications import (
    GatedUpstream,
    document_of,
    echo_config,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.loop_clock import loop_clock
from tests.support.turns import turn
from tests.support.waiting import until, until_async

LATE_S = 60.0
REQUEST = parse_request({"model": "echo/echo", "input": "Hello", "stream": True})


class Collector:
    """A reader that takes everything."""

    async def send(self, batch: EventBatch, is_last: bool) -> None:
        return


async def follow(run: LiveRun, opening: Awaitable[None]) -> None:
    await opening
    await run.follow(Collector())


class SlowStore:
    """A store that stores the end of a response when `gate` is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs = SlowRuns(store.runs, self)
        self.gate = asyncio.Event()
        self.waiting = 0

    async def wait(self) -> None:
        self.waiting += 1
        await self.gate.wait()

    async def save(self, *arguments: Any, **options: Any) -> None:
        await self.wait()
        await self._store.save(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class SlowRuns:
    def __init__(self, runs: RunStore, store: SlowStore) -> None:
        self._runs = runs
        self._store = store

    async def finish(self, *arguments: Any, **options: Any) -> None:
        await self._store.wait()
        await self._runs.finish(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)


async def test_a_long_response_is_in_progress_for_other_processes_too(tmp_path: Path) -> None:
    store = StoreConfig(url=f"sqlite:///{tmp_path / 'turns.db'}")
    config = replace(echo_config(commit_after_s=0.01), store=store)
    async with open_application(config) as opened, open_application(config) as other:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = opened.application.process.live.runs
        path = f"/v1/responses/{response_id}"

        async def is_stored() -> bool:
            return (await other.request("GET", path)).status == 200

        await until_async(is_stored, "the response is stored")
        assert document_of(await other.request("GET", path))["status"] == "in_progress"
        upstream.gate.set()
        await read_stream(streaming)
        assert document_of(await other.request("GET", path))["status"] == "completed"


async def test_a_response_that_is_being_stored_is_not_stored_as_begun() -> None:
    """The end may take long to store: it must not be overwritten with the beginning."""
    async with open_application() as opened:
        store = SlowStore(opened.engine.services.store)
        opened.engine.services = services = replace_services(opened.engine.services, store=store)
        live = LiveRuns(opened.engine, BackgroundConfig())
        prepared = await opened.engine.prepare(REQUEST, Caller("local", "req_1"))
        run = live.create(services, prepared)
        with loop_clock() as clock:
            opening = asyncio.ensure_future(run.open(LATE_S))
            reading = asyncio.ensure_future(follow(run, opening))
            await until(lambda: store.waiting, "the end is being stored")
            await clock.advance(2 * START_AFTER_S)
        assert not live.lease._held  # which the beginning would need
        store.gate.set()
        await reading
        turn = await store.load(prepared.response.id, client="local")
    assert turn is not None
    assert turn.status == "completed"


async def test_responses_of_a_lost_process_are_ended_at_start() -> None:
    async with open_application() as opened:
        runs = opened.engine.services.store.runs
        response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        lost = turn("resp_1", status="in_progress", output=(), response=response, client="local")
        await runs.begin(lost, RunStart(holder="a process that is gone"))
        await opened.application.process.start()
        found = document_of(await opened.request("GET", "/v1/responses/resp_1"))
    assert found["status"] == "failed"
    assert [entry.event for entry in opened.log] == ["runs.recovered"]


async def test_a_lost_response_that_cannot_be_ended_does_not_keep_a_process_from_its_start() -> (
    None
):
    """Neither does it end the recovery of others for as long as the process lives."""
    async with open_application() as opened:
        live, runs = opened.application.process.live, opened.engine.services.store.runs
        lost = turn("resp_1", status="in_progress", output=(), client="local")
        holder = "a process that is gone"
        token = await runs.begin(lost, RunStart(holder=holder, is_streamed=True))
        await runs.append("resp_1", token, [LoggedBatch(0, 0, b"what nothing can read\n\n")])
        await opened.application.process.start()
        assert live._watching is not None
        assert not live._watching.done()
        assert [(each.event, each.facts) for each in opened.log] == [
            ("runs.recovery_failed", {"reason": "ValueError"})
        ]


def test_a_lost_process_is_noticed_soon_after_its_lease() -> None:
    """Not as long after it as the lease itself takes."""
    assert [recovery_interval(lease_s) for lease_s in (0.5, 10.0, 60.0)] == [0.5, 1.0, 1.0]


async def test_a_run_is_found_by_its_owner_alone() -> None:
    async with open_application(echo_config(commit_after_s=0.01)) as opened:
        upstream, live = GatedUpstream(), opened.application.process.live
        use_upstream(opened.engine, upstream)
        for is_stored in (True, False):
            streaming = await opened.create(stream=True, store=is_stored)
            [response_id] = live.runs
            assert (live.find(response_id, "local") is not None) is is_stored
            assert live.find(response_id, "somebody") is None
            assert live.find_log(response_id, "local") is None  # it is not a background response
            live.runs[response_id].delete()
            assert live.find(response_id, "local") is None
            assert not isinstance(streaming.body, bytes)
            await streaming.body.close()


async def test_a_response_is_ended_although_its_reader_leaves_while_it_is_stored() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        store = SlowStore(opened.engine.services.store)
        opened.engine.services = services = replace_services(opened.engine.services, store=store)
        live = LiveRuns(opened.engine, BackgroundConfig())
        prepared = await opened.engine.prepare(REQUEST, Caller("local", "req_1"))
        run = live.create(services, prepared)
        await run.open(0.01)
        await until(lambda: prepared.response.id in live.lease._held, "the response is stored")
        reading = asyncio.ensure_future(run.follow(Collector()))
        upstream.gate.set()
        await until(lambda: store.waiting, "its end is being stored")
        reading.cancel()
        await asyncio.wait((reading,))
        leaving = asyncio.ensure_future(run.leave())
        await until(lambda: run.task is not None and run.task.cancelling(), "its reader leaves")
        store.gate.set()
        await leaving

        async def is_completed() -> bool:
            turn = await store.load(prepared.response.id, client="local")
            return turn is not None and turn.status == "completed"

        await until_async(is_completed, "its end is stored")
        assert not live.lease._held
        await live.close()


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
async def test_nothing_is_kept_of_a_response_that_is_deleted_while_it_is_generated(
    tmp_path: Path, store: str
) -> None:
    url = f"sqlite:///{tmp_path / 'turns.db'}" if store == "sqlite" else store
    config = replace(echo_config(commit_after_s=0.01), store=StoreConfig(url=url))
    async with open_application(config) as opened:
        live, upstream = opened.application.process.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.runs
        await until(lambda: response_id in live.lease._held, "the response is being stored")
        deleted = await opened.request("DELETE", f"/v1/responses/{response_id}")
        assert deleted.status == 200
        await read_stream(streaming)
        await until(lambda: not live.lease._held, "the lease is released")
        assert (await opened.request("GET", f"/v1/responses/{response_id}")).status == 404


async def test_a_response_that_is_deleted_while_it_is_stored_ends_for_its_reader() -> None:
    async with open_application() as opened:
        store = SlowStore(opened.engine.services.store)
        opened.engine.services = replace_services(opened.engine.services, store=store)
        opened.application.process.live = live = LiveRuns(opened.engine, BackgroundConfig())
        streaming = await opened.create(stream=True)
        reading = asyncio.ensure_future(read_stream(streaming))
        await until(lambda: store.waiting, "its end is being stored")
        [response_id] = live.runs
        path = f"/v1/responses/{response_id}"
        deleting = asyncio.ensure_future(opened.request("DELETE", path))
        await until(lambda: live.runs[response_id].is_deleted, "it is deleted")
        store.gate.set()
        assert events_of(await reading)[-1]["type"] == "response.completed"
        assert (await deleting).status == 200
        assert (await opened.request("GET", path)).status == 404


async def test_a_response_is_deleted_although_its_beginning_could_not_be_stored() -> None:
    """Its end was stored all the same, after it was deleted."""
    async with open_application(echo_config(commit_after_s=0.01)) as opened:
        live, upstream = opened.application.process.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        asked: list[str] = []

        async def begin(turn: Turn, start: RunStart) -> int:
            asked.append(turn.id)
            raise StoreError("the database is away")

        runs: Any = opened.engine.services.store.runs
        runs._later = LaterRuns(begin, later_s=0)
        streaming = await opened.create(stream=True)
        await until(lambda: asked, "the beginning is stored")
        [response_id] = asked
        path = f"/v1/responses/{response_id}"
        assert (await opened.request("DELETE", path)).status == 200
        await read_stream(streaming)
        await until(lambda: not live.lease._held, "the lease is released")
        assert (await opened.request("GET", path)).status == 404


async def test_deleting_a_response_of_another_process_ends_it_without_an_error(
    tmp_path: Path,
) -> None:
    store = StoreConfig(url=f"sqlite:///{tmp_path / 'turns.db'}")
    config = replace(echo_config(commit_after_s=0.01), store=store)
    async with open_application(config) as opened, open_application(config) as other:
        live, upstream = opened.application.process.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.runs
        path = f"/v1/responses/{response_id}"

        async def is_deleted() -> bool:
            return (await other.request("DELETE", path)).status == 200

        await until_async(is_deleted, "the response is stored, and deleted")
        await live.lease.renew()
        assert (await opened.request("GET", path)).status == 404
        await read_stream(streaming)
        await until(lambda: not live.lease._held, "the lease is released")
        events = [entry.event for entry in opened.log]
        assert events == ["request.rejected", "response.cancelled"]


async def test_a_response_whose_run_breaks_after_it_was_stored_is_ended() -> None:
    async with open_application(echo_config(commit_after_s=0.01)) as opened:
        live, upstream = opened.application.process.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.runs
        await until(lambda: response_id in live.lease._held, "the response is being stored")
        upstream.gate.set()
        assert not isinstance(streaming.body, bytes)
        with pytest.raises(ZeroDivisionError):
            await streaming.body.write_to(_BrokenWriter().write)
        await until(lambda: not live.lease._held, "the lease is released")
        found = document_of(await opened.request("GET", f"/v1/responses/{response_id}"))
    assert found["status"] == "failed"


class _BrokenWriter:
    """Writes the first events; then it raises what no connection raises."""

    def __init__(self) -> None:
        self._writes = 0

    async def write(self, data: bytes) -> None:
        self._writes += 1
        if self._writes > 1:
            raise ZeroDivisionError
