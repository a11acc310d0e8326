"""Connections of upstreams: what arrives without a request never reaches the next client.

The rules are those of our own HTTP client and of aiohttp's, so each test runs with both."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from antiphon.core.plan.plan import Outbound
from antiphon.engine.connections import (
    UpstreamConnection,
    UpstreamConnector,
    UpstreamRequest,
    open_session,
)
from antiphon.engine.upstream import HTTPUpstream
from antiphon.errors import UpstreamError
from antiphon.providers.registry import Provider
from tests.support.outbound_requests import configured
from tests.support.raw_upstream import BODILESS, FRAMINGS, Framing, RawUpstream, raw_upstream
from tests.support.shared_gateway import UVLOOP
from tests.support.tables import table
from tests.support.tls import make_contexts
from tests.support.waiting import LIMIT_S, until

LATE = b"late: of another client"
Arrival = Callable[[RawUpstream, bytes], Awaitable[None]]


@pytest.fixture(params=["asyncio", UVLOOP], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


CLIENTS = {"own": False, "aiohttp": True}
OUTBOUND = Outbound(path="/chat/completions", body=b"{}")


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened, asyncio.timeout(LIMIT_S):
        yield opened


@asynccontextmanager
async def http(client: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[HTTPUpstream]:
    """One of the two clients."""
    opened = HTTPUpstream(tls=tls, use_aiohttp=CLIENTS[client])
    try:
        async with asyncio.timeout(LIMIT_S):
            yield opened
    finally:
        await opened.close()


@lru_cache
def provider_at(url: str) -> Provider:
    return configured("chat", base_url=url)


async def ask(upstream: HTTPUpstream, url: str) -> bytes:
    answer = await upstream.open(provider_at(url), OUTBOUND, "key")
    try:
        return await answer.read()
    finally:
        answer.close()


async def ask_aiohttp(client: aiohttp.ClientSession, url: str) -> bytes:
    async with client.post(url, data=b"{}") as response:
        return await response.read()


every_client = pytest.mark.parametrize("client", CLIENTS)


def numbered(framing: Framing) -> Callable[[int], bytes]:
    """Answers that tell the number of their request."""
    return lambda number: framing(b"answer %d" % number)


# When late bytes arrive


async def arrive_idle(server: RawUpstream, late: bytes) -> None:
    """The event loop reads them while the connection is idle."""
    server.write(late)
    await server.wait_closed()


async def arrive_unread(server: RawUpstream, late: bytes) -> None:
    """They are at the operating system: the event loop does not run before the next request."""
    server.write(late)


ARRIVALS: Mapping[str, Arrival] = {"while idle": arrive_idle, "not yet read": arrive_unread}
PARTS: Mapping[str, Callable[[bytes], bytes]] = {
    "an answer": lambda late: late,
    "the head of an answer": lambda late: late[: late.index(b"\r\n\r\n") + 4],
    "a part of a head": lambda late: late[:20],
    "one byte": lambda late: late[:1],
    "a line end": lambda late: b"\r\n",
    "no HTTP at all": lambda late: b"late bytes",
}


@table("client", CLIENTS)
@table("part", PARTS)
@table("arrival", ARRIVALS)
@table("framing", FRAMINGS)
async def test_bytes_after_an_answer_never_reach_the_next_request(
    client: str, framing: str, arrival: str, part: str
) -> None:
    make = FRAMINGS[framing]
    async with raw_upstream(numbered(make)) as server, http(client) as upstream:
        assert await ask(upstream, server.url) == b"answer 1"
        await ARRIVALS[arrival](server, PARTS[part](make(LATE)))
        assert await ask(upstream, server.url) == b"answer 2"
        assert len(server.connections) == 2


@table("client", CLIENTS)
@table("part", [name for name in PARTS if name != "a line end"])
@table("framing", FRAMINGS)
async def test_bytes_in_the_segment_that_ends_an_answer_never_reach_the_next_request(
    client: str, framing: str, part: str
) -> None:
    make = FRAMINGS[framing]
    late = PARTS[part](make(LATE))

    def answer(number: int) -> bytes:
        return make(b"answer %d" % number) + (late if number == 1 else b"")

    async with raw_upstream(answer) as server, http(client) as upstream:
        # The parser cannot read the segment if no HTTP is in it: then this answer fails, too.
        with suppress(UpstreamError):
            assert await ask(upstream, server.url) == b"answer 1"
        assert await ask(upstream, server.url) == b"answer 2"
        assert len(server.connections) == 2


@table("client", CLIENTS)
@table("arrival", ARRIVALS)
@table("bodiless", BODILESS)
async def test_bytes_after_an_answer_without_a_body_never_reach_the_next_request(
    client: str, bodiless: str, arrival: str
) -> None:
    make = FRAMINGS["content-length"]

    def answer(number: int) -> bytes:
        return BODILESS[bodiless] if number == 1 else make(b"answer %d" % number)

    async with raw_upstream(answer) as server, http(client) as upstream:
        assert await ask(upstream, server.url) == b""
        await ARRIVALS[arrival](server, make(LATE))
        assert await ask(upstream, server.url) == b"answer 2"


@table("client", CLIENTS)
@table("bodiless", BODILESS)
async def test_an_answer_behind_one_without_a_body_never_reaches_the_next_request(
    client: str,
    bodiless: str,
) -> None:
    make = FRAMINGS["content-length"]

    def answer(number: int) -> bytes:
        return BODILESS[bodiless] + make(LATE) if number == 1 else make(b"answer %d" % number)

    async with raw_upstream(answer) as server, http(client) as upstream:
        assert await ask(upstream, server.url) == b""
        assert await ask(upstream, server.url) == b"answer 2"


@every_client
async def test_an_answer_without_a_length_ends_its_connection(client: str) -> None:
    def answer(number: int) -> bytes:
        return b"HTTP/1.1 200 OK\r\n\r\nanswer %d" % number

    async with raw_upstream(answer) as server, http(client) as upstream:
        for number in (1, 2):
            pending = asyncio.ensure_future(ask(upstream, server.url))
            await until(partial(server.has_answered, number), "the answer is written")
            server.connections[-1].write_eof()
            assert await pending == b"answer %d" % number
        assert len(server.connections) == 2


@every_client
async def test_the_end_of_an_idle_connection_is_noticed_before_it_is_used(client: str) -> None:
    async with raw_upstream(numbered(FRAMINGS["chunked"])) as server, http(client) as upstream:
        assert await ask(upstream, server.url) == b"answer 1"
        server.end()
        await asyncio.sleep(0)  # the other side's event loop closes its socket
        assert await ask(upstream, server.url) == b"answer 2"


@table("client", CLIENTS)
@table("framing", [*FRAMINGS])
async def test_a_connection_without_late_bytes_is_used_again(client: str, framing: str) -> None:
    async with raw_upstream(numbered(FRAMINGS[framing])) as server, http(client) as upstream:
        for number in range(1, 6):
            assert await ask(upstream, server.url) == b"answer %d" % number
        assert len(server.connections) == 1


async def test_a_request_without_a_body_uses_a_connection_again() -> None:
    async with raw_upstream(numbered(FRAMINGS["chunked"])) as server, session() as client:
        for number in range(1, 4):
            async with client.get(server.url) as response:
                assert await response.read() == b"answer %d" % number
        assert len(server.connections) == 1


@every_client
async def test_an_answer_larger_than_every_buffer_leaves_its_connection_reusable(
    client: str,
) -> None:
    body = b"x" * 3_000_000
    for name in ("content-length", "chunked", "gzip in chunks", "gzip with content-length"):
        sent = FRAMINGS[name](body)

        def answer(number: int, sent: bytes = sent) -> bytes:
            return sent

        async with raw_upstream(answer) as server, http(client) as upstream:
            assert await ask(upstream, server.url) == body
            assert await ask(upstream, server.url) == body
            assert len(server.connections) == 1, name


def many_chunks(count: int) -> tuple[bytes, bytes]:
    """An answer in small chunks, and its body."""
    pieces = [b"data: %d\n\n" % number for number in range(count)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n\r\n", b"".join(pieces)


async def test_the_chunks_of_one_read_of_the_network_are_one_piece() -> None:
    answer, body = many_chunks(500)
    async with raw_upstream(lambda _: answer) as server, session() as client:
        async with client.post(server.url, data=b"{}") as response:
            await until(lambda: response.content.is_eof(), "the answer has arrived")
            assert len(response.content._buffer) < 8
            assert await response.content.readany() == body
        assert await ask_aiohttp(client, server.url) == body
        assert len(server.connections) == 1


class CountedConnection(UpstreamConnection):
    """Counts how often the parser was told to go on with what it holds."""

    resumed = 0

    def data_received(self, data: bytes) -> None:
        CountedConnection.resumed += not data
        super().data_received(data)


@pytest.mark.parametrize(("chunks", "is_paused"), [(3, False), (50_000, True)])
async def test_reading_is_resumed_only_after_a_pause(chunks: int, is_paused: bool) -> None:
    answer, body = many_chunks(chunks)
    CountedConnection.resumed = 0
    async with (
        raw_upstream(lambda _: answer) as server,
        open_session(read_bufsize=16 * 1024) as client,
    ):
        assert isinstance(client.connector, UpstreamConnector)
        protocol: type[ResponseHandler] = CountedConnection
        client.connector._factory = partial(protocol, asyncio.get_running_loop())
        assert await ask_aiohttp(client, server.url) == body
    assert bool(CountedConnection.resumed) is is_paused


async def test_a_slow_reader_gets_every_one_of_many_small_chunks() -> None:
    answer, body = many_chunks(50_000)
    async with raw_upstream(lambda _: answer) as server, session() as client:
        async with client.post(server.url, data=b"{}") as response:
            received = b""
            while piece := await response.content.read(1000):  # ends within chunks
                received += piece
        assert received == body
        assert await ask_aiohttp(client, server.url) == body
        assert len(server.connections) == 1


async def test_bytes_between_check_out_and_sending_are_not_the_answer() -> None:
    make = FRAMINGS["content-length"]
    async with raw_upstream(numbered(make)) as server, session() as client:
        assert await ask_aiohttp(client, server.url) == b"answer 1"
        assert client.connector is not None
        loop = asyncio.get_running_loop()
        request = UpstreamRequest(
            "POST", URL(server.url), data=b"{}", loop=loop, response_class=aiohttp.ClientResponse
        )
        connection = await client.connector.connect(request, [], aiohttp.ClientTimeout())
        server.write(make(LATE))
        assert connection.protocol is not None
        connection.protocol.set_response_params()
        response = await request.send(connection)
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await response.start(connection)
        response.close()
        connection.close()


@every_client
@pytest.mark.parametrize("arrival", ARRIVALS)
async def test_late_bytes_over_tls_never_reach_the_next_request(
    client: str, arrival: str, tmp_path: Path
) -> None:
    make = FRAMINGS["chunked"]
    of_server, of_client = make_contexts(tmp_path)
    async with (
        raw_upstream(numbered(make), of_server) as server,
        http(client, of_client) as upstream,
    ):
        assert await ask(upstream, server.url) == b"answer 1"
        await ARRIVALS[arrival](server, make(LATE))
        assert await ask(upstream, server.url) == b"answer 2"
        assert len(server.connections) == 2


@every_client
async def test_a_tls_connection_without_late_bytes_is_used_again(
    client: str, tmp_path: Path
) -> None:
    of_server, of_client = make_contexts(tmp_path)
    assert isinstance(of_client, ssl.SSLContext)
    make = numbered(FRAMINGS["chunked"])
    async with raw_upstream(make, of_server) as server, http(client, of_client) as upstream:
        for number in range(1, 4):
            assert await ask(upstream, server.url) == b"answer %d" % number
        assert len(server.connections) == 1
