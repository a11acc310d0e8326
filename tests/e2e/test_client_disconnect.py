"""A client disconnect closes its upstream and releases everything."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import LimitConfig, TimeoutConfig
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_reader import StreamReader, open_stream
from tests.support.upstream import (
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    send_frames,
)
from tests.support.waiting import LIMIT_S, is_blocked, until

# The promise is 0.1 s, and a millisecond is usual. But all parties of a test share one loop, on a
# machine that may be busy: it is measured more than once, and one of the times must be short.
PROMPT_S = 1.0
TRIES = 3

LONG = (
    *HELLO,
    chunk({"content": ", world"}),
    chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}),
)
EVENTS_OF_LONG = 12  # what a client can see of it while it goes on


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def late_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    """A gateway that starts no response before its upstream has output."""
    async with open_shared_gateway(
        tmp_path_factory.mktemp("patient"), commit_after_s=60
    ) as shared_gateway:
        yield shared_gateway


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(
        tmp_path_factory.mktemp("stage"), commit_after_s=0.05
    ) as shared_gateway:
        yield shared_gateway


class StalledProvider:
    """A script that sends some frames, then waits for the disconnect."""

    def __init__(self, *frames: bytes, head: bool = True) -> None:
        self._frames = frames
        self._head = head
        self.waiting = asyncio.Event()
        self.gone = asyncio.Event()
        self.gone_at = 0.0

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        if self._head:
            await connection.head()
        for each in self._frames:
            await connection.send(each)
        self.waiting.set()
        await connection.wait_disconnected()
        self.gone_at = time.perf_counter()
        self.gone.set()


def request_tasks() -> set[asyncio.Task[Any]]:
    """All tasks but those that renew a lease: a gateway replaces its own about every second."""
    return {task for task in asyncio.all_tasks() if "ProcessLease._renew" not in repr(task)}


async def disconnect_and_measure(
    shared_gateway: SharedGateway,
    script: StalledProvider,
    read: Callable[[StreamReader], Any],
    **body: Any,
) -> float:
    """Return the seconds from the client disconnect to the upstream disconnect; check for leaks."""
    before = request_tasks()
    async with open_stream(shared_gateway.gateway.gateway.port) as listener:
        await listener.post({"model": shared_gateway.add_script(script), "input": "Hello?", **body})
        async with asyncio.timeout(LIMIT_S):
            await script.waiting.wait()
            await read(listener)
            left_at = time.perf_counter()
            listener.disconnect()
            await script.gone.wait()
    await until(lambda: not shared_gateway.gateway.engine.active, "the exchange is over")
    await shared_gateway.gateway.engine.active.wait_idle()
    await until(lambda: request_tasks() <= before, "no task is left behind")
    assert not [entry for entry in shared_gateway.gateway.log if entry.level == "error"]
    return script.gone_at - left_at


async def check_prompt(
    shared_gateway: SharedGateway,
    make: Callable[[], StalledProvider],
    read: Callable[[StreamReader], Any],
    **body: Any,
) -> None:
    """Disconnect some times; the upstream is disconnected each time, and promptly."""
    took = [
        await disconnect_and_measure(shared_gateway, make(), read, **body) for _ in range(TRIES)
    ]
    assert min(took) < PROMPT_S, took


async def read_nothing(listener: StreamReader) -> None:
    """Disconnect before any event."""


def events(count: int) -> Callable[[StreamReader], Any]:
    async def read(listener: StreamReader) -> None:
        for _ in range(count):
            assert await listener.event() is not None

    return read


async def test_a_client_may_disconnect_at_any_event(shared_gateway: SharedGateway) -> None:
    took = [
        await disconnect_and_measure(
            shared_gateway, StalledProvider(*LONG), events(count), stream=True
        )
        for count in range(EVENTS_OF_LONG + 1)
    ]
    assert statistics.median(took) < PROMPT_S, took


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: StalledProvider(head=False),
        lambda: StalledProvider(),
        lambda: StalledProvider(HELLO[0]),
        lambda: StalledProvider(b": working\n\n"),
    ],
    ids=["no head", "no byte", "no word", "comments"],
)
async def test_a_client_may_disconnect_before_the_first_output(
    late_gateway: SharedGateway, make: Callable[[], StalledProvider], stream: bool
) -> None:
    await check_prompt(late_gateway, make, read_nothing, stream=stream)


async def test_a_client_may_disconnect_from_a_response_that_started_early(
    shared_gateway: SharedGateway,
) -> None:
    """The client has two events, and the provider has sent nothing."""
    for make in (lambda: StalledProvider(head=False), lambda: StalledProvider(HELLO[0])):
        await check_prompt(shared_gateway, make, events(2), stream=True)


async def test_many_clients_may_disconnect_at_once(shared_gateway: SharedGateway) -> None:
    """Each disconnect closes its own upstream; other clients are not affected."""
    before = request_tasks()
    going, staying = (
        [StalledProvider(*HELLO) for _ in range(20)],
        [StalledProvider(*HELLO) for _ in range(5)],
    )
    port = shared_gateway.gateway.gateway.port
    async with AsyncExitStack() as stack:

        async def read_first(script: StalledProvider) -> StreamReader:
            listener = await stack.enter_async_context(open_stream(port))
            await listener.post(
                {"model": shared_gateway.add_script(script), "input": "x", "stream": True}
            )
            await events(5)(listener)
            return listener

        leavers = [await read_first(script) for script in going]
        stayers = [await read_first(script) for script in staying]
        for listener in leavers:
            listener.disconnect()
        async with asyncio.timeout(LIMIT_S):
            for script in going:
                await script.gone.wait()
        assert not any(script.gone.is_set() for script in staying)
        await until(
            lambda: len(shared_gateway.gateway.engine.active) == len(stayers), "the leavers left"
        )
    await until(lambda: request_tasks() <= before, "no task is left behind")


async def test_a_client_disconnect_is_logged(late_gateway: SharedGateway) -> None:
    """There is no response, so this log entry is the only record of the request."""
    late_gateway.gateway.log.clear()
    await disconnect_and_measure(late_gateway, StalledProvider(*HELLO), events(3), stream=True)
    [entry] = late_gateway.gateway.log
    assert (entry.event, entry.facts["events"]) == ("response.cancelled", 9)  # its end included
    assert entry.facts["request_id"].startswith("req_")


# Those who stay, but do not read

PIECE = "word " * 12_000
FAR_TOO_MUCH = 300_000_000  # all buffers on the way hold a tenth of that


class FloodingProvider:
    """A script that sends as much as it can, and records when the connection blocks."""

    def __init__(self) -> None:
        self.sent = 0
        self.stalled = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        piece = chunk({"content": PIECE})
        try:
            while self.sent < FAR_TOO_MUCH:
                sending = asyncio.ensure_future(connection.send(piece))
                if await is_blocked(sending, 0.4):
                    self.stalled.set()
                await sending
                self.sent += len(PIECE)
        finally:
            self.gone.set()


async def test_a_client_that_does_not_read_blocks_only_its_own_upstream(
    tmp_path: Path,
) -> None:
    """The idle timeout does not apply: bytes of the provider are waiting to be read."""
    flood = FloodingProvider()
    timeouts = TimeoutConfig(idle_s=0.2)
    async with (
        open_shared_gateway(
            tmp_path, timeouts=timeouts, limits=LimitConfig(text_chars=2**28), keepalive_s=0.05
        ) as shared_gateway,
        open_stream(shared_gateway.gateway.gateway.port, buffer_bytes=2**16) as slow,
        asyncio.timeout(60),
    ):
        await slow.post({"model": shared_gateway.add_script(flood), "input": "x", "stream": True})
        await flood.stalled.wait()
        sent = flood.sent
        for _ in range(5):
            other = await shared_gateway.post_request(send_frames(HELLO_WORLD), stream=True)
            assert other.response["status"] == "completed"
        assert flood.sent == sent < FAR_TOO_MUCH
        received_bytes = 0
        while flood.sent == sent or received_bytes <= sent:  # it goes on as soon as somebody reads
            event = await slow.event()
            assert event is not None
            received_bytes += len(event.get("delta", ""))
        slow.disconnect()
        await flood.gone.wait()
