"""The virtual loop: time that jumps, connections in memory, and processes that are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

import anyio
import pytest

from antiphon.engine.runtime import InactivityTimer
from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.virtual_loop import PROCESS, Process, StuckError, VirtualLoop

ADDRESS = ("10.0.0.1", 80)


class Recorder(asyncio.Protocol):
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_paused = False
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, None]], limit_s: float = 1e6) -> None:
    loop = VirtualLoop(limit_s)
    try:
        loop.run_until_complete(main(loop))
    finally:
        loop.close()


def test_anyio_connects_by_address_and_can_see_whether_something_has_arrived() -> None:
    async def main(loop: VirtualLoop) -> None:
        far = Recorder()
        await loop.create_server(lambda: far, *ADDRESS)
        stream = await anyio.connect_tcp(*ADDRESS)
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        await stream.send(b"ping")
        assert far.received == [b"ping"]
        assert raw.fileno() >= 0
        far.transport.write(b"pong")
        await asyncio.sleep(0.01)
        assert raw.fileno() == -1  # a pool does not use such a connection again
        assert await stream.receive() == b"pong"
        await stream.aclose()
        with pytest.raises(OSError, match="connection attempts failed"):
            await anyio.connect_tcp("10.0.0.9", 80)

    run(main)


async def connect(loop: VirtualLoop, latency_s: float = 0.0) -> tuple[Recorder, Recorder]:
    loop.latency = lambda: latency_s
    near, far = Recorder(), Recorder()
    await loop.create_server(lambda: far, *ADDRESS)
    await loop.connect(ADDRESS, near)
    await asyncio.sleep(0)
    return near, far


def test_a_sleep_takes_virtual_time_only() -> None:
    async def main(loop: VirtualLoop) -> None:
        await asyncio.sleep(10_000.1)
        assert 10_000.1 <= loop.time() < 10_000.2

    run(main)


def test_a_timer_never_fires_early() -> None:
    """A timer that fires a rounding error early would be set again and again at the same time."""

    async def main(loop: VirtualLoop) -> None:
        fired: list[float] = []
        for number in range(200):
            fired.clear()
            limit_s = 0.1 + number / 7
            timer = InactivityTimer(limit_s, lambda: fired.append(loop.time()))
            await asyncio.sleep(limit_s / 3)
            timer.touch()
            touched = loop.time()
            await asyncio.sleep(2 * limit_s)
            assert len(fired) == 1
            assert fired[0] >= touched + limit_s

    run(main)


def test_a_world_that_waits_for_nothing_or_too_long_is_stuck() -> None:
    async def wait_for_nothing(loop: VirtualLoop) -> None:
        await loop.create_future()

    async def wait_too_long(loop: VirtualLoop) -> None:
        await asyncio.sleep(100)

    with pytest.raises(StuckError, match="nothing is scheduled"):
        run(wait_for_nothing)
    with pytest.raises(StuckError, match="virtual seconds"):
        run(wait_too_long, limit_s=10)


def test_bytes_arrive_in_order_after_the_latency_and_then_the_end() -> None:
    async def main(loop: VirtualLoop) -> None:
        near, far = await connect(loop, latency_s=0.5)
        near.transport.write(b"one ")
        near.transport.write(b"two")
        near.transport.close()
        await asyncio.sleep(0.4)
        assert far.received == []
        await asyncio.sleep(0.2)
        assert (b"".join(far.received), far.lost) == (b"one two", [None])

    run(main)


def test_a_reader_that_pauses_stops_the_writer_until_it_resumes() -> None:
    async def main(loop: VirtualLoop) -> None:
        near, far = await connect(loop)
        far.transport.pause_reading()
        near.transport.write(b"x" * 100_000)
        await asyncio.sleep(1)
        assert (near.is_paused, far.received) == (True, [])
        far.transport.resume_reading()
        await asyncio.sleep(1)
        assert (near.is_paused, len(b"".join(far.received))) == (False, 100_000)

    run(main)


def test_writing_to_a_closed_peer_is_answered_by_a_reset() -> None:
    async def main(loop: VirtualLoop) -> None:
        near, far = await connect(loop)
        far.transport.abort()
        near.transport.write(b"hello")
        await asyncio.sleep(1)
        assert isinstance(near.lost[0], ConnectionResetError)

    run(main)


def test_a_refused_connection_raises() -> None:
    async def main(loop: VirtualLoop) -> None:
        with pytest.raises(ConnectionRefusedError):
            await loop.connect(ADDRESS, Recorder())

    run(main)


def test_a_killed_process_resets_its_peers_and_does_nothing_more() -> None:
    async def main(loop: VirtualLoop) -> None:
        process, far, near = Process("it"), Recorder(), Recorder()
        context = copy_context()
        context.run(PROCESS.set, process)

        async def serve() -> None:
            await loop.create_server(lambda: far, *ADDRESS)
            try:
                await asyncio.sleep(1000)
            finally:
                far.transport.write(b"a last word")

        task = asyncio.Task(serve(), loop=loop, context=context)
        await asyncio.sleep(0)
        process.tasks[task] = None
        await loop.connect(ADDRESS, near)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.wait((task,))
        await asyncio.sleep(1)
        assert near.received == []
        assert isinstance(near.lost[0], ConnectionResetError)
        assert ADDRESS not in loop.hosts

    run(main)
