"""Known defects of chains, stores, traces, logs and shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest

from antiphon.config import StoreConfig
from antiphon.errors import ChainNotFound
from antiphon.store.redact import Redactor
from antiphon.store.store import StoreLimits
from antiphon.store.trace import reader as trace_reader
from antiphon.store.trace.rows import TraceError, TraceStream, TraceUsage
from antiphon.store.trace.trace_store import TraceOptions, TraceStore
from antiphon.store.url import open_store
from tests.support.checked_gateway import (
    Document,
    check_events,
    checked_gateway,
    configured,
    event_types,
    final_response,
    text,
)
from tests.support.gateways import events_of
from tests.support.known_defects import row
from tests.support.turns import Clock, turn
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Upstream,
    chunk,
    frame,
    send_frames,
    upstream,
    usage,
)
from tests.support.waiting import LIMIT_S

# Chains


@row(31)
async def test_a_chain_of_thousands_of_turns_can_be_continued(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        previous: Document = {}
        for number in range(80):
            answer = await setup.whole(input=f"turn {number}", **previous)
            previous = {"previous_response_id": answer["id"]}
        contents = [m["content"] for m in setup.last_body["messages"] if m["role"] == "user"]
        assert contents == [f"turn {number}" for number in range(80)]


@row(31)
async def test_the_length_of_a_chain_can_be_limited(tmp_path: Path) -> None:
    store = StoreConfig(url="memory://", max_chain=2)
    async with configured(tmp_path, send_frames(HELLO_WORLD), store=store) as setup:
        first = await setup.whole()
        second = await setup.whole(previous_response_id=first["id"])
        third = await setup.whole(previous_response_id=second["id"])
        status, _, document = await setup.post(previous_response_id=third["id"])
        assert (status, document["error"]["param"]) == (400, "previous_response_id")
        assert document["error"]["code"] == "previous_response_chain_too_deep"


@row(31)
@pytest.mark.parametrize(
    "ending",
    [
        (chunk({}, "length"), usage(), DONE),
        (frame({"error": {"message": "down", "code": 500}}),),
    ],
    ids=["incomplete", "failed"],
)
async def test_a_failed_or_incomplete_parent_can_be_continued(
    tmp_path: Path, ending: tuple[bytes, ...]
) -> None:
    async with checked_gateway(tmp_path, send_frames((*HELLO, *ending))) as setup:
        parent = final_response(await setup.stream())
        assert parent["status"] in ("incomplete", "failed")
        await setup.stream(input="Go on.", previous_response_id=parent["id"])
        actual = [(m["role"], m["content"]) for m in setup.last_body["messages"]]
        assert actual == [("user", "Hello?"), ("assistant", "Hello"), ("user", "Go on.")]


# Saving


@row(32)
async def test_a_turn_is_saved_before_its_terminal_event_leaves(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        url = f"{setup.gateway.base_url}/responses"
        body = {"model": "m", "input": "Hello?", "stream": True}
        async with setup.gateway.client.post(url, json=body) as response:
            received = b""
            while b"event: response.completed" not in received:
                received += await response.content.readany()
            parent = final_response(events_of(received.partition(b"data: [DONE]")[0]))["id"]
            assert (
                await setup.gateway.engine.services.store.load(parent, client="local") is not None
            )
            again = await setup.whole(previous_response_id=parent)
        assert (again["previous_response_id"], text(again)) == (parent, "Hello, world")


@row(32)
async def test_a_response_that_could_not_be_saved_has_store_false(tmp_path: Path) -> None:
    """The answer is sent anyway; `store: false` says that it cannot be continued."""
    store = StoreConfig(url="memory://", max_turn_bytes=100)
    async with configured(tmp_path, send_frames(HELLO_WORLD), store=store) as setup:
        events = await setup.stream()
        for response in (final_response(events), await setup.whole()):
            assert (response["status"], response["store"]) == ("completed", False)
            status, _, document = await setup.post(previous_response_id=response["id"])
            assert (status, document["error"]["code"]) == (400, "previous_response_not_found")
        assert [entry.event for entry in setup.gateway.log].count("store.save_failed") == 2
        assert events[0]["response"]["store"] is True


# Stores


@row(33)
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_a_store_evicts_expired_turns_and_turns_over_its_limit(
    tmp_path: Path, backend: str
) -> None:
    url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path / 'turns.db'}"
    clock = Clock()
    store = open_store(url, now=clock, limits=StoreLimits(ttl_s=100, max_turns=3))
    await store.open()
    try:
        for number in range(5):
            clock.now += 1
            await store.save(turn(f"r{number}"))
        clock.now += 61  # the time after which a store keeps house
        await store.save(turn("last"))
        assert await store.load("r0") is None
        assert await store.load("last") is not None
        clock.now += 101
        with pytest.raises(ChainNotFound):
            await store.chain("last")
    finally:
        await store.close()


@row(33)
async def test_a_busy_database_delays_one_save_and_no_other_request(tmp_path: Path) -> None:
    asked_again = asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if len(setup.upstream.requests) == 2:
            asked_again.set()
        await send_frames(HELLO_WORLD)(request, connection)

    async with checked_gateway(tmp_path, script) as setup:
        await setup.whole()
        with closing(sqlite3.connect(tmp_path / "turns.db", isolation_level=None)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(setup.whole())
            await asked_again.wait()
            for _ in range(3):
                assert text(await setup.whole(store=False)) == "Hello, world"
            assert not waiting.done()
            other.execute("ROLLBACK")
        kept = await setup.gateway.engine.services.store.load((await waiting)["id"], client="local")
        assert kept is not None


# Logs and traces


@row(38)
async def test_durations_are_not_whole_seconds(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        began = monotonic()
        await setup.stream()
        elapsed_ms = (monotonic() - began) * 1000
        (facts,) = [e.facts for e in setup.gateway.log if e.event == "response.finished"]
        assert 0 < facts["upstream_latency_ms"] <= facts["duration_ms"] <= elapsed_ms
        assert facts["duration_ms"] % 1000


@row(38)
async def test_streamed_and_whole_answers_have_the_same_trace(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        await setup.stream()
        await setup.whole()
        await setup.post(model="up/", input="no such model")
    found = trace_reader.list_requests(tmp_path / "trace.db")
    assert [each.finish.status for each in found if each.finish] == [
        "rejected",
        "completed",
        "completed",
    ]
    assert [each.usage.output_tokens for each in found if each.usage] == [3, 3]


@row(39)
def test_an_overloaded_trace_drops_streams_before_other_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = TraceOptions(payloads=True, queue_rows=100)
    store = TraceStore(
        tmp_path / "trace.db", epoch_s=lambda: 0.0, redactor=Redactor([]), options=options
    )
    for number in range(500):
        stream = TraceStream(request_id=f"r{number}", kind="raw", blob=b"x", offsets=((0, 0),))
        store.record(stream)
    for number in range(40):
        store.record(TraceError(request_id=f"r{number}", code="c", message="m"))
        store.record(TraceUsage(request_id=f"r{number}", output_tokens=1))
    with caplog.at_level(logging.WARNING):
        store.open()
        store.close()
    details = [
        trace_reader.read_detail(tmp_path / "trace.db", f"r{number}") for number in range(500)
    ]
    assert all(detail and detail.errors and detail.usage for detail in details[:40])
    kept = [number for number, detail in enumerate(details) if detail and detail.streams]
    assert kept == list(range(480, 500))
    assert trace_reader.read_losses(tmp_path / "trace.db").low == 480
    assert len(caplog.records) == 1


# The last moments


class EndlessProvider:
    """An upstream whose stream never ends."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def run(self, request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        self.begun.set()
        await connection.wait_disconnected()


