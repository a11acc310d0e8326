"""The aiohttp adapter on a real port: how requests are read and responses are written."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from antiphon.config import Config
from antiphon.server.aiohttp_adapter import AiohttpServer, _EncodedResponse
from antiphon.server.application import Application
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPResponse
from antiphon.server.wiring import open_setup
from tests.support.applications import GatedUpstream, echo_config, use_upstream
from tests.support.client_answers import Answer
from tests.support.stream_reader import open_stream
from tests.support.waiting import let_others_read, until

LIMIT = 10_000
BODY = json.dumps({"model": "echo/echo", "input": "Hello"}).encode()
HEAD = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


class Served:
    """An application on a port."""

    def __init__(self, application: Application, server: AiohttpServer) -> None:
        self.application = application
        self.server = server
        self.upstream: GatedUpstream | None = None

    async def send(self, body: bytes, *headers: bytes) -> Answer:
        async with open_stream(self.server.port) as client:
            client.write(head_for(body, *headers) + body)
            return await client.rest()


def head_for(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return HEAD + lines + b"content-length: %d\r\n\r\n" % len(body)


@pytest.fixture
def config() -> Config:
    return echo_config(max_body_bytes=LIMIT, commit_after_s=0.01)


@pytest.fixture
async def served(config: Config) -> AsyncIterator[Served]:
    async with open_setup(config, {}, lambda entry: None) as setup:
        upstream = GatedUpstream()
        use_upstream(setup.engine, upstream)
        upstream.gate.set()
        application = Application(GatewayProcess(setup))
        server = AiohttpServer(application, config.server)
        await server.start()
        served = Served(application, server)
        served.upstream = upstream
        try:
            yield served
        finally:
            await server.close()


async def test_a_whole_response_has_its_length_and_a_stream_is_chunked(served: Served) -> None:
    whole = await served.send(BODY)
    streamed = await served.send(BODY[:-1] + b', "stream": true}')
    assert whole.headers["content-length"] == str(len(whole.body))
    assert whole.response["status"] == streamed.response["status"] == "completed"
    assert streamed.headers["transfer-encoding"] == "chunked"
    assert streamed.headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
async def test_an_encoded_response_has_the_bytes_of_one_of_aiohttp(whole: bool) -> None:
    headers = {"content-type": "text/plain", "x-note": "ü", "date": "today", "server": "antiphon"}
    body = b"Hello, world"

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        assert _EncodedResponse.can_send(HTTPResponse(200, dict(headers), body), request)
        response: web.StreamResponse
        if request.path == "/ours":
            kept = body if whole else None
            response = _EncodedResponse(dict(headers), bool(request.keep_alive), kept)
        elif whole:
            response = web.Response(headers=headers, body=body)
        else:
            response = web.StreamResponse(headers=headers)
        if not whole:
            writer = await response.prepare(request)
            assert writer is not None
            await writer.write(body[:5])
            await writer.write(body[5:])
            await response.write_eof()
        return response

    async with answering(respond) as port:
        ours, theirs = [await exchange_twice(port, path) for path in (b"/ours", b"/theirs")]
        last, their_last = [await exchange_last(port, path) for path in (b"/ours", b"/theirs")]
    assert ours == theirs
    assert ours.count(b"HTTP/1.1 200 OK") == 2
    assert last == their_last
    assert b"\r\nConnection: close\r\n" in last


@pytest.mark.parametrize(
    "start",
    [b"HEAD / HTTP/1.1", b"GET / HTTP/1.0"],
    ids=["HEAD", "HTTP/1.0"],
)
async def test_a_head_that_depends_on_the_request_is_left_to_aiohttp(start: bytes) -> None:
    found: list[bool] = []

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        response = HTTPResponse(200, {"content-type": "text/plain"}, b"Hello")
        found.append(_EncodedResponse.can_send(response, request))
        return web.Response(body=b"Hello")

    async with answering(respond) as port, open_stream(port) as client:
        client.write(start + b"\r\nhost: localhost\r\n\r\n")
        await client.head()
    assert found == [False]


@asynccontextmanager
async def answering(
    respond: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> AsyncIterator[int]:
    """Serve requests with a function; yields the port."""
    runner = web.ServerRunner(web.Server(respond))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def exchange_twice(port: int, path: bytes) -> bytes:
    """Send a request twice on one connection; return all bytes that come back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path * 2)
    received = b""
    while received.count(b"world") < 2 or not received.endswith((b"world", b"0\r\n\r\n")):
        piece = await reader.read(65536)
        assert piece, f"the connection was closed after {received!r}"
        received += piece
    writer.close()
    return received


