"""Unit tests of response streams: events in order, the final response, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import antiphon
from antiphon.config import Config, ProviderConfig
from tests.support.upstream import DONE, Connection, ReceivedRequest, upstream, usage
from tests.support.waiting import LIMIT_S


@pytest.fixture
async def gateway() -> AsyncIterator[antiphon.Gateway]:
    async with antiphon.open(environment={}) as opened:
        yield opened


async def test_a_stream_yields_events_as_on_the_wire(gateway: antiphon.Gateway) -> None:
    async with gateway.stream(model="echo/echo", input="one two") as stream:
        events = [event async for event in stream]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    assert [event["delta"] for event in events if "delta" in event] == ["one", " two"]


async def test_the_response_of_a_stream_is_complete_whatever_was_consumed(
    gateway: antiphon.Gateway,
) -> None:
    async with gateway.stream(model="echo/echo", input="one two") as stream:
        async for event in stream:
            if event["type"] == "response.output_text.delta":
                break
        response = await stream.response()
    assert antiphon.output_text(response) == "one two"


async def test_typed_events_are_structs(gateway: antiphon.Gateway) -> None:
    async with gateway.stream(model="echo/echo", input="one") as stream:
        names = [type(event).__name__ async for event in stream.typed()]
    assert names[0] == "Created"
    assert names[-1] == "Completed"


async def test_a_stream_must_be_entered(gateway: antiphon.Gateway) -> None:
    with pytest.raises(RuntimeError, match="Enter the stream first"):
        await gateway.stream(model="echo/echo", input="one").response()


async def test_cancelling_the_task_closes_the_upstream() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def answer(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')
        begun.set()
        await connection.wait_disconnected()
        gone.set()

    async with upstream(answer) as provider:
        config = Config(providers={"up": ProviderConfig(kind="chat", base_url=provider.url)})
        async with antiphon.open(config, environment={}) as gateway:
            task = asyncio.ensure_future(_read_all(gateway))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(LIMIT_S):
                await gone.wait()
    assert gone.is_set()


async def _read_all(gateway: antiphon.Gateway) -> None:
    async with gateway.stream(model="up/m", input="x") as stream:
        await stream.response()


async def test_an_answer_over_a_socket_is_read_whole() -> None:
    async def answer(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        chunk = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
        await connection.send(chunk + b"\n\n" + usage() + DONE)
        await connection.end()

    async with upstream(answer) as provider:
        config = Config(providers={"up": ProviderConfig(kind="chat", base_url=provider.url)})
        async with (
            antiphon.open(config, environment={}) as gateway,
            gateway.stream(model="up/m", input="x") as stream,
        ):
            response = await stream.response()
    assert antiphon.output_text(response) == "Hi"
