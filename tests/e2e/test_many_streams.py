"""A hundred concurrent streams in one process; `bench/slow_streams.py` runs a thousand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.upstream import HELLO, HELLO_WORLD, Connection, ReceivedRequest
from tests.support.waiting import until

STREAMS = 100


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("stage")) as shared_gateway:
        yield shared_gateway


class Barrier:
    """A script that sends the first output to all clients before it continues with any."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._all_here = asyncio.Event()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        self._missing -= 1
        if not self._missing:
            self._all_here.set()
        await self._all_here.wait()
        for each in HELLO_WORLD[len(HELLO) :]:
            await connection.send(each)
        await connection.end()


async def test_a_hundred_concurrent_streams_complete_and_leak_nothing(
    shared_gateway: SharedGateway,
) -> None:
    before = asyncio.all_tasks()
    for _ in range(3):
        script = Barrier(STREAMS)
        answers = await asyncio.gather(
            *(shared_gateway.post_request(script, stream=True, store=False) for _ in range(STREAMS))
        )
        assert {answer.text for answer in answers} == {"Hello, world"}
        assert {answer.response["status"] for answer in answers} == {"completed"}
        assert len({answer.response["id"] for answer in answers}) == STREAMS
        assert not shared_gateway.gateway.engine.active
    await shared_gateway.gateway.client.close()  # with it, the lines it kept open
    await until(
        # The provider's end of a line stays where the gateway keeps it for the next request.
        lambda: len(asyncio.all_tasks() - before) <= shared_gateway.open_connections,
        "no task is left behind",
    )


async def test_every_finished_stream_is_already_stored(tmp_path: Path) -> None:
    """A hundred turns are saved concurrently, each before its terminal event is sent."""
    async with open_shared_gateway(tmp_path) as shared_gateway:
        script = Barrier(STREAMS)
        answers = await asyncio.gather(
            *(shared_gateway.post_request(script, stream=True) for _ in range(STREAMS))
        )
        ids = [answer.response["id"] for answer in answers]
        turns = [
            await shared_gateway.gateway.engine.services.store.chain(each, client="local")
            for each in ids
        ]
    assert [turn[-1].id for turn in turns] == ids