async def exchange_last(port: int, path: bytes) -> bytes:
    """Send the last request of a connection; return all bytes until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path)
    received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize("config", [echo_config(commit_after_s=0.01)])
async def test_a_large_event_is_sent_in_pieces_of_the_write_buffer(served: Served) -> None:
    """Else a client that stops reading would have a second copy of the whole event in memory."""
    text = ("word" * 1000 + " ") * 50
    body = json.dumps({"model": "echo/echo", "input": text, "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
    writer.write(head_for(body) + body)
    await reader.readuntil(b"\r\n\r\n")
    pieces: list[bytes] = []
    while size := int(await reader.readline(), 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    writer.close()
    assert max(map(len, pieces[1:])) == 64 * 1024
    last = b"".join(pieces).split(b"event: response.completed\ndata: ")[1].split(b"\n")[0]
    assert text.strip() in json.loads(last)["response"]["output_text"]


async def test_a_body_beyond_the_limit_is_a_413_packed_or_not(served: Served) -> None:
    large = json.dumps({"model": "echo/echo", "input": "x" * LIMIT}).encode()
    plain = await served.send(large)
    packed = await served.send(gzip.compress(large), b"content-encoding: gzip")
    for answer in (plain, packed):
        assert (answer.status, answer.error["code"]) == (413, "request_too_large")
        assert str(LIMIT) in answer.error["message"]


async def test_a_body_that_is_not_encoded_as_declared_is_a_400(served: Served) -> None:
    answer = await served.send(BODY, b"content-encoding: gzip")
    assert answer.status == 400
    assert answer.error["message"] == (
        "The request body could not be decoded: it does not match its Content-Encoding."
    )


async def test_a_body_is_requested_only_once_the_request_may_be_served(served: Served) -> None:
    async with open_stream(served.server.port) as client:
        client.write(head_for(BODY, b"expect: 100-continue"))
        await client.head()
        assert client.status == 100
        client.write(BODY)
        await client.head()
        assert client.status == 200
    async with open_stream(served.server.port) as client:
        rejected = head_for(BODY, b"expect: 100-continue").replace(b"/json", b"/xml")
        client.write(rejected)
        await client.head()
        assert client.status == 415


async def test_an_unknown_expectation_is_a_417(served: Served) -> None:
    answer = await served.send(BODY, b"expect: moon")
    message = "The header `Expect: moon` is not supported. Leave it out."
    assert (answer.status, answer.error["message"]) == (417, message)


async def test_a_head_request_is_answered_without_a_body(served: Served) -> None:
    async with open_stream(served.server.port) as client:
        client.write(b"HEAD /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert await client.read_until_close() == b""
        assert client.status == 200
        assert int(client.headers["content-length"]) > 0


async def test_a_rejection_during_shutdown_closes_the_connection(served: Served) -> None:
    served.application.process.stop_accepting()
    answer = await served.send(BODY)
    assert (answer.status, answer.headers["connection"]) == (503, "close")


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
async def test_a_client_that_leaves_cancels_the_upstream(served: Served, committed: bool) -> None:
    upstream = served.upstream
    assert upstream is not None
    upstream.gate.clear()
    stream = b', "stream": true}' if committed else b"}"
    async with open_stream(served.server.port) as client:
        body = BODY[:-1] + stream
        client.write(head_for(body) + body)
        await until(lambda: upstream.waiting, "the provider has the request")
        if committed:
            await client.event()
        client.disconnect()
        await until(lambda: not upstream.waiting, "the upstream is cancelled")


async def test_a_server_that_stops_listening_finishes_open_connections(served: Served) -> None:
    async with open_stream(served.server.port) as client:
        port = served.server.port
        client.write(head_for(BODY, b"expect: 100-continue"))
        await client.head()
        assert client.status == 100  # it was accepted
        await served.server.stop_listening()
        await served.server.stop_listening()
        client.write(BODY)
        await client.head()
        assert (await client.rest()).status == 200
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_server_that_was_never_started_can_be_closed(config: Config) -> None:
    async with open_setup(config, {}, lambda entry: None) as setup:
        server = AiohttpServer(Application(GatewayProcess(setup)), config.server)
        await server.stop_listening()
        await server.close()
        assert not setup.engine.active


HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n"
    b"upgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
FRAME = b'{"type": "response.create", "model": "echo/echo", "input": "Hello", "store": false}'


def client_frame(payload: bytes, mask: bytes | None = b"\1\2\3\4") -> bytes:
    """A text frame of less than 126 bytes."""
    if mask is None:
        return bytes([0x81, len(payload)]) + payload
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([0x81, 0x80 | len(payload)]) + mask + masked


@pytest.mark.parametrize("together", [True, False], ids=["with the handshake", "after it"])
async def test_an_unmasked_frame_of_a_client_closes_the_connection(
    served: Served, together: bool
) -> None:
    """RFC 6455, 5.1: a server must close the connection; a proxy could be made to cache it."""
    frame = client_frame(FRAME, mask=None)
    async with open_stream(served.server.port) as client:
        client.write(HANDSHAKE + frame if together else HANDSHAKE)
        await client.head()
        if not together:
            client.write(frame)
        assert client.status == 101
        assert await client.read_until_close() == b"\x88\x02\x03\xea"  # close, 1002


async def test_masked_frames_are_answered_also_in_pieces(served: Served) -> None:
    async with open_stream(served.server.port) as client:
        client.write(HANDSHAKE)
        await client.head()
        for byte in client_frame(FRAME):
            client.write(bytes([byte]))
            await let_others_read()
        answer = await client.read_bytes_until(b"response.completed")
    assert b"response.created" in answer
