"""Background responses beyond one process: queued work is taken over, a broken run is ended."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from antiphon.config import BackgroundConfig, Config, McpConfig, StoreConfig
from antiphon.core.plan.plan import Outbound
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.services import Caller
from antiphon.engine.upstream import UpstreamResponse
from antiphon.errors import StoreError
from antiphon.providers.registry import Provider
from antiphon.runs.background_queue import AcceptedRequest
from antiphon.runs.live_run import LiveRun
from antiphon.runs.recovery import PROCESS_LOST
from antiphon.store.run_log import RunStore
from antiphon.store.store import Store
from tests.support.applications import (
    GatedUpstream,
    HeldUpstream,
    OpenApplication,
    document_of,
    echo_config,
    error_of,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.stream_validator import check
from tests.support.waiting import LIMIT_S, until, until_async


def config_in(directory: Path, max_running: int = 1) -> Config:
    store = StoreConfig(url=f"sqlite:///{directory / 'turns.db'}")
    return replace(
        echo_config(), store=store, background=BackgroundConfig(max_running=max_running, lease_s=10)
    )


async def submit(opened: OpenApplication, **request: Any) -> str:
    return str(document_of(await opened.create(background=True, **request))["id"])


async def submit_stream(opened: OpenApplication, **request: Any) -> list[dict[str, Any]]:
    """Submit a response that is queued and streamed; returns the events that announce it."""
    queued = await opened.create(background=True, stream=True, **request)
    frames: list[bytes] = []

    async def write(data: bytes) -> None:
        frames.append(data)

    assert not isinstance(queued.body, bytes)
    reading = asyncio.ensure_future(queued.body.write_to(write))
    await until(lambda: frames, "it is announced")
    reading.cancel()
    return events_of(b"".join(frames))


async def status_of(opened: OpenApplication, response_id: str) -> str:
    return str(document_of(await opened.request("GET", f"/v1/responses/{response_id}"))["status"])


async def test_queued_responses_are_generated_by_the_next_process(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first:
        use_upstream(first.engine, GatedUpstream())
        ids = [await submit(first, input=text) for text in ("one", "two", "three")]
    async with open_application(config) as second:
        await second.application.process.start()
        for response_id, text in zip(ids[1:], ("two", "three"), strict=True):

            async def is_completed(response_id: str = response_id) -> bool:
                return await status_of(second, response_id) == "completed"

            await until_async(is_completed, f"{response_id} is generated")
            found = await second.request("GET", f"/v1/responses/{response_id}")
            assert document_of(found)["output_text"] == text
        assert await status_of(second, ids[0]) == "cancelled"  # it had begun


async def test_a_queued_response_that_cannot_be_generated_any_more_has_the_reason(
    tmp_path: Path,
) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first:
        previous = document_of(await first.create())["id"]
        use_upstream(first.engine, GatedUpstream())
        await submit(first)
        queued = await submit(first, previous_response_id=previous)
        await first.request("DELETE", f"/v1/responses/{previous}")
    async with open_application(config) as second:
        await second.application.process.start()

        async def has_failed() -> bool:
            return await status_of(second, queued) == "failed"

        await until_async(has_failed, "it is ended")
        found = document_of(await second.request("GET", f"/v1/responses/{queued}"))
    message = f"Previous response with id '{previous}' not found."
    assert found["error"] == {"code": "server_error", "message": message}
    [failed] = [entry for entry in second.log if entry.event == "background.start_failed"]
    assert failed.facts == {"reason": message, "response_id": queued}


async def test_a_queued_request_that_cannot_be_read_is_ended_and_delays_no_other(
    tmp_path: Path,
) -> None:
    """Another version may have stored it."""
    config = config_in(tmp_path)
    async with open_application(config) as first:
        use_upstream(first.engine, GatedUpstream())
        await submit(first)
        unreadable, readable = [await submit(first) for _ in range(2)]
    with closing(sqlite3.connect(tmp_path / "turns.db")) as database, database:
        which = "turn = (SELECT seq FROM turn WHERE id = ?)"
        database.execute(f"UPDATE run SET request = x'7b7d' WHERE {which}", (unreadable,))
    async with open_application(config) as second:
        await second.application.process.start()

        async def is_completed() -> bool:
            return await status_of(second, readable) == "completed"

        await until_async(is_completed, "the other one is generated")
        assert await status_of(second, unreadable) == "failed"
    [failed] = [entry for entry in second.log if entry.event == "background.start_failed"]
    assert failed.facts == {"reason": "ValidationError", "response_id": unreadable}


@pytest.mark.parametrize(
    "credential",
    [{"authorization": "t-1"}, {"server_url": "https://sky.example/mcp?key=t-1"}],
    ids=["authorization", "query"],
)
async def test_a_queued_response_whose_mcp_credentials_are_gone_says_what_to_do(
    tmp_path: Path, credential: dict[str, str]
) -> None:
    mcp = McpConfig(allow=["https://sky.example/"])
    config = replace(config_in(tmp_path), mcp=mcp)
    sky = {"type": "mcp", "server_label": "sky", "server_url": "https://sky.example/mcp"}
    async with open_application(config) as first:
        use_upstream(first.engine, GatedUpstream())
        await submit(first)
        announced = await submit_stream(first, tools=[{**sky, **credential}])
    async with open_application(config) as second:
        await second.application.process.start()
        path = f"/v1/responses/{announced[0]['response']['id']}?stream=true"
        events = events_of(await read_stream(await second.request("GET", path)))
    check(events)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.failed",
    ]
    message = events[-1]["response"]["error"]["message"]
    assert "credentials for MCP servers ('sky'), which are never stored" in message
    assert "Send the request again" in message
    assert not any(b"t-1" in data for data in read_files(tmp_path))


def read_files(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.iterdir()]


async def test_the_log_of_a_queued_stream_goes_on_in_the_next_process(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first:
        use_upstream(first.engine, GatedUpstream())
        await submit(first)
        announced = await submit_stream(first, input="two")
    async with open_application(config) as second:
        await second.application.process.start()
        path = f"/v1/responses/{announced[0]['response']['id']}?stream=true"
        events = events_of(await read_stream(await second.request("GET", path)))
        again = events_of(await read_stream(await second.request("GET", path)))
    check(events)
    assert events == again
    assert events[:2] == announced
    assert events[-1]["response"]["output_text"] == "two"


async def test_a_response_is_cancelled_by_another_process(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first, open_application(config) as second:
        upstream = GatedUpstream()
        use_upstream(first.engine, upstream)
        response_id = await submit(first)
        await until(lambda: upstream.waiting, "the provider has the request")
        cancelled = await second.request("POST", f"/v1/responses/{response_id}/cancel")
        assert document_of(cancelled)["status"] == "cancelled"
        assert upstream.waiting == 0


async def test_a_stream_is_read_from_another_process_while_it_is_generated(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first, open_application(config) as second:
        upstream = GatedUpstream()
        use_upstream(first.engine, upstream)
        streaming = await first.create(background=True, stream=True)
        [response_id] = first.application.process.live.runs
        path = f"/v1/responses/{response_id}?stream=true"
        tail = await second.request("GET", path)
        upstream.gate.set()
        whole = await read_stream(streaming)
        assert await read_stream(tail) == whole
        assert await read_stream(await second.request("GET", path)) == whole


async def test_every_process_shows_the_items_that_are_finished(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first, open_application(config) as second:
        upstream = HeldUpstream()
        use_upstream(first.engine, upstream)
        streaming = await first.create(model="echo/reasoner", background=True, stream=True)
        [response_id] = first.application.process.live.runs
        await upstream.is_holding.wait()
        path = f"/v1/responses/{response_id}"

        async def is_shown() -> bool:
            return bool(document_of(await first.request("GET", path))["output"])

        await until_async(is_shown, "the reasoning is durable")
        shown = [document_of(await each.request("GET", path)) for each in (first, second)]
        assert shown[0] == shown[1]
        assert [item["type"] for item in shown[0]["output"]] == ["reasoning"]
        assert (shown[0]["status"], shown[0]["usage"]) == ("in_progress", None)
        upstream.gate.set()
        ending = events_of(await read_stream(streaming))[-1]["response"]
        assert ending["output"][0] == shown[0]["output"][0]


async def test_a_run_that_breaks_is_ended_all_the_same(tmp_path: Path) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        await opened.create(background=True, stream=True)
        [live] = opened.application.process.live.runs.values()
        response_id = live.run.prepared.response.id
        await until(lambda: live.log.next_number == 2, "it has begun")
        break_log(live)
        upstream.gate.set()

        async def has_failed() -> bool:
            return await status_of(opened, response_id) == "failed"

        await until_async(has_failed, "the response has ended")
        tail = await opened.request("GET", f"/v1/responses/{response_id}?stream=true")
        events = events_of(await read_stream(tail))
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert events[-1]["type"] == "response.failed"
    assert "background.run_broken" in [entry.event for entry in opened.log]


async def test_a_response_is_generated_although_its_client_leaves_while_it_is_accepted(
    tmp_path: Path,
) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        upstream, live = GatedUpstream(), opened.application.process.live
        use_upstream(opened.engine, upstream)
        accepting = asyncio.ensure_future(opened.create(background=True))
        asking = live.background._tasks  # in its thread
        await until(lambda: asking or live.runs, "the store is being asked")
        accepting.cancel()
        await until(lambda: live.runs, "it is generated")
        [response_id] = live.runs
        upstream.gate.set()

        async def is_completed() -> bool:
            return await status_of(opened, response_id) == "completed"

        await until_async(is_completed, "the response is complete")
        assert not upstream.waiting


async def test_a_conversation_stays_locked_although_its_client_leaves(tmp_path: Path) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        upstream, live = GatedUpstream(), opened.application.process.live
        use_upstream(opened.engine, upstream)
        id = document_of(await opened.request("POST", "/v1/conversations", b"{}"))["id"]
        accepting = asyncio.ensure_future(opened.create(background=True, conversation=id))
        await until(lambda: live.background._tasks, "the store is being asked")
        accepting.cancel()
        await until(lambda: upstream.waiting, "it is generated")
        refused = await asyncio.wait_for(opened.create(conversation=id), LIMIT_S)
        assert error_of(refused)["code"] == "conversation_locked"
        upstream.gate.set()


class RefusingRuns:
    """Runs of a store whose disk is full."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    async def begin(self, turn: object, start: object) -> int:
        raise StoreError("the disk is full")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)


