"""Plain requests to providers: which they are, their heads, and the connections that send them.

The bytes of a request are those of aiohttp, header by header. Connections are opened when none is
idle, used again, and closed after a while.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
from collections import defaultdict, deque
from collections.abc import Coroutine, Mapping, Sequence
from functools import lru_cache
from socket import socket as Socket
from typing import Any, NamedTuple

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from antiphon.engine.http1.addresses import Addresses
from antiphon.engine.http1.connection import Connection, Response
from antiphon.errors import ConnectionFailure, ConnectTimedOut

_NOT_PLAIN = frozenset(
    """
    accept-encoding connection content-encoding content-length cookie expect host keep-alive te
    trailer transfer-encoding upgrade
    """.split()
)
"""Headers that concern framing, connection or compression: aiohttp sends those requests."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST_NAME = re.compile(r"[a-z0-9_.-]*[a-z][a-z0-9_-]*\.?", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_ACCEPT = "Accept: */*\r\n"
_ENCODINGS = "Accept-Encoding: gzip, deflate\r\n"

IDLE_S = 15.0
"""How long a connection is kept for the next request."""
_NEXT_ADDRESS_S = 0.25  # when the next address is tried beside one that has not answered
_INTERLEAVE = 1  # IPv6 and IPv4 in turn


class Origin(NamedTuple):
    """Requests to the same origin share connections."""

    host: str
    port: int
    is_tls: bool


class Target(NamedTuple):
    """Where a request goes to."""

    origin: Origin
    head: bytes
    """The head of the request, up to the length of its body."""


def find_target(url: str, headers: Mapping[str, str]) -> Target | None:
    """Return the target of a plain request: to a name or an address, without a password in the URL,
    with headers that concern neither framing nor connection. None: aiohttp has to send it."""
    return _find_target(url, tuple(headers.items()))


def encode_head(target: Target, length: int) -> bytes:
    """Encode the head of a request with a body of this length."""
    return b"%b%d\r\n\r\n" % (target.head, length)


@lru_cache(maxsize=256)
def _find_target(url: str, headers: tuple[tuple[str, str], ...]) -> Target | None:
    """Find a target once for all requests to a URL with these headers: those of a provider's key
    differ in their bodies alone."""
    read = _read_url(url)
    further = _list_further_headers([name for name, _ in headers])
    if read is None or further is None:
        return None
    if any(_CONTROL.search(value) for _, value in headers):
        raise ValueError("A header of the request contains a control character.")
    origin, start = read
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    return Target(origin, f"{start}{fields}{further}Content-Length: ".encode())


def _list_further_headers(names: Sequence[str]) -> str | None:
    """Return the headers that are added to those with these names; None if they are not plain."""
    known = {name.lower() for name in names}
    if len(known) < len(names) or known & _NOT_PLAIN:
        return None
    if not all(_TOKEN.fullmatch(name) for name in names):
        return None
    return _ENCODINGS if "accept" in known else _ACCEPT + _ENCODINGS


def _read_url(url: str) -> tuple[Origin, str] | None:
    """Return the origin of a URL, with the request line and the header `Host`."""
    try:
        read = URL(url)
        port, host = read.port, read.raw_host
    except ValueError:
        return None
    if read.scheme not in ("http", "https") or not host or port is None:
        return None
    if read.raw_user or read.raw_password or not _is_plain_host(host):
        return None
    origin = Origin(host, port, read.scheme == "https")
    line = f"POST {read.raw_path_qs} HTTP/1.1\r\nHost: {read.host_port_subcomponent}\r\n"
    return origin, line


def _is_plain_host(host: str) -> bool:
    """Whether a host is a name or an address; not a number that only looks like a name."""
    if _HOST_NAME.fullmatch(host) and ".." not in host:
        return True
    try:
        return "%" not in host and str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False


class ConnectionPool:
    """All connections of one client. They have no limit: each run has one, and runs are limited."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` replaces the context that trusts the authorities of the system."""
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._addresses = Addresses()
        self._open: dict[Connection, Origin] = {}
        self._idle: defaultdict[Origin, deque[tuple[Connection, float]]] = defaultdict(deque)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._all_lost = asyncio.Event()

    def send(
        self, target: Target, head: bytes, body: bytes, connect_s: float
    ) -> Coroutine[Any, Any, Response]:
        """Send a request; return its response when the head has arrived. It must be awaited at
        once: a connection that can be used again may be lost later. Raises `OSError` or one of
        `ConnectTimedOut`, `ConnectionFailure` and `BrokenResponse`."""
        connection = self._take_idle(target.origin)
        if connection is None:
            return self._connect_and_send(target.origin, head, body, connect_s)
        return connection.send(head, body)

    async def _connect_and_send(
        self, origin: Origin, head: bytes, body: bytes, connect_s: float
    ) -> Response:
        connection = await self._connect(origin, connect_s)
        return await connection.send(head, body)

    async def close(self) -> None:
        """Close every connection, and wait until they are closed."""
        self._is_closed = True
        await self._addresses.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._idle.clear()
        for connection in [*self._open]:
            connection.abort()
        if self._open:
            await self._all_lost.wait()

    # Reuse

    def _take_idle(self, origin: Origin) -> Connection | None:
        """Take a connection that can be used again. The request has not been sent: another one, or
        a new one, needs no second try."""
        idle = self._idle.get(origin)
        while idle:
            connection, since = idle.popleft()
            if self._loop.time() - since <= IDLE_S and connection.is_reusable():
                return connection
            connection.abort()
        return None

    def _release(self, connection: Connection) -> None:
        self._idle[self._open[connection]].append((connection, self._loop.time()))
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(IDLE_S, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have been idle for too long."""
        self._sweep_timer = None
        oldest = self._loop.time() - IDLE_S
        for origin, idle in [*self._idle.items()]:
            while idle and (idle[0][1] <= oldest or idle[0][0].is_closed):
                idle.popleft()[0].abort()
            if not idle:
                del self._idle[origin]
        first = min((idle[0][1] for idle in self._idle.values()), default=None)
        if first is not None:
            self._sweep_timer = self._loop.call_at(first + IDLE_S, self._sweep)

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        if self._is_closed and not self._open:
            self._all_lost.set()

    # New connections

    async def _connect(self, origin: Origin, connect_s: float) -> Connection:
        try:
            async with asyncio.timeout(connect_s or None) as limit:
                connection = await self._try_addresses(origin, await self._find(origin))
        except TimeoutError as error:  # ours, or that of the operating system
            if limit.expired():
                raise ConnectTimedOut from error
            raise
        if self._is_closed:
            connection.abort()
            raise ConnectionFailure("the gateway is closing its connections")
        if not connection.is_closed:
            self._open[connection] = origin
        return connection

    async def _find(self, origin: Origin) -> list[AddrInfoType]:
        try:
            return await self._addresses.find(origin.host, origin.port)
        except OSError as error:
            reason = f"the host name cannot be resolved ({error.strerror})"
            raise ConnectionFailure(reason) from error

    async def _try_addresses(self, origin: Origin, addresses: list[AddrInfoType]) -> Connection:
        """Connect to the first address that accepts; if TLS fails there, to another one."""
        tls = await self._get_tls() if origin.is_tls else None
        while True:
            try:
                return await self._open_connection(origin, addresses, tls)
            except OSError as error:
                aiohappyeyeballs.pop_addr_infos_interleave(addresses, _INTERLEAVE)
                if addresses:
                    continue
                if isinstance(error, ssl.SSLError):
                    reason = f"TLS failed ({type(error).__name__}: {error.strerror})"
                    raise ConnectionFailure(reason) from error
                raise

    async def _open_connection(
        self, origin: Origin, addresses: list[AddrInfoType], tls: ssl.SSLContext | None
    ) -> Connection:
        socket: Socket | None = await aiohappyeyeballs.start_connection(
            addresses,
            happy_eyeballs_delay=_NEXT_ADDRESS_S,
            interleave=_INTERLEAVE,
            loop=self._loop,
        )
        connection = Connection(self._release, self._forget)
        name = origin.host.rstrip(".") if tls else None
        try:
            await self._loop.create_connection(
                lambda: connection, sock=socket, ssl=tls, server_hostname=name
            )
            socket = None
        finally:
            if socket is not None:
                connection.abort()  # else the event loop may go on to use the number of the socket
                socket.close()
        return connection

    async def _get_tls(self) -> ssl.SSLContext:
        """Make the context once, in a thread: it reads the certificates of the system."""
        if self._tls is None:
            self._tls = await self._loop.run_in_executor(None, make_tls)
        return self._tls


def make_tls() -> ssl.SSLContext:
    """Make a context that verifies certificates and names, and speaks HTTP/1.1."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
