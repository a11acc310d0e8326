"""Clients that stop reading at the end of long responses take a bounded multiple of the text."""

from __future__ import annotations

import asyncio
import json
import socket
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.gateways import running, settings
from tests.support.upstream import DONE, chunk, send_frames, upstream
from tests.support.waiting import until

READERS = 6
PIECE = "word " * 800
TEXT_BYTES = 750 * len(PIECE)
REQUEST = json.dumps({"model": "up/m", "input": "Hello", "stream": True}).encode()
HEAD = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


async def read_all_deltas(stack: AsyncExitStack, port: int) -> None:
    """Send a request, and stop reading where the response repeats its text."""
    client = socket.socket()
    stack.callback(client.close)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, HEAD + b"content-length: %d\r\n\r\n" % len(REQUEST) + REQUEST)
    tail = b""
    while b"event: response.output_text.done" not in tail:
        tail = tail[-100:] + await loop.sock_recv(client, 65536)


async def test_a_stopped_reader_holds_its_text_a_few_times_and_not_a_dozen(tmp_path: Path) -> None:
    """The last four events repeat the text: each is rendered when the one before was taken, and
    what waits for the socket is no larger than its buffer."""
    frames = [chunk({"content": PIECE})] * (TEXT_BYTES // len(PIECE))
    script = send_frames([*frames, chunk({}, "stop"), DONE])
    async with upstream(script) as server, running(settings(tmp_path, server.url)) as gateway:
        port = int(gateway.base_url.rpartition(":")[2].partition("/")[0])
        async with AsyncExitStack() as stack:
            tracemalloc.start()
            stack.callback(tracemalloc.stop)
            async with asyncio.TaskGroup() as reading:
                for _ in range(READERS):
                    reading.create_task(read_all_deltas(stack, port))
            _, peak = tracemalloc.get_traced_memory()
        await until(lambda: not gateway.engine.active, "every run has ended")
    assert peak < 5 * READERS * TEXT_BYTES
