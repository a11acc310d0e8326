"""The pool: new connections, TLS, idle time and the end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from antiphon.engine.http1.pool import (
    IDLE_S,
    ConnectionPool,
    Target,
    encode_head,
    find_target,
    make_tls,
)
from antiphon.errors import ConnectionFailure, ConnectTimedOut
from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.virtual_loop import Host, VirtualLoop
from tests.support.raw_upstream import raw_upstream, with_length
from tests.support.tls import make_contexts
from tests.support.waiting import LIMIT_S, until

ADDRESS = ("127.0.0.1", 8000)


def target_of(url: str) -> Target:
    found = find_target(url, {})
    assert found is not None
    return found


async def ask(pool: ConnectionPool, url: str, connect_s: float = LIMIT_S) -> bytes:
    target = target_of(url)
    response = await pool.send(target, encode_head(target, 2), b"{}", connect_s)
    body = b""
    while piece := response.take():
        body += piece
    return body


# In virtual time


class Provider(Host):
    """Answers every request at once; accepts connections after a delay, or never."""

    def __init__(self, accept_s: float | None = 0.0) -> None:
        self.sides: list[_Side] = []
        self._accept_s = accept_s

    def accept_delay(self) -> float | None:
        return self._accept_s

    def make_protocol(self) -> asyncio.BaseProtocol:
        self.sides.append(_Side())
        return self.sides[-1]

    def are_open(self) -> list[bool]:
        return [not side.is_lost for side in self.sides]


class _Side(asyncio.Protocol):
    is_lost = False
    transport: MemoryTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(with_length(b"ok"))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True


Scenario = Callable[[ConnectionPool, VirtualLoop], Awaitable[None]]
URL = "http://127.0.0.1:8000/v1"


def simulate(provider: Provider, scenario: Scenario) -> None:
    loop = VirtualLoop(limit_s=10_000.0)
    loop.hosts[ADDRESS] = provider

    async def run() -> None:
        pool = ConnectionPool()
        try:
            await scenario(pool, loop)
        finally:
            await pool.close()

    try:
        loop.run_until_complete(run())
        assert loop.unhandled == []
    finally:
        loop.close()


def test_a_connection_is_used_again_until_it_was_idle_for_too_long() -> None:
    provider = Provider()

    async def scenario(pool: ConnectionPool, loop: VirtualLoop) -> None:
        assert await ask(pool, URL) == b"ok"
        await asyncio.sleep(IDLE_S - 1)
        assert await ask(pool, URL) == b"ok"
        assert provider.are_open() == [True]
        await asyncio.sleep(IDLE_S - 1)
        assert provider.are_open() == [True]
        await asyncio.sleep(1.1)
        assert provider.are_open() == [False]
        assert await ask(pool, URL) == b"ok"
        assert provider.are_open() == [False, True]

    simulate(provider, scenario)


def test_each_idle_connection_has_its_own_time() -> None:
    provider = Provider()

    async def scenario(pool: ConnectionPool, loop: VirtualLoop) -> None:
        await asyncio.gather(ask(pool, URL), ask(pool, URL), ask(pool, URL))
        assert provider.are_open() == [True, True, True]
        provider.sides[1].transport.close()
        await asyncio.sleep(5)
        assert await ask(pool, URL) == b"ok"
        await asyncio.sleep(IDLE_S - 4)
        assert sorted(provider.are_open()) == [False, False, True]
        await asyncio.sleep(5)
        assert provider.are_open() == [False, False, False]

    simulate(provider, scenario)


def test_a_connection_that_is_not_accepted_in_time_is_given_up() -> None:
    async def scenario(pool: ConnectionPool, loop: VirtualLoop) -> None:
        with pytest.raises(ConnectTimedOut):
            await ask(pool, URL, connect_s=3.0)
        assert loop.time() == pytest.approx(3.0)

    simulate(Provider(accept_s=None), scenario)


def test_closing_ends_idle_connections_and_those_that_are_being_made() -> None:
    provider, slow = Provider(), Provider(accept_s=1.0)

    async def scenario(pool: ConnectionPool, loop: VirtualLoop) -> None:
        loop.hosts["127.0.0.1", 8001] = slow
        await asyncio.gather(ask(pool, URL), ask(pool, URL))
        connecting = asyncio.ensure_future(ask(pool, "http://127.0.0.1:8001/v1"))
        await asyncio.sleep(0.5)
        await pool.close()
        with pytest.raises(ConnectionFailure, match="closing its connections"):
            await connecting
        await asyncio.sleep(0.1)
        assert (provider.are_open(), slow.are_open()) == ([False, False], [False])

    simulate(provider, scenario)


def test_a_connection_is_refused() -> None:
    async def scenario(pool: ConnectionPool, loop: VirtualLoop) -> None:
        with pytest.raises(ConnectionRefusedError):
            await ask(pool, "http://127.0.0.1:1/v1")

    simulate(Provider(), scenario)


# On sockets


async def test_a_request_that_waits_fails_when_the_pool_is_closed() -> None:
    async with raw_upstream(lambda _: b"") as server:
        pool = ConnectionPool()
        asking = asyncio.ensure_future(ask(pool, server.url))
        await until(lambda: server.has_answered(1), "the request has arrived")
        await pool.close()
        with pytest.raises(ConnectionFailure, match="closed by the gateway"):
            await asking


async def test_a_name_that_does_not_resolve_is_named() -> None:
    pool = ConnectionPool()
    with pytest.raises(ConnectionFailure, match=r"the host name cannot be resolved \("):
        await ask(pool, "http://nowhere.invalid/v1")
    await pool.close()


async def ask_tls(url: str, tls: ssl.SSLContext | None) -> bytes:
    pool = ConnectionPool(tls)
    try:
        async with asyncio.timeout(LIMIT_S):
            return await ask(pool, url)
    finally:
        await pool.close()


async def test_the_certificate_of_a_server_is_verified(tmp_path: Path) -> None:
    of_server, of_client = make_contexts(tmp_path)
    async with raw_upstream(lambda _: with_length(b"ok"), of_server) as server:
        assert await ask_tls(server.url, of_client) == b"ok"
        for tls in (None, make_tls()):
            with pytest.raises(ConnectionFailure, match=r"TLS failed \(SSLCertVerificationError"):
                await ask_tls(server.url, tls)
        other_name = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(ConnectionFailure, match=r"TLS failed .*Hostname mismatch"):
            await ask_tls(other_name, of_client)


async def test_tls_asks_for_http_1_1_and_for_the_name_of_the_host(tmp_path: Path) -> None:
    of_server, _ = make_contexts(tmp_path)
    of_server.set_alpn_protocols(["h2", "http/1.1"])
    seen: list[tuple[str | None, str | None]] = []
    names: list[str | None] = []
    of_server.set_servername_callback(lambda _, name, __: names.append(name))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tls = writer.get_extra_info("ssl_object")
        seen.append((tls.selected_alpn_protocol(), tls.version()))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(with_length(b"ok"))
        await reader.read()
        writer.close()

    trusting = make_tls()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=of_server)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await ask_tls(f"https://localhost:{port}/v1", trusting) == b"ok"
    assert (seen, names) == ([("http/1.1", "TLSv1.3")], ["localhost"])


async def test_a_request_that_is_cancelled_when_tls_is_agreed_on_closes_its_connection(
    tmp_path: Path,
) -> None:
    of_server, of_client = make_contexts(tmp_path)
    handshakes: list[asyncio.Task[bytes]] = []

    class Cancelling(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            while handshakes:
                handshakes.pop().cancel()

    of_client.sslobject_class = Cancelling
    async with raw_upstream(lambda _: with_length(b"ok"), of_server) as server:
        pool = ConnectionPool(of_client)
        asking = asyncio.ensure_future(ask(pool, server.url))
        handshakes.append(asking)
        await asyncio.wait([asking])
        assert asking.cancelled()
        # The system gives the number of the closed socket to the next one.
        assert await ask(pool, server.url) == b"ok"
        await server.wait_closed()
        await pool.close()


async def test_a_server_without_tls_is_named() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail server\r\n")
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionFailure, match=r"TLS failed \(SSLError"):
            await ask_tls(f"https://127.0.0.1:{port}/v1", None)


async def test_an_address_of_ipv6_is_connected_to() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(with_length(b"ok"))
        await reader.read()
        writer.close()

    try:
        server = await asyncio.start_server(serve, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await ask_tls(f"http://[::1]:{port}/v1", None) == b"ok"