@asynccontextmanager
async def process(tmp_path: Path, server: Upstream) -> AsyncIterator[tuple[Any, str]]:
    """Run `antiphon serve` in a subprocess; return it and the URL that it prints."""
    (tmp_path / "antiphon.toml").write_text(
        f"""
        [server]
        port = 0
        shutdown_s = 0
        [providers.up]
        kind = "chat"
        base_url = "{server.url}"
        """
    )
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    command = (sys.executable, "-m", "antiphon.cli.main", "serve", "--config", "antiphon.toml")
    running = await asyncio.create_subprocess_exec(
        *command,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert running.stdout is not None
    try:
        yield running, (await running.stdout.readline()).decode().split()[-1]
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


@row(42)
async def test_sigterm_ends_every_stream_with_a_terminal_event(tmp_path: Path) -> None:
    endless = EndlessProvider()
    async with (
        upstream(endless.run) as server,
        process(tmp_path, server) as (served, base_url),
        aiohttp.ClientSession() as client,
    ):
        body = {"model": "m", "input": "Hello?", "stream": True}
        async with (
            asyncio.timeout(LIMIT_S),
            client.post(f"{base_url}/responses", json=body) as response,
        ):
            await endless.begun.wait()
            served.send_signal(signal.SIGTERM)
            events = check_events(events_of(await response.read()))
        assert event_types(events)[-1] == "response.failed"
        assert "restarting" in final_response(events)["error"]["message"]
        assert await served.wait() == 0


@row(42)
async def test_a_stream_may_finish_before_shutdown(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        await release.wait()
        for each in HELLO_WORLD[2:]:
            await connection.send(each)
        await connection.end()

    async with checked_gateway(tmp_path, script) as setup:
        url = f"{setup.gateway.base_url}/responses"
        body = {"model": "m", "input": "Hello?", "stream": True}
        async with setup.gateway.client.post(url, json=body) as response:
            first = await response.content.readany()
            stopping = asyncio.create_task(setup.gateway.gateway.stop())
            await asyncio.sleep(0)
            release.set()
            events = check_events(events_of(first + await response.read()))
            await stopping
        assert text(final_response(events)) == "Hello, world"
