"""The streaming body: when it begins, what it writes in silence, and that it is always closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import pytest
from msgspec import structs

from antiphon.config import ClientConfig, Config
from antiphon.core.client_profile import OTHER
from antiphon.core.faults.fault import FaultType, ProviderFault, connection_fault
from antiphon.dialects.client_dialect import EventBatch
from antiphon.dialects.responses.parse import parse_request
from antiphon.dialects.responses.render import ResponsesRenderer
from antiphon.engine.services import Caller
from antiphon.errors import UpstreamError
from antiphon.server.event_stream import EventStream
from antiphon.server.http import HTTPResponse
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    echo_config,
    error_of,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.waiting import until

TICK_S = 0.01
OVERFLOW = structs.replace(
    connection_fault("too long"),
    type=FaultType.context_length,
    http_status=400,
    public_code="context_length_exceeded",
)


@asynccontextmanager
async def gated_application(
    config: Config | None = None,
) -> AsyncIterator[tuple[OpenApplication, GatedUpstream]]:
    """An application whose provider answers when the test opens the gate."""
    async with open_application(config or echo_config(commit_after_s=TICK_S)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        yield opened, upstream


def types(data: bytes) -> list[str]:
    return [event["type"] for event in events_of(data)]


def failing(fault: ProviderFault) -> GatedUpstream:
    upstream = GatedUpstream(error=UpstreamError(fault))
    upstream.gate.set()
    return upstream


class Recorder:
    """A client that keeps what it receives, and may read slowly or disconnect."""

    def __init__(self) -> None:
        self.data = b""
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = False

    async def write(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionResetError
        self.data += data
        await self.reads.wait()


@asynccontextmanager
async def written_to(response: HTTPResponse, client: Recorder) -> AsyncIterator[asyncio.Task[None]]:
    assert isinstance(response.body, EventStream)
    writing = asyncio.get_running_loop().create_task(response.body.write_to(client.write))
    try:
        yield writing
    finally:
        writing.cancel()
        await asyncio.wait((writing,))
        await response.body.close()


# The beginning


async def test_a_slow_provider_is_committed_to_before_it_answers() -> None:
    async with gated_application() as (opened, upstream):
        response = await opened.create(stream=True)
        assert (response.status, upstream.waiting) == (200, 1)
        client = Recorder()
        async with written_to(response, client) as writing:
            await until(lambda: client.data, "the first batch is written")
            assert types(client.data) == ["response.created", "response.in_progress"]
            upstream.gate.set()
            await writing
    assert types(client.data)[-1] == "response.completed"
    assert client.data.endswith(b"data: [DONE]\n\n")
    numbers = [event["sequence_number"] for event in events_of(client.data)]
    assert numbers == [*range(len(numbers))]


async def test_a_fault_after_the_commit_is_an_event() -> None:
    async with gated_application() as (opened, upstream):
        response = await opened.create(stream=True)
        upstream.error = UpstreamError(connection_fault("reset"))
        upstream.gate.set()
        data = await read_stream(response)
    assert types(data) == ["response.created", "response.in_progress", "response.failed"]
    assert data.endswith(b"data: [DONE]\n\n")


async def test_a_fault_before_the_first_event_is_an_http_error() -> None:
    async with open_application() as opened:
        use_upstream(opened.engine, failing(connection_fault("reset")))
        response = await opened.create(stream=True)
        assert not opened.engine.active
    assert response.status == 502
    assert error_of(response)["type"] == "server_error"


async def test_a_context_overflow_is_always_streamed() -> None:
    """Codex compacts a thread only after an event within a stream."""
    async with open_application() as opened:
        use_upstream(opened.engine, failing(OVERFLOW))
        response = await opened.create(stream=True)
        assert response.status == 200
        events = events_of(await read_stream(response))
    assert [event["type"] for event in events][-1] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"


async def test_diagnostics_are_sent_as_a_header() -> None:
    async with open_application() as opened:
        response = await opened.create(stream=True, presence_penalty=1.0)
        await read_stream(response)
    assert "presence_penalty" in response.headers["antiphon-diagnostics"]


# Silence


def with_keepalive(kind: Any) -> Config:
    return echo_config(
        commit_after_s=TICK_S, keepalive_s=TICK_S, clients={"*": ClientConfig(keepalive=kind)}
    )


async def test_silence_is_filled_with_events_that_repeat_the_last_number() -> None:
    async with gated_application(with_keepalive("event")) as (opened, upstream):
        response, client = await opened.create(stream=True), Recorder()
        async with written_to(response, client) as writing:
            await until(lambda: client.data.count(b"event: keepalive") >= 2, "two keep-alives")
            upstream.gate.set()
            await writing
    events = events_of(client.data)
    logged = [event for event in events if event["type"] != "keepalive"]
    assert [event["sequence_number"] for event in logged] == [*range(len(logged))]
    silent = [event["sequence_number"] for event in events if event["type"] == "keepalive"]
    assert set(silent) == {1}  # that of response.in_progress, the last event before the silence
    assert events[-1]["type"] == "response.completed"


async def test_silence_is_filled_with_comments_for_clients_that_reject_unknown_events() -> None:
    async with gated_application(with_keepalive("comment")) as (opened, upstream):
        response, client = await opened.create(stream=True), Recorder()
        async with written_to(response, client) as writing:
            await until(lambda: client.data.count(b": keep-alive\n\n") >= 2, "two comments")
            upstream.gate.set()
            await writing
    assert b"event: keepalive" not in client.data
    noted = [entry for entry in opened.log if entry.event == "response.diagnostics"]
    assert len(noted) == 1


async def test_no_keepalive_is_written_while_the_client_reads_slowly() -> None:
    async with gated_application(with_keepalive("event")) as (opened, _):
        response, client = await opened.create(stream=True), Recorder()
        client.reads.clear()
        async with written_to(response, client):
            await asyncio.sleep(5 * TICK_S)
            assert types(client.data) == ["response.created", "response.in_progress"]


async def test_nothing_but_the_end_marker_follows_the_terminal_event() -> None:
    async with gated_application(with_keepalive("event")) as (opened, upstream):
        upstream.gate.set()
        response, client = await opened.create(stream=True), Recorder()
        async with written_to(response, client) as writing:
            await until(lambda: b"event: response.completed" in client.data, "the terminal event")
            client.reads.clear()
            await asyncio.sleep(5 * TICK_S)
            client.reads.set()
            await writing
    assert types(client.data)[-1] == "response.completed"


# The end


async def test_closing_a_body_that_was_never_written_cancels_the_upstream() -> None:
    async with gated_application() as (opened, upstream):
        response = await opened.create(stream=True)
        assert isinstance(response.body, EventStream)
        await response.body.close()
        await response.body.close()
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)
    assert [entry.event for entry in opened.log] == ["response.cancelled"]


async def test_a_request_cancelled_before_the_answer_begins_cancels_the_upstream() -> None:
    async with gated_application(echo_config()) as (opened, upstream):
        creating = asyncio.get_running_loop().create_task(opened.create(stream=True))
        await until(lambda: upstream.waiting, "the provider has the request")
        creating.cancel()
        await asyncio.wait((creating,))
        assert creating.cancelled()
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)


async def test_a_client_that_disconnects_ends_the_run_without_a_report() -> None:
    async with gated_application() as (opened, upstream):
        response, client = await opened.create(stream=True), Recorder()
        client.gone = True
        with pytest.raises(ConnectionResetError):
            async with written_to(response, client) as writing:
                await writing
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)
    assert [entry.event for entry in opened.log] == ["response.cancelled"]


async def test_a_crash_inside_of_a_stream_is_logged_and_raised() -> None:
    async def crash(data: bytes) -> None:
        raise RuntimeError("a bug")

    async with open_application() as opened:
        response = await opened.create(stream=True)
        assert isinstance(response.body, EventStream)
        with pytest.raises(RuntimeError, match="a bug"):
            await response.body.write_to(crash)
        await response.body.close()
    crashes = [entry for entry in opened.log if entry.event == "gateway.bug"]
    assert [entry.facts["request_id"] for entry in crashes] == [response.headers["x-request-id"]]


# Reading instead of being written


async def test_a_body_can_be_iterated() -> None:
    async with open_application() as opened:
        written = await read_stream(await opened.create(stream=True))
        response = await opened.create(stream=True)
        assert isinstance(response.body, EventStream)
        pieces = [piece async for piece in response.body]
        assert not opened.engine.active
    assert types(b"".join(pieces)) == types(written)
    assert pieces[-1] == b"data: [DONE]\n\n"


async def test_a_reader_that_stops_closes_the_body() -> None:
    async with gated_application() as (opened, upstream):
        response = await opened.create(stream=True)
        assert isinstance(response.body, EventStream)
        reader = response.body.__aiter__()
        assert types(await anext(reader)) == ["response.created", "response.in_progress"]
        await reader.aclose()
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)


async def test_the_next_batch_is_not_produced_before_the_reader_asks_for_it() -> None:
    async with open_application() as opened:
        response = await opened.create(stream=True, input="word " * 50)
        assert isinstance(response.body, EventStream)
        reader = response.body.__aiter__()
        await anext(reader)
        await asyncio.sleep(5 * TICK_S)
        assert opened.log == []  # the run has not ended
        assert len(opened.engine.active) == 1
        await reader.aclose()


async def test_an_iteration_that_is_cancelled_again_while_it_ends_ends_its_run() -> None:
    async with open_application() as opened:
        response = await opened.create(stream=True, input="one two")
        assert isinstance(response.body, EventStream)
        reader = response.body.__aiter__()
        await anext(reader)
        closing = asyncio.ensure_future(reader.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait((closing,))
        await until(lambda: not opened.engine.active, "the run has ended")


class BrokenRenderer(ResponsesRenderer):
    def feed(self, batch: EventBatch) -> NoReturn:
        raise RuntimeError("a bug")


async def test_an_iteration_raises_what_breaks_the_stream() -> None:
    reported: list[Exception] = []
    async with open_application() as opened:
        services = opened.engine.services
        request = parse_request({"model": "echo/echo", "input": "Hello", "stream": True})
        prepared = await opened.engine.prepare(request, Caller("local", "req_1"))
        live = opened.application.process.live.create(services, prepared)
        await live.open(60.0)
        config = opened.application.process.setup.server
        body = EventStream(live, BrokenRenderer(OTHER), config, reported.append)
        with pytest.raises(RuntimeError, match="a bug"):
            _ = [piece async for piece in body]
        assert not opened.engine.active
    assert [str(error) for error in reported] == ["a bug"]
