"""aiohttp's side of a WebSocket: messages, limits, closing and an incomplete handshake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.server.http import WebSocket
from antiphon.server.websocket.aiohttp_socket import FrameHeads, serve_websocket
from tests.support.waiting import LIMIT_S

HANDSHAKE = b"\r\n".join(
    [
        b"GET / HTTP/1.1",
        b"host: localhost",
        b"connection: upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        b"",
        b"",
    ]
)


@dataclass
class EchoSession:
    """A session that sends every message back, and counts what it cannot read."""

    max_message_bytes: int = 100
    client: str = "local"
    invalid: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, socket: WebSocket) -> None:
        try:
            while (message := await self._receive(socket)) is not None:
                if message == b"ping":
                    await socket.ping()
                elif message == b"close":
                    await socket.close(1001, "as requested")
                await socket.send(message)
        except ConnectionError:
            pass
        finally:
            self.ended.set()

    async def _receive(self, socket: WebSocket) -> bytes | None:
        try:
            return await socket.receive()
        except InvalidRequest:
            self.invalid += 1
            return b"invalid"

    def stop(self) -> None:
        raise NotImplementedError

    def revoke(self) -> None:
        raise NotImplementedError


@asynccontextmanager
async def serving(session: EchoSession) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    answer = partial(serve_websocket, headers={"x-request-id": "req_1"}, session=session)
    runner = web.ServerRunner(web.Server(answer, handler_cancellation=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as client:
        try:
            yield client, f"http://127.0.0.1:{port}/"
        finally:
            await runner.cleanup()


async def test_messages_go_both_ways() -> None:
    session = EchoSession()
    async with serving(session) as (client, url), client.ws_connect(url) as socket:
        await socket.send_str("größer")
        assert await socket.receive_str() == "größer"
        await socket.send_bytes(b"binary")
        assert await socket.receive_str() == "invalid"
    assert session.invalid == 1
    await session.ended.wait()


async def test_messages_are_not_compressed() -> None:
    async with (
        serving(EchoSession()) as (client, url),
        client.ws_connect(url, compress=15) as socket,
    ):
        assert socket.compress == 0


async def test_pings_are_sent() -> None:
    async with (
        serving(EchoSession()) as (client, url),
        client.ws_connect(url, autoping=False) as socket,
    ):
        await socket.send_str("ping")
        assert (await socket.receive()).type is WSMsgType.PING


async def test_the_session_can_close_the_connection() -> None:
    async with serving(EchoSession()) as (client, url), client.ws_connect(url) as socket:
        await socket.send_str("close")
        assert (await socket.receive()).type is WSMsgType.CLOSE
    assert socket.close_code == 1001


@pytest.mark.parametrize(("size", "code"), [(100, None), (101, 1009)])
async def test_a_message_that_is_too_large_closes_the_connection(
    size: int, code: int | None
) -> None:
    async with serving(EchoSession()) as (client, url), client.ws_connect(url) as socket:
        await socket.send_str("x" * size)
        await socket.receive()
        assert socket.close_code == code


async def test_a_client_that_is_gone_ends_the_session() -> None:
    session = EchoSession()
    async with serving(session) as (_, url):
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(HANDSHAKE)
        assert b" 101 " in await reader.readline()
        writer.transport.abort()
        await asyncio.wait_for(session.ended.wait(), LIMIT_S)


async def test_an_incomplete_handshake_is_a_400() -> None:
    async with (
        serving(EchoSession()) as (client, url),
        client.get(url, headers={"upgrade": "websocket", "connection": "upgrade"}) as response,
    ):
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "bad_request"
        assert response.headers["x-request-id"] == "req_1"


def make_frame(size: int, *, is_masked: bool) -> bytes:
    mask = 0x80 if is_masked else 0
    if size < 126:
        head = bytes([0x82, mask | size])
    elif size < 2**16:
        head = bytes([0x82, mask | 126]) + size.to_bytes(2)
    else:
        head = bytes([0x82, mask | 127]) + size.to_bytes(8)
    return head + (b"\1\2\3\4" if is_masked else b"") + b"\0" * size


def are_masked(data: bytes, step: int) -> bool:
    heads = FrameHeads()
    return all(heads.are_masked(data[at : at + step]) for at in range(0, len(data), step))


SIZES = st.sampled_from([0, 1, 5, 125, 126, 127, 300, 65_535, 65_536, 70_000])


@given(st.lists(SIZES, max_size=5), SIZES, st.sampled_from([1, 2, 3, 7, 1000, 10**6]))
def test_an_unmasked_frame_is_found_among_masked_ones(
    before: list[int], size: int, step: int
) -> None:
    masked = b"".join(make_frame(each, is_masked=True) for each in before)
    assert are_masked(masked, step)
    assert not are_masked(masked + make_frame(size, is_masked=False), step)


@pytest.mark.parametrize("step", [1, 10])
def test_masked_frames_may_follow_each_other_without_payload(step: int) -> None:
    assert are_masked(make_frame(0, is_masked=True) * 20, step)
