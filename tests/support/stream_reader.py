"""A client that reads a stream event by event and may disconnect at any time."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.client_answers import TIMEOUT_S, Answer, check_answer

Document = dict[str, Any]


class StreamReader:
    """One request on its own connection; reads no more than each method needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._body = bytearray()
        self._seen = 0

    async def post(self, body: Any, path: str = "/v1/responses", **headers: str) -> None:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        await self._writer.drain()

    def write(self, data: bytes) -> None:
        """Write raw bytes, in place of a request."""
        self._writer.write(data)

    async def head(self) -> None:
        """Read the head of the answer."""
        async with asyncio.timeout(TIMEOUT_S):
            data = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = data.decode().split("\r\n")
        self.status = int(first.split()[1])
        pairs = (line.partition(":") for line in lines if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}

    async def event(self) -> Document | None:
        """Read the next event; None at the end."""
        if not self.status:
            await self.head()
        while (end := self._body.find(b"\n\n", self._seen)) < 0:
            if not await self._more():
                return None
        frame = bytes(self._body[self._seen : end])
        self._seen = end + 2
        payload = frame.partition(b"data: ")[2]
        if payload == b"[DONE]":
            return None
        document: Document = json.loads(payload)
        return document

    async def rest(self) -> Answer:
        """Read to the end and validate the whole answer."""
        if not self.status:
            await self.head()
        if "content-length" in self.headers:
            async with asyncio.timeout(TIMEOUT_S):
                self._body += await self._reader.readexactly(int(self.headers["content-length"]))
        else:
            while await self._more():
                pass
        answer = Answer(self.status, self.headers, bytes(self._body))
        check_answer(answer)
        return answer

    async def read_until_close(self) -> bytes:
        """Read all bytes of the body until the connection is closed."""
        if not self.status:
            await self.head()
        async with asyncio.timeout(TIMEOUT_S):
            return await self._reader.read()

    async def read_bytes_until(self, end: bytes) -> bytes:
        """Read raw bytes up to and including `end`; after `head`."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self._reader.readuntil(end)

    async def closed_without_an_answer(self) -> bool:
        """Wait until the connection is closed; whether no byte came before."""
        async with asyncio.timeout(TIMEOUT_S):
            return not await self._reader.read()

    def start_next_answer(self) -> None:
        """Forget the answer that was read; the next one comes on the same connection."""
        self.status, self._seen = 0, 0
        self._body.clear()

    async def _more(self) -> bool:
        """Read one more chunk of the body."""
        async with asyncio.timeout(TIMEOUT_S):
            size = int(await self._reader.readline() or b"0", 16)
            data = await self._reader.readexactly(size + 2)
        self._body += data[:-2]
        return size > 0

    def disconnect(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def open_stream(port: int, *, buffer_bytes: int | None = None) -> AsyncIterator[StreamReader]:
    """Connect to the gateway; a small buffer fills at once if nothing is read."""
    sock = socket.socket()
    if buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=2**16)
    try:
        yield StreamReader(reader, writer)
    finally:
        writer.transport.abort()
