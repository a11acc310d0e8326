"""An upstream on a real socket that writes exactly the bytes it is given, at any time."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.waiting import until


@dataclass
class RawUpstream:
    """Answers request number n with `answer(n)`, and then waits for the next one."""

    answer: Callable[[int], bytes]
    url: str = ""
    requests: int = 0
    connections: list[asyncio.StreamWriter] = field(default_factory=list)
    """In the order of their opening."""
    closed: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(_content_length(head))
                self.requests += 1
                writer.write(self.answer(self.requests))
                await writer.drain()
        self.closed.add(writer)
        writer.close()

    def has_answered(self, number: int) -> bool:
        return self.requests >= number

    def write(self, data: bytes) -> None:
        """Write to the first connection. The socket has room: the bytes have left on return."""
        self.connections[0].write(data)

    def end(self) -> None:
        """Close the first connection."""
        self.connections[0].transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the other side has closed the first connection."""
        await until(lambda: self.connections[0] in self.closed, "the connection is closed")


def _content_length(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


@asynccontextmanager
async def raw_upstream(
    answer: Callable[[int], bytes], context: ssl.SSLContext | None = None
) -> AsyncIterator[RawUpstream]:
    state = RawUpstream(answer)
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    state.url = f"{'https' if context else 'http'}://127.0.0.1:{port}/v1"
    try:
        yield state
    finally:
        server.close()
        for writer in state.connections:
            writer.transport.abort()
        await until(lambda: len(state.closed) == len(state.connections), "every task has ended")


# Framings of an answer


def _head(status: int, kind: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} Raw", f"content-type: {kind}", *lines, "", ""]).encode()


def with_length(body: bytes, status: int = 200, kind: str = "text/event-stream") -> bytes:
    return _head(status, kind, f"content-length: {len(body)}") + body


def _chunks(body: bytes) -> bytes:
    middle = len(body) // 2
    pieces = [piece for piece in (body[:middle], body[middle:]) if piece]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def chunked(
    body: bytes, status: int = 200, kind: str = "text/event-stream", trailers: bytes = b""
) -> bytes:
    head = _head(status, kind, "transfer-encoding: chunked")
    return head + _chunks(body) + b"0\r\n" + trailers + b"\r\n"


def gzip_with_length(body: bytes, kind: str = "text/event-stream") -> bytes:
    packed = gzip.compress(body)
    return _head(200, kind, "content-encoding: gzip", f"content-length: {len(packed)}") + packed


def gzip_chunked(body: bytes, kind: str = "text/event-stream") -> bytes:
    head = _head(200, kind, "content-encoding: gzip", "transfer-encoding: chunked")
    return head + _chunks(gzip.compress(body)) + b"0\r\n\r\n"


Framing = Callable[[bytes], bytes]
FRAMINGS: Mapping[str, Framing] = {
    "content-length": with_length,
    "chunked": chunked,
    "chunked with trailers": lambda body: chunked(body, trailers=b"x-count: 1\r\nx-sum: 2\r\n"),
    "gzip with content-length": gzip_with_length,
    "gzip in chunks": gzip_chunked,
    "an error with content-length": lambda body: with_length(body, 500),
    "an error in chunks": lambda body: chunked(body, 429),
    "an informational answer first": lambda body: (
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + with_length(body)
    ),
}
"""Framings of an answer after which its connection may be used again."""
BODILESS: Mapping[str, bytes] = {
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n",
    "an empty body": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "no chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
}
