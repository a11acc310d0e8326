"""A client of several gateways, which reads streams event by event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

Document = dict[str, Any]
TERMINAL = {"response.completed", "response.failed", "response.incomplete"}


@asynccontextmanager
async def open_client(read_s: float = 30.0) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client without a limit of connections; a silent one fails after `read_s`."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=read_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
        yield client


async def send(
    client: aiohttp.ClientSession, method: str, url: str, body: Any = None
) -> tuple[int, Document]:
    """Send a request; return status and document of the answer."""
    async with client.request(method, url, json=body) as answer:
        return answer.status, await answer.json()


async def read_frames(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Read whole frames of a stream, without keep-alives and the end marker."""
    buffer = b""
    async for chunk in answer.content.iter_any():
        *frames, buffer = (buffer + chunk).split(b"\n\n")
        for frame in frames:
            if b"data: " in frame and b"data: [DONE]" not in frame and b'"keepalive"' not in frame:
                yield frame


def decode(frame: bytes) -> Document:
    document: Document = json.loads(frame.partition(b"data: ")[2])
    return document
