"""Upstreams: requests over a real socket, and the built-in echo."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound
from antiphon.engine.upstream import EchoUpstream, HTTPUpstream, UpstreamResponse, error_body
from antiphon.errors import UpstreamError
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.providers.registry import Provider
from tests.support.compressed_bodies import compress_repeated
from tests.support.outbound_requests import configured
from tests.support.raw_upstream import raw_upstream
from tests.support.tls import make_contexts
from tests.support.upstream import (
    HELLO,
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    send_frames,
    send_json,
    upstream,
)
from tests.support.waiting import LIMIT_S, let_others_read

OUTBOUND = Outbound(path="/chat/completions", headers={"x-extra": "1"}, body=b'{"model": "m"}')


CLIENTS = {"own": False, "aiohttp": True}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """Which HTTP client sends plain requests."""
    return str(request.param)


@asynccontextmanager
async def http_upstream(
    client: str, max_body_bytes: int = DEFAULT_LIMITS.body_bytes
) -> AsyncIterator[HTTPUpstream]:
    subject = HTTPUpstream(max_body_bytes, use_aiohttp=CLIENTS[client])
    try:
        yield subject
    finally:
        await subject.close()


@asynccontextmanager
async def opened(client: str, script: Script) -> AsyncIterator[tuple[UpstreamResponse, Upstream]]:
    async with upstream(script) as server, http_upstream(client) as subject:
        answer = await subject.open(provider_at(server.url), OUTBOUND, "sk-key")
        try:
            yield answer, server
        finally:
            answer.close()


def provider_at(url: str) -> Provider:
    return configured("chat", base_url=url, headers={"x-team": "tests"})


async def test_a_request_carries_key_headers_and_body(client: str) -> None:
    async with opened(client, send_json(200, {"ok": True})) as (answer, server):
        assert answer.status == 200
        assert json.loads(await answer.read()) == {"ok": True}
    [received] = server.requests
    assert (received.path, received.raw) == ("/v1/chat/completions", OUTBOUND.body)
    expected = {
        "authorization": "Bearer sk-key",
        "content-type": "application/json",
        "user-agent": "antiphon",
        "x-extra": "1",
        "x-team": "tests",
    }
    assert expected.items() <= received.headers.items()


@pytest.mark.parametrize(
    "headers", [{"Accept-Encoding": "identity"}, {"Expect": "none"}, {"X-A": "1", "x-a": "2"}]
)
async def test_a_request_that_is_not_plain_is_sent_with_its_headers(
    client: str, headers: dict[str, str]
) -> None:
    async with upstream(send_json(200, {"ok": True})) as server, http_upstream(client) as subject:
        provider = configured("chat", base_url=server.url, headers=headers)
        answer = await subject.open(provider, OUTBOUND, "sk-key")
        assert json.loads(await answer.read()) == {"ok": True}
        answer.close()
    [received] = server.requests
    expected = {name.lower(): value for name, value in headers.items()}
    assert expected.items() <= received.headers.items()


async def test_a_password_in_the_url_is_sent_as_a_header(client: str) -> None:
    async with upstream(send_json(200, {"ok": True})) as server, http_upstream(client) as subject:
        provider = configured("chat", base_url=server.url.replace("//", "//user:secret@"))
        answer = await subject.open(provider, OUTBOUND, "")
        assert answer.status == 200
        answer.close()
    [received] = server.requests
    assert received.headers["authorization"].startswith("Basic ")


async def test_a_large_body_is_sent_without_a_copy_of_it(client: str) -> None:
    body = b"x" * (8 * 1024 * 1024)
    sizes: list[int] = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Length: %d\r\n" % len(body) in head
        while sum(sizes) < len(body):
            sizes.append(len(await reader.read(64 * 1024)))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    async with server, http_upstream(client) as subject:
        provider = provider_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        outbound = Outbound(path="/chat/completions", body=body)
        tracemalloc.start()
        try:
            answer = await subject.open(provider, outbound, "sk-key")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        answer.close()
    assert sum(sizes) == len(body)
    assert peak < len(body) // 2


async def test_a_body_is_read_as_it_arrives(client: str) -> None:
    pieces: list[bytes] = []
    async with opened(client, send_frames(HELLO)) as (answer, _):
        while piece := await answer.next():
            pieces.append(piece)
    assert b"".join(pieces) == b"".join(HELLO)


async def test_a_redirect_is_not_followed(client: str) -> None:
    async with opened(client, send_json(307, {}, location="http://127.0.0.1:1/")) as (
        answer,
        server,
    ):
        assert answer.status == 307
        assert len(server.requests) == 1


async def test_a_provider_that_cannot_be_reached_is_a_connection_fault(client: str) -> None:
    async with upstream(send_frames(HELLO)) as server:
        url = server.url
    async with http_upstream(client) as subject:
        with pytest.raises(UpstreamError) as caught:
            await subject.open(provider_at(url), OUTBOUND, "sk-key")
    assert caught.value.fault.code == "connection_failed"


async def ask(subject: HTTPUpstream, url: str) -> bytes:
    answer = await subject.open(provider_at(url), OUTBOUND, "sk-key")
    try:
        return await answer.read()
    finally:
        answer.close()


async def fault_message(client: str, url: str) -> str:
    async with http_upstream(client) as subject:
        with pytest.raises(UpstreamError) as caught:
            await ask(subject, url)
    return caught.value.fault.message


async def test_a_connection_that_is_not_made_is_explained(client: str, tmp_path: Path) -> None:
    async with upstream(send_frames(HELLO)) as server:
        closed = server.url
    assert await fault_message(client, closed) == "connection refused (errno 111)"
    named = closed.replace("127.0.0.1", "localhost")
    assert await fault_message(client, named) == "connection refused (errno 111)"
    unknown = await fault_message(client, "http://nowhere.invalid/v1")
    assert unknown.startswith("the host name cannot be resolved (")
    of_server, _ = make_contexts(tmp_path)
    async with raw_upstream(lambda _: b"", of_server) as untrusted:
        message = await fault_message(client, untrusted.url)
    assert message.startswith("TLS failed (SSLCertVerificationError: ")


def _reset(connection: Connection) -> None:
    connection.reset()


def _cut(connection: Connection) -> None:
    connection.cut()


@pytest.mark.parametrize(
    ("ending", "head", "message"),
    [
        (_cut, b"", "the provider closed the connection without a response"),
        (_cut, b"HTTP/1.1 200 O", "the provider closed the connection without a response"),
        (_reset, b"", "connection reset by peer (errno 104)"),
        (
            _cut,
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            "the provider closed the connection in the middle of its response",
        ),
        (
            _reset,
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            "the provider closed the connection in the middle of its response",
        ),
    ],
    ids=["closed", "closed in the head", "reset", "cut", "reset in the body"],
)
async def test_a_connection_that_breaks_is_explained(
    client: str, ending: Callable[[Connection], None], head: bytes, message: str
) -> None:
    async def break_off(request: ReceivedRequest, connection: Connection) -> None:
        connection.write(head)
        await let_others_read()
        ending(connection)

    async with upstream(break_off) as server:
        assert await fault_message(client, server.url) == message


async def cut_short(request: ReceivedRequest, client: Connection) -> None:
    await client.head(500)
    await client.send(b"partial")
    client.cut()


async def test_a_broken_connection_is_a_cut_stream_after_what_arrived(client: str) -> None:
    async with opened(client, cut_short) as (answer, _):
        assert await answer.next() == b"partial"
        with pytest.raises(UpstreamError) as caught:
            await answer.next()
        fault: ProviderFault = caught.value.fault
        assert (fault.type, fault.code) == ("connection", "stream_cut")
        assert fault.progress is not None
        assert (fault.progress.chunks, fault.progress.seconds > 0) == (1, True)
        with pytest.raises(UpstreamError):
            await answer.read()


async def test_an_error_body_is_read_up_to_a_broken_connection(client: str) -> None:
    async with opened(client, cut_short) as (answer, _):
        assert await error_body(answer) == b"partial"


async def test_an_error_body_has_a_limit(client: str) -> None:
    async def endless(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(500)
        while True:
            await connection.send(b"x" * 100_000)

    async with opened(client, endless) as (answer, _):
        assert len(await error_body(answer)) == 1024 * 1024
        answer.close()


async def test_a_body_that_has_arrived_as_a_whole_may_be_too_large(client: str) -> None:
    async with (
        upstream(send_json(200, {"text": "x" * 100})) as server,
        http_upstream(client, max_body_bytes=99) as subject,
    ):
        answer = await subject.open(provider_at(server.url), OUTBOUND, "sk-key")
        with pytest.raises(UpstreamError, match=r"\[limits\] body_bytes = 99"):
            await answer.read()
        answer.close()


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
async def test_a_whole_body_beyond_the_limit_is_too_large(client: str, compressed: bool) -> None:
    async def too_long(request: ReceivedRequest, connection: Connection) -> None:
        packer = zlib.compressobj(wbits=31)
        await connection.head(200, content_encoding="gzip" if compressed else "identity")
        for _ in range(10):
            piece = b"x" * 1_000_000
            await connection.send(packer.compress(piece) + packer.flush(2) if compressed else piece)
        await connection.wait_disconnected()

    async with (
        upstream(too_long) as server,
        http_upstream(client, max_body_bytes=3_000_000) as subject,
    ):
        answer = await subject.open(provider_at(server.url), OUTBOUND, "sk-key")
        with pytest.raises(UpstreamError, match=r"\[limits\] body_bytes = 3000000") as caught:
            await answer.read()
        answer.close()
    assert caught.value.fault.code == "response_too_large"


async def test_decompressing_lets_other_tasks_run(client: str) -> None:
    async def bomb(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_encoding="gzip")
        await connection.send(compress_repeated(b"x", 50_000_000))
        await connection.end()

    turns: list[None] = []

    async def count() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    async with opened(client, bomb) as (answer, _):
        counting = asyncio.create_task(count())
        pieces = 0
        while piece := await answer.next():
            pieces += 1
            assert len(piece) <= 1_000_000
        counting.cancel()
    assert len(turns) >= pieces > 50


async def test_closing_an_answer_disconnects(client: str) -> None:
    async def wait(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.wait_disconnected()

    async with opened(client, wait) as (answer, server):
        answer.close()
        async with asyncio.timeout(LIMIT_S):
            await server.all_closed.wait()
        assert server.open_connections == 0


async def test_a_chunk_that_cannot_be_parsed_is_a_protocol_fault(client: str) -> None:
    is_read = asyncio.Event()

    async def break_off(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(HELLO[0])
        await is_read.wait()
        await connection.send_broken_chunk()
        await connection.wait_disconnected()

    async with opened(client, break_off) as (answer, server):
        assert await answer.next() == HELLO[0]
        is_read.set()
        async with asyncio.timeout(LIMIT_S):
            await server.all_closed.wait()
        with pytest.raises(UpstreamError) as raised:
            await answer.next()
    assert raised.value.fault.code == "invalid_chunk"


async def test_the_echo_answers_with_chat_completions_bytes() -> None:
    messages = [{"role": "user", "content": "Hello"}]
    body = json.dumps({"model": "echo", "messages": messages, "stream": True}).encode()
    outbound = Outbound(path="/chat/completions", body=body)
    subject, provider = EchoUpstream(), configured("echo")
    answer = await subject.open(provider, outbound, "")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    pieces: list[bytes] = []
    while piece := await answer.next():
        pieces.append(piece)
    assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
    again = await subject.open(provider, outbound, "")
    assert await again.read() == b"".join(pieces)
    again.close()
    assert await again.next() == b""
    await subject.close()


async def open_slow_echo(sleep: Callable[[float], Awaitable[None]]) -> UpstreamResponse:
    messages = [{"role": "user", "content": "one two"}]
    body = json.dumps({"model": "slow", "messages": messages, "stream": True}).encode()
    outbound = Outbound(path="/chat/completions", body=body)
    return await EchoUpstream(sleep).open(configured("echo"), outbound, "")


async def test_a_slow_echo_waits_before_each_chunk() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    answer = await open_slow_echo(sleep)
    assert b"one" in await answer.next()
    assert sum(waited) == pytest.approx(0.2)
    assert b"two" in await answer.next()
    assert sum(waited) == pytest.approx(0.4)
    await answer.read()
    assert sum(waited) == pytest.approx(0.6)


async def test_a_slow_echo_that_is_closed_ends_at_once() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        answer.close()

    answer = await open_slow_echo(sleep)
    assert await answer.next() == b""
    assert len(waited) == 1


async def test_an_error_of_a_closed_connection_keeps_no_frames(client: str) -> None:
    """aiohttp raises the same exception object each time, so that its frames would pile up."""

    async def stall(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(HELLO[0])
        await connection.wait_disconnected()

    async with opened(client, stall) as (answer, _):
        assert await answer.next() == HELLO[0]
        reading = asyncio.ensure_future(answer.next())
        await asyncio.sleep(0)
        answer.close()
        with pytest.raises(UpstreamError) as raised:
            await reading
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__traceback__ is None
