"""A scripted HTTP provider on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the upstream received."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes = b""
    """The body, byte for byte."""


class Connection:
    """The open connection of one request, to which a script writes its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def head(self, status: int = 200, **headers: str) -> None:
        """Send the response head; the body follows in chunks until `end`, `cut` or `reset`."""
        given = {"content_type": "text/event-stream", **headers}
        lines = [f"HTTP/1.1 {status} Scripted", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
        await self._send_all(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def send(self, data: bytes) -> None:
        await self._send_all(b"%x\r\n%b\r\n" % (len(data), data))

    async def send_broken_chunk(self) -> None:
        """Send what is no chunk in place of the next one."""
        await self._send_all(b"zz\r\nthis is no chunk\r\n")

    async def end(self) -> None:
        await self._send_all(b"0\r\n\r\n")

    async def _send_all(self, data: bytes) -> None:
        if self._writer.is_closing():  # event loops differ in what they raise
            raise ConnectionResetError("the other side has disconnected")
        self._writer.write(data)
        await self._writer.drain()

    def cut(self) -> None:
        """Close the connection in the middle of the body."""
        self._writer.close()

    def reset(self) -> None:
        """Reset the connection (TCP RST), so that the other side gets an error."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def write(self, data: bytes) -> None:
        """Write raw bytes, in place of a head or a chunk."""
        self._writer.write(data)

    @property
    def is_disconnected(self) -> bool:
        """Whether the other side has disconnected."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def pause(self, limit_s: float) -> None:
        """Wait for a time, or until the other side disconnects."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self.wait_disconnected()

    async def wait_disconnected(self) -> None:
        """Wait until the other side disconnects."""
        while await self._reader.read(65536):
            pass


Script: TypeAlias = Callable[[ReceivedRequest, Connection], Awaitable[None]]


@dataclass
class Upstream:
    url: str
    requests: list[ReceivedRequest] = field(default_factory=list)
    open_connections: int = 0
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def upstream(script: Script, models: Sequence[str] = ()) -> AsyncIterator[Upstream]:
    """Run the script for every request; no task outlives the block.

    Model discovery asks whenever it wants to: it gets the list `models` and is not counted."""
    listed = json.dumps({"data": [{"id": name} for name in models]}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(listed)}\r\nconnection: close\r\n\r\n"
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        is_counted = False
        try:
            while (asked := await _read_request(reader)) is not None:
                if asked.path.endswith("/models"):
                    writer.write(head.encode() + listed)
                    break
                state.open_connections += not is_counted
                is_counted = True
                state.requests.append(asked)
                await script(asked, Connection(reader, writer))
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            state.open_connections -= is_counted
            if is_counted and not state.open_connections:
                state.all_closed.set()
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    state = Upstream(f"http://127.0.0.1:{port}/v1")
    try:
        yield state
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ReceivedRequest(first.split()[1], headers, json.loads(body) if body else {}, body)


# Common scripts


def frame(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return frame({"id": "c1", "model": "scripted", "choices": [choice], **more})


def usage(prompt: int = 7, completion: int = 3) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return frame({"choices": [], "usage": {**counts, "total_tokens": prompt + completion}})


def whole_answer(text: str, finish: str | None = "stop") -> dict[str, Any]:
    """A whole answer, for `send_json`."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "c1", "model": "scripted", "choices": [choice], "usage": counts}


DONE = b"data: [DONE]\n\n"
HELLO = (chunk({"role": "assistant", "content": ""}), chunk({"content": "Hello"}))
HELLO_WORLD = (*HELLO, chunk({"content": ", world"}), chunk({}, "stop"), usage(), DONE)


def send_frames(frames: Sequence[bytes]) -> Script:
    """Make a script that sends these frames, each in its own write."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in frames:
            await connection.send(each)
        await connection.end()

    return script


def send_json(status: int, document: Any, **headers: str) -> Script:
    """Make a script that answers with one JSON body."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(status, **{"content_type": "application/json", **headers})
        await connection.send(json.dumps(document).encode())
        await connection.end()

    return script
