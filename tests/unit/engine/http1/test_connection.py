"""A connection: what is cancelled, paused, left unsent or sent too early."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from antiphon.engine.http1.connection import MAX_BUFFERED, Connection, Response
from antiphon.engine.http1.parser import ResponseParser
from antiphon.engine.http1.pool import ConnectionPool, Target, encode_head, find_target
from antiphon.errors import ConnectionFailure
from tests.support.shared_gateway import UVLOOP
from tests.support.waiting import LIMIT_S, let_others_read, until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=["asyncio", UVLOOP], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


class Client:
    """A pool, and the one server that it talks to."""

    def __init__(self, pool: ConnectionPool, port: int) -> None:
        self._pool = pool
        self._port = port
        self.ended = 0
        """Connections whose end the server has seen."""
        self.accepted = 0

    def target(self) -> Target:
        found = find_target(f"http://127.0.0.1:{self._port}/v1", {})
        assert found is not None
        return found

    async def send(self, body: bytes = b"{}") -> Response:
        head = encode_head(self.target(), len(body))
        return await self._pool.send(self.target(), head, body, LIMIT_S)

    async def ask(self, body: bytes = b"{}") -> bytes:
        return await read(await self.send(body))


async def read(response: Response) -> bytes:
    body = b""
    while True:
        while (piece := response.take()) is None:
            await response.wait()
        if not piece:
            return body
        body += piece


@asynccontextmanager
async def connected(serve: Serve) -> AsyncIterator[Client]:
    """Run a server, a connection at a time, and a client."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client.accepted += 1
        try:
            await serve(reader, writer)
            while await reader.read(65536):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            client.ended += 1
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    pool = ConnectionPool()
    client = Client(pool, server.sockets[0].getsockname()[1])
    async with asyncio.timeout(LIMIT_S):
        try:
            yield client
        finally:
            await pool.close()
            await until(lambda: client.ended == client.accepted, "the server has ended")
            server.close()


async def receive_head(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def test_a_request_that_is_cancelled_closes_its_connection() -> None:
    is_received = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive_head(reader)
        is_received.set()

    async with connected(serve) as client:
        asking = asyncio.ensure_future(client.ask())
        await is_received.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: client.ended, "the connection is closed")


class Recorded(asyncio.Transport):
    """A transport without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return "abort" in self.calls

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.calls.append("abort")


def on_memory() -> tuple[Connection, Recorded, list[Connection]]:
    released: list[Connection] = []
    connection, transport = Connection(released.append, lambda _: None), Recorded()
    connection.connection_made(transport)
    return connection, transport, released


async def test_a_cancelled_request_whose_response_arrives_first_ends_its_connection() -> None:
    connection, transport, released = on_memory()
    asking = asyncio.ensure_future(connection.send(b"POST", b""))
    await asyncio.sleep(0)
    asking.cancel()
    connection.data_received(OK)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (transport.calls, released) == (["abort"], [])


def test_a_lost_connection_is_freed_at_once_with_its_parser() -> None:
    def count_parsers() -> int:
        return sum(type(each) is ResponseParser for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = count_parsers()
        connection, transport, released = on_memory()
        assert count_parsers() == before + 1
        connection.connection_lost(None)
        del connection, transport, released
        assert count_parsers() == before
    finally:
        gc.enable()


async def test_a_request_that_is_cancelled_late_leaves_the_next_one_alone() -> None:
    connection, transport, released = on_memory()
    first = asyncio.ensure_future(connection.send(b"first", b""))
    await asyncio.sleep(0)
    connection.data_received(OK)
    assert released == [connection]
    first.cancel()  # its response has arrived: the connection belongs to the next request
    second = asyncio.ensure_future(connection.send(b"second", b""))
    with pytest.raises(asyncio.CancelledError):
        await first
    connection.data_received(OK.replace(b"ok", b"it"))
    assert (await second).take() == b"it"
    assert transport.calls == []


async def test_a_request_that_is_cancelled_after_the_head_closes_its_connection() -> None:
    connection, transport, _ = on_memory()
    asking = asyncio.ensure_future(connection.send(b"POST", b""))
    await asyncio.sleep(0)
    connection.data_received(OK[:-1])
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert transport.calls == ["abort"]


async def test_a_connection_that_is_paused_is_idle_only_when_it_reads_again() -> None:
    connection, transport, released = on_memory()
    asking = asyncio.ensure_future(connection.send(b"POST", b""))
    await asyncio.sleep(0)
    size = 2 * MAX_BUFFERED
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
    connection.data_received(b"a" * (size - 1))
    connection.data_received(b"b")  # TLS may deliver more after the pause
    assert (transport.calls, released) == (["pause", "resume"], [connection])
    assert len((await asking).take() or b"") == size


async def test_nothing_happens_to_a_connection_that_is_closed() -> None:
    connection, transport, _ = on_memory()
    connection.abort()
    connection.abort()
    connection.data_received(b"late")
    connection.resume_writing()
    connection.connection_lost(None)
    assert transport.calls == ["abort"]
    with pytest.raises(ConnectionFailure, match="without a response"):
        await connection.send(b"POST", b"")


async def test_an_error_of_the_network_before_the_head_is_passed_on() -> None:
    connection, _, _ = on_memory()
    asking = asyncio.ensure_future(connection.send(b"POST", b""))
    await asyncio.sleep(0)
    connection.connection_lost(ConnectionResetError(104, "reset"))
    with pytest.raises(ConnectionResetError):
        await asking


async def test_a_server_may_answer_before_it_is_asked() -> None:
    """A balancer without a free server sends an error at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy")

    async with connected(serve) as client:
        response = await client.send()
        assert (response.status, await read(response)) == (503, b"busy")


async def test_early_bytes_are_read_with_the_first_request() -> None:
    connection, transport, _ = on_memory()
    early = b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"a" * 200_000
    connection.data_received(early[:100_000])
    connection.data_received(early[100_000:])
    assert transport.calls == ["pause"]
    response = await connection.send(b"POST", b"")
    assert transport.calls == ["pause", "resume", "pause", "resume"]
    assert len(response.take() or b"") == 200_000


async def test_a_connection_with_an_unsent_body_is_not_used_again() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive_head(reader)
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\n\r\nmuch")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: is_read, "the response is read")
        reader._transport.resume_reading()  # type: ignore[attr-defined]

    is_read = False
    async with connected(serve) as client:
        response = await client.send(b"x" * 30_000_000)
        assert (response.status, await read(response)) == (413, b"much")
        is_read = True
        await until(lambda: client.ended, "the connection is closed")


async def test_a_large_body_arrives_as_a_whole_and_its_connection_is_used_again() -> None:
    body = bytes(range(256)) * 20_000
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await receive_head(reader)
            received.append(await reader.readexactly(len(body)))
            writer.write(OK)

    async with connected(serve) as client:
        assert [await client.ask(body), await client.ask(body)] == [b"ok", b"ok"]
        assert client.accepted == 1
    assert received == [body, body]


async def test_a_provider_waits_for_a_slow_reader() -> None:
    total, written = 50_000_000, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await receive_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        while written < total:
            writer.write(b"x" * 100_000)
            await writer.drain()
            written += 100_000

    async with connected(serve) as client:
        response = await client.send()
        before = -1
        while before != written:
            before = written
            for _ in range(20):
                await let_others_read()
        assert written < total // 2  # what the buffers of both systems hold
        assert len(await read(response)) == total
