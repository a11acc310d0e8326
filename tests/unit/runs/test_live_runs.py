"""Live runs: a long foreground response is stored when it begins, and ended by somebody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.config import StoreConfig
from antiphon.engine.services import Caller
from antiphon.runs.live_runs import look_interval
from antiphon.store.run_log import RunStart, RunStore
from antiphon.store.store import Store
from antiphon.wire.request import Request
from tests.support.applications import (
    GatedUpstream,
    document_of,
    echo_config,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.turns import turn
from tests.support.waiting import until, until_async


async def test_a_long_response_is_in_progress_for_other_processes_too(tmp_path: Path) -> None:
    store = StoreConfig(url=f"sqlite:///{tmp_path / 'turns.db'}")
    config = replace(echo_config(commit_after_s=0.01), store=store)
    async with open_application(config) as opened, open_application(config) as other:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = opened.application.live.drivers
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
        request = Request.read({"model": "echo/echo", "input": "Hello", "stream": True})
        run = await opened.engine.create(request, Caller("local", "req_1"))
        async with run:
            await run.open()
            while await run.next_events():
                pass
            opened.application.live.record_start(run)
        response_id = run.prepared.response.id
        turn = await opened.engine.services.store.load(response_id, client="local")
        await opened.application.live.lease.close()
        assert turn is not None
        assert turn.status == "completed"
        assert await opened.engine.services.store.delete(response_id, client="local")
        assert not await opened.engine.services.store.delete(response_id, client="local")


async def test_responses_of_a_lost_process_are_ended_at_start() -> None:
    async with open_application() as opened:
        runs = opened.engine.services.store.runs
        response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        lost = turn("resp_1", status="in_progress", output=(), response=response, client="local")
        await runs.begin(lost, RunStart(holder="a process that is gone"))
        await opened.application.start()
        found = document_of(await opened.request("GET", "/v1/responses/resp_1"))
    assert found["status"] == "failed"
    assert [entry.event for entry in opened.log] == ["runs.recovered"]


def test_a_lost_process_is_noticed_soon_after_its_lease() -> None:
    """Not as long after it as the lease itself takes."""
    assert [look_interval(lease_s) for lease_s in (0.5, 10.0, 60.0)] == [0.5, 1.0, 1.0]


async def test_a_driver_is_found_by_its_owner_alone() -> None:
    async with open_application(echo_config(commit_after_s=0.01)) as opened:
        upstream, live = GatedUpstream(), opened.application.live
        use_upstream(opened.engine, upstream)
        for is_stored in (True, False):
            streaming = await opened.create(stream=True, store=is_stored)
            [response_id] = live.drivers
            assert (live.find(response_id, "local") is not None) is is_stored
            assert live.find(response_id, "somebody") is None
            assert live.find_log(response_id, "local") is None  # it is not a background response
            live.drivers[response_id].delete()
            assert live.find(response_id, "local") is None
            assert not isinstance(streaming.body, bytes)
            await streaming.body.close()


class SlowRuns:
    """Runs of a store that is slow to store the end of one."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self.gate = asyncio.Event()
        self.waiting = 0

    async def finish(self, *arguments: Any, **options: Any) -> None:
        self.waiting += 1
        await self.gate.wait()
        await self._runs.finish(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)


class SlowStore:
    def __init__(self, store: Store, runs: SlowRuns) -> None:
        self._store = store
        self.runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_response_is_ended_although_its_reader_leaves_while_it_is_stored() -> None:
    async with open_application(echo_config(commit_after_s=0.01)) as opened:
        live, upstream = opened.application.live, GatedUpstream()
        runs = SlowRuns(live.store.runs)
        slow: Any = SlowStore(live.store, runs)
        live.store = slow
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.drivers
        await until(lambda: response_id in live.lease._held, "the response is stored")
        reading = asyncio.ensure_future(read_stream(streaming))
        upstream.gate.set()
        await until(lambda: runs.waiting, "its end is being stored")
        reading.cancel()
        await asyncio.wait((reading,))
        runs.gate.set()

        async def is_completed() -> bool:
            found = document_of(await opened.request("GET", f"/v1/responses/{response_id}"))
            return bool(found.get("status") == "completed")

        await until_async(is_completed, "its end is stored")
        assert not live.lease._held


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
async def test_nothing_is_kept_of_a_response_that_is_deleted_while_it_is_generated(
    tmp_path: Path, store: str
) -> None:
    url = f"sqlite:///{tmp_path / 'turns.db'}" if store == "sqlite" else store
    config = replace(echo_config(commit_after_s=0.01), store=StoreConfig(url=url))
    async with open_application(config) as opened:
        live, upstream = opened.application.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.drivers
        await until(lambda: response_id in live.lease._held, "the response is being stored")
        deleted = await opened.request("DELETE", f"/v1/responses/{response_id}")
        assert deleted.status == 200
        await read_stream(streaming)
        await until(lambda: not live.lease._held, "the lease is released")
        assert (await opened.request("GET", f"/v1/responses/{response_id}")).status == 404


async def test_deleting_a_response_of_another_process_ends_it_without_an_error(
    tmp_path: Path,
) -> None:
    store = StoreConfig(url=f"sqlite:///{tmp_path / 'turns.db'}")
    config = replace(echo_config(commit_after_s=0.01), store=store)
    async with open_application(config) as opened, open_application(config) as other:
        live, upstream = opened.application.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.drivers
        path = f"/v1/responses/{response_id}"

        async def is_deleted() -> bool:
            return (await other.request("DELETE", path)).status == 200

        await until_async(is_deleted, "the response is stored, and deleted")
        await live.lease.renew()
        assert (await opened.request("GET", path)).status == 404
        await read_stream(streaming)
        await until(lambda: not live.lease._held, "the lease is released")
        assert [entry.event for entry in opened.log] == ["response.cancelled"]


async def test_a_response_whose_run_breaks_after_it_was_stored_is_ended() -> None:
    async with open_application(echo_config(commit_after_s=0.01)) as opened:
        live, upstream = opened.application.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await opened.create(stream=True)
        [response_id] = live.drivers
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