class StoreWithRuns:
    """A store with other runs."""

    def __init__(self, store: Store, runs: Any) -> None:
        self._store = store
        self.runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_response_that_cannot_be_accepted_holds_nothing() -> None:
    async with open_application() as opened:
        created = await opened.request("POST", "/v1/conversations", b"{}")
        conversation = document_of(created)["id"]
        engine, working = opened.engine, opened.engine.services
        refusing: Any = StoreWithRuns(working.store, RefusingRuns(working.store.runs))
        engine.services = dataclasses.replace(working, store=refusing)
        refused = await opened.create(background=True, conversation=conversation)
        engine.services = working
        assert refused.status == 500
        assert not opened.application.process.live.lease._held
        accepted = await opened.create(conversation=conversation)
        assert document_of(accepted)["status"] == "completed"


class HeldClaims:
    """Runs of a store that answers claims when the test says so."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self.is_claiming = False
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    async def claim(self, *arguments: Any, **options: Any) -> Any:
        self.is_claiming = True
        await self.go_on.wait()
        return await self._runs.claim(*arguments, **options)


class LateClaims(HeldClaims):
    """Runs of a store whose answer to a claim comes when the test says so."""

    async def claim(self, *arguments: Any, **options: Any) -> Any:
        claimed = await self._runs.claim(*arguments, **options)
        self.is_claiming = True
        await self.go_on.wait()
        return claimed


async def test_a_queued_response_is_cancelled_although_the_client_that_asked_for_it_leaves(
    tmp_path: Path,
) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        use_upstream(opened.engine, GatedUpstream())
        await submit(opened)
        queued = await submit(opened)
        engine, working = opened.engine, opened.engine.services
        late = LateClaims(working.store.runs)
        store: Any = StoreWithRuns(working.store, late)
        engine.services = dataclasses.replace(working, store=store)
        cancelling = asyncio.ensure_future(opened.request("POST", f"/v1/responses/{queued}/cancel"))
        await until(lambda: late.is_claiming, "it is claimed")
        cancelling.cancel()
        await asyncio.wait({cancelling})
        assert await status_of(opened, queued) == "in_progress"  # no other process ends it
        late.go_on.set()

        async def is_cancelled() -> bool:
            return await status_of(opened, queued) == "cancelled"

        await until_async(is_cancelled, "it is ended")
        engine.services = working


async def test_a_response_that_comes_during_a_claim_is_not_queued_if_there_is_room(
    tmp_path: Path,
) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        engine, background = opened.engine, opened.application.process.live.background
        working = engine.services
        held = HeldClaims(working.store.runs)
        store: Any = StoreWithRuns(working.store, held)
        engine.services = dataclasses.replace(working, store=store)
        background.fill()
        await until(lambda: held.is_claiming, "queued responses are looked for")
        fields = {"model": "echo/echo", "input": "Hi", "background": True, "stream": True}
        prepared = await engine.prepare(parse_request(fields), Caller("local", "req_1"))
        accepted = AcceptedRequest(engine.services, prepared, ExitStack())
        submitting = asyncio.ensure_future(background.submit(accepted))
        await asyncio.wait([submitting], timeout=0.1)  # it would be queued by then
        held.go_on.set()
        path = f"/v1/responses/{(await submitting).id}?stream=true"
        events = events_of(await read_stream(await opened.request("GET", path)))
        engine.services = working
    assert "response.queued" not in [event["type"] for event in events]
    assert events[-1]["type"] == "response.completed"


async def test_responses_that_another_process_has_taken_are_forgotten(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    async with open_application(config) as first, open_application(config) as second:
        upstream = GatedUpstream()
        use_upstream(first.engine, upstream)
        ids = [await submit(first, input=text) for text in ("one", "two")]
        await second.application.process.start()

        async def is_completed() -> bool:
            return await status_of(second, ids[1]) == "completed"

        await until_async(is_completed, "the other process has generated it")
        upstream.gate.set()
        queue = first.application.process.live.background._queue
        await until(lambda: not queue.ids(), "it is forgotten")
        assert upstream.waiting == 0


class OrderedUpstream(GatedUpstream):
    """Notes the texts of calls in the order in which they are given up."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[str] = []

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        try:
            return await super().open(provider, outbound, key)
        finally:
            self.left += re.findall(r"text \d+", outbound.body.decode())


