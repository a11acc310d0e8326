"""`@modelcontextprotocol/server-everything` from npm, on a port of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from tests.support.clients.installed import MCP
from tests.support.ports import ReservedPort

EverythingTransport: TypeAlias = Literal["streamableHttp", "sse"]
_LOOPBACK = Path(__file__).parent / "loopback.mjs"
_PROGRAM = (
    MCP / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
)


@asynccontextmanager
async def serve_everything(transport: EverythingTransport) -> AsyncIterator[str]:
    """Run the server; gives its URL."""
    port = ReservedPort()
    process = await asyncio.create_subprocess_exec(
        *("node", "--import", _LOOPBACK.as_uri(), str(_PROGRAM), transport),
        env={**os.environ, "PORT": str(port.number)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    drain = None
    try:
        while b"port" not in (line := await process.stderr.readline()):
            assert line, "the server has ended"
        drain = asyncio.create_task(process.stderr.read())  # what it says later fills no buffer
        path = "sse" if transport == "sse" else "mcp"
        yield f"http://127.0.0.1:{port.number}/{path}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if drain is not None:
            await drain
        port.release()