async def test_responses_are_cancelled_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    """In a set of tasks, the order would depend on their addresses in memory."""
    texts = [f"text {number}" for number in range(16)]
    async with open_application(config_in(tmp_path, max_running=16)) as opened:
        upstream = OrderedUpstream()
        use_upstream(opened.engine, upstream)
        for text in texts:
            await submit(opened, input=text)
        await until(lambda: upstream.waiting == 16, "the provider has all requests")
    assert upstream.left == texts


class ErrorAnswer:
    """An answer of status 200 that consists of an error."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json"}

    async def read(self) -> bytes:
        return b'{"error": {"message": "The model is on fire.", "code": 502}}'

    async def next(self) -> bytes:
        return await self.read()

    def close(self) -> None:
        return


class ErrorUpstream(GatedUpstream):
    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        return ErrorAnswer()


async def test_an_error_of_the_provider_is_the_error_of_a_whole_answer(tmp_path: Path) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        use_upstream(opened.engine, ErrorUpstream())
        response_id = await submit(opened)

        async def has_failed() -> bool:
            return await status_of(opened, response_id) == "failed"

        await until_async(has_failed, "the response has ended")
        found = document_of(await opened.request("GET", f"/v1/responses/{response_id}"))
    assert PROCESS_LOST not in found["error"]["message"]
    assert "background.run_broken" not in [entry.event for entry in opened.log]


def break_log(live: LiveRun) -> None:
    def feed(events: object) -> EventBatch:
        raise RuntimeError("a bug")

    live.log.feed = feed  # type: ignore[method-assign]


async def test_the_lock_of_a_conversation_is_left_to_its_response_whenever_the_client_leaves(
    tmp_path: Path,
) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        use_upstream(opened.engine, GatedUpstream())
        await submit(opened)  # the others wait for its place
        locks = opened.application.process.conversation_locks
        for turns_of_the_loop in range(0, 60, 2):
            body = json.dumps({}).encode()
            conversation = document_of(await opened.request("POST", "/v1/conversations", body))
            creating = asyncio.ensure_future(
                opened.create(background=True, conversation=conversation["id"])
            )
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            creating.cancel()
            await asyncio.wait({creating})
            await until(lambda: not locks._held, f"no lock after {turns_of_the_loop} turns")
            assert not locks._held


async def test_the_lease_is_held_while_a_queued_request_is_prepared(tmp_path: Path) -> None:
    """Else another process would end the response if the store takes long."""
    config = config_in(tmp_path)
    async with open_application(config) as first:
        previous = document_of(await first.create())["id"]
        use_upstream(first.engine, GatedUpstream())
        await submit(first)
        queued = await submit(first, previous_response_id=previous)
    async with open_application(config) as second:
        live = second.application.process.live
        store: Any = second.engine.services.store
        chain, asked, go_on = store.chain, asyncio.Event(), asyncio.Event()

        async def chain_later(*arguments: Any, **options: Any) -> Any:
            asked.set()
            await go_on.wait()
            return await chain(*arguments, **options)

        store.chain = chain_later
        await second.application.process.start()
        await until(asked.is_set, "the request is prepared")
        assert live.lease._held == {queued}
        go_on.set()

        async def is_completed() -> bool:
            return await status_of(second, queued) == "completed"

        await until_async(is_completed, "it is generated")
        await until(lambda: not live.lease._held, "the lease is released")


class BrokenDialect(ChatDialect):
    """The dialect of a plug-in with a bug."""

    def for_client(self, client_format: str) -> NoReturn:
        raise ZeroDivisionError


async def accept_with_broken_dialect(opened: OpenApplication, held: ExitStack) -> AcceptedRequest:
    fields = {"model": "echo/echo", "input": "Hi", "background": True}
    prepared = await opened.engine.prepare(parse_request(fields), Caller("local", "req_1"))
    [target] = prepared.targets
    broken = replace(target, provider=replace(target.provider, dialect=BrokenDialect()))
    return AcceptedRequest(opened.engine.services, replace(prepared, targets=(broken,)), held)


@pytest.mark.parametrize("is_queued", [False, True])
async def test_a_response_that_a_bug_keeps_from_beginning_is_ended_and_holds_nothing(
    tmp_path: Path, *, is_queued: bool
) -> None:
    async with open_application(config_in(tmp_path)) as opened:
        live, upstream = opened.application.process.live, GatedUpstream()
        use_upstream(opened.engine, upstream)
        held = ExitStack()
        left: list[str] = []
        held.callback(left.append, "left")
        accepted = await accept_with_broken_dialect(opened, held)
        if is_queued:
            await submit(opened)
            await live.background.submit(accepted)
            assert not left
            upstream.gate.set()
        else:
            with pytest.raises(ZeroDivisionError):
                await live.background.submit(accepted)

        async def has_failed() -> bool:
            return await status_of(opened, accepted.prepared.response.id) == "failed"

        await until_async(has_failed, "it is ended")
        await until(lambda: not live.lease._held, "the lease is released")
        assert left == ["left"]
        upstream.gate.set()
        assert await submit(opened)  # there is room
        await until(lambda: not live.runs, "it is generated")
