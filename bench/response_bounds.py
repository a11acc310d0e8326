"""One upstream that sends too much: memory of the gateway, and how long its event loop is blocked.

Each case has a fresh gateway process, with the default [limits], and an upstream in this process
that sends 300 MB: as one line, one message, one event of many lines, or one body, plain and
compressed. A small request before it warms the gateway up; what counts is the memory beyond that.
The longest block is that of the gateway's event loop, seen by a timer that fires every 2 ms: in CPU
time, and in wall time, which other processes on the same machine make longer.

    python bench/response_bounds.py
    python bench/response_bounds.py --write        also writes bench/results/bounds.md
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

RESULTS = Path(__file__).parent / "results" / "bounds.md"
SOURCE = Path(__file__).resolve().parents[1] / "src"
HEADING = "## Responses of upstreams"
TOTAL = 300_000_000
PIECE = 1 << 18
LIMIT_MB, LIMIT_MS = 64, 100


# The upstream


def repeat(piece: bytes) -> Iterator[bytes]:
    for _ in range(TOTAL // len(piece)):
        yield piece


def one_line(opening: bytes) -> Iterator[bytes]:
    yield opening
    yield from repeat(b"x" * PIECE)


def one_event() -> Iterator[bytes]:
    yield from repeat((b"data: " + b"x" * 58 + b"\n") * (PIECE // 65))


def tiny_lines() -> Iterator[bytes]:
    yield from repeat(b"data:\n" * (PIECE // 6))


def one_message() -> Iterator[bytes]:
    prelude = struct.pack(">II", TOTAL, 0)
    yield prelude + struct.pack(">I", zlib.crc32(prelude))
    yield from repeat(b"x" * PIECE)


def many_deltas(field: str) -> Iterator[bytes]:
    delta = {"choices": [{"index": 0, "delta": {field: "x" * 4000}}]}
    yield from repeat((b"data: " + json.dumps(delta).encode() + b"\n\n") * (PIECE // 4096))


def gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


@dataclass(frozen=True)
class Case:
    name: str
    pieces: Callable[[], Iterator[bytes]]
    provider: str = "chat"
    kind: str = "text/event-stream"
    encoding: str = ""
    status: int = 200
    stream: bool = True


SSE, JSON = b'data: {"choices": [{"delta": {"content": "', b'{"choices": [{"message": "'
CASES = (
    Case("SSE, one line", lambda: one_line(SSE)),
    Case("SSE, one line, gzip", lambda: gzipped(one_line(SSE)), encoding="gzip"),
    Case("SSE, one event of many lines", one_event),
    Case("SSE, one event of empty lines", tiny_lines),
    Case("SSE, a comment", lambda: one_line(b": ")),
    Case("NDJSON, one line", lambda: one_line(b'{"message": {"content": "'), "ollama"),
    Case("Amazon event stream, one message", one_message, "bedrock"),
    Case("text in deltas of 4 kB", lambda: many_deltas("content")),
    Case("text in deltas of 4 kB, gzip", lambda: gzipped(many_deltas("content")), encoding="gzip"),
    Case("reasoning in deltas of 4 kB", lambda: many_deltas("reasoning_content")),
    Case("whole body", lambda: one_line(JSON), kind="application/json", stream=False),
    Case(
        "whole body, gzip",
        lambda: gzipped(one_line(JSON)),
        kind="application/json",
        encoding="gzip",
        stream=False,
    ),
    Case("error body", lambda: one_line(JSON), kind="application/json", status=400),
)


@asynccontextmanager
async def upstream(case: Case) -> AsyncIterator[str]:
    """Answer the first request briefly, every other one with the case."""
    pieces = list(case.pieces()) if case.encoding else []
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        served += 1
        if served == 1:
            writer.write(b"HTTP/1.1 400 No\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
        else:
            writer.write(f"HTTP/1.1 {case.status} OK\r\ncontent-type: {case.kind}\r\n".encode())
            if case.encoding:
                writer.write(f"content-encoding: {case.encoding}\r\n".encode())
            writer.write(b"connection: close\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                for piece in pieces or case.pieces():
                    writer.write(piece)
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


# The gateway, in a process of its own


def rss_kb(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def watch(blocks: list[tuple[float, float]]) -> None:
    while True:
        cpu, wall = time.thread_time(), time.perf_counter()
        await asyncio.sleep(0.002)
        cpu_s, wall_s = time.thread_time() - cpu, time.perf_counter() - wall - 0.002
        blocks.append((cpu_s * 1000, wall_s * 1000))


async def serve_gateway(url: str, provider: str, directory: str) -> None:
    from antiphon.config import Config, ProviderConfig, ServerConfig, StoreConfig, TraceConfig
    from antiphon.server.serve import GatewayServer
    from antiphon.server.wiring import open_setup

    settings = ProviderConfig(kind=provider, base_url=url, api_keys=["sk-bench"])
    config = Config(
        default_provider="up",
        server=ServerConfig(port=0),
        providers={"up": settings},
        store=StoreConfig(url="memory://"),
        trace=TraceConfig(path=f"{directory}/trace.db"),
    )
    environment = {"XDG_DATA_HOME": directory}
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with open_setup(config, environment, lambda entry: None) as setup:
        gateway = GatewayServer(setup)
        await gateway.start()
        print(gateway.port, flush=True)
        await lines.readline()  # the gateway is warm
        reset_peak()
        before, blocks = rss_kb("VmRSS"), [(0.0, 0.0)]
        watching = asyncio.create_task(watch(blocks))
        await lines.readline()  # the case is over
        watching.cancel()
        longest = [max(column) for column in zip(*blocks, strict=True)]
        print(json.dumps([(rss_kb("VmHWM") - before) / 1024, *longest]), flush=True)
        await gateway.stop()


# One case


@dataclass(frozen=True)
class Result:
    case: str
    memory_mb: float
    cpu_ms: float
    wall_ms: float
    took_s: float
    outcome: str

    @property
    def row(self) -> str:
        blocks = f"{self.cpu_ms:.0f} | {self.wall_ms:.0f}"
        measured = f"{self.memory_mb:.0f} | {blocks} | {self.took_s:.1f}"
        return f"| {self.case} | {measured} | {self.outcome} |"


async def ask(session: aiohttp.ClientSession, url: str, *, stream: bool) -> str:
    body = {"model": "m", "input": "Hello", "stream": stream, "store": False}
    async with session.post(url, json=body) as response:
        text = await response.read()
    failed = "response.failed" if b"response.failed" in text else f"HTTP {response.status}"
    return failed + (", too large" if b"larger response" in text else "")


async def measure(case: Case) -> Result:
    with tempfile.TemporaryDirectory() as directory:
        async with upstream(case) as url, aiohttp.ClientSession() as session:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, __file__, "--gateway", url, case.provider, directory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
            assert process.stdin is not None
            assert process.stdout is not None
            port = int(await process.stdout.readline())
            address = f"http://127.0.0.1:{port}/v1/responses"
            await ask(session, address, stream=case.stream)
            process.stdin.write(b"\n")
            began = time.perf_counter()
            outcome = await ask(session, address, stream=case.stream)
            took_s = time.perf_counter() - began
            process.stdin.write(b"\n")
            memory_mb, cpu_ms, wall_ms = json.loads(await process.stdout.readline())
            await process.wait()
    return Result(case.name, memory_mb, cpu_ms, wall_ms, took_s, outcome)


# The report

TABLE = """
| 300 MB as | memory, MB | block, CPU ms | block, wall ms | took, s | the client gets |
|---|---|---|---|---|---|
"""


def write_section(table: str) -> None:
    """Replace the section of this script in the page that it shares."""
    page = RESULTS.read_text() if RESULTS.exists() else "# Bounds\n"
    before, _, rest = page.partition(HEADING)
    _, mark, after = rest.partition("\n## ")
    intro = (
        "Memory beyond that of the idle gateway, and the longest block of its event loop, while\n"
        f"one upstream sends 300 MB. Goals: {LIMIT_MB} MB and {LIMIT_MS} ms of CPU time.\n\n"
        "    python bench/response_bounds.py --write\n"
    )
    section = f"{HEADING}\n\n{intro}{table}"
    RESULTS.write_text(f"{before.rstrip()}\n\n{section}" + (f"\n## {after}" if mark else ""))


async def run(*, write: bool) -> int:
    results = [await measure(case) for case in CASES]
    table = TABLE + "".join(f"{result.row}\n" for result in results)
    print(table)
    if write:
        write_section(table)
    return sum(each.memory_mb > LIMIT_MB or each.cpu_ms > LIMIT_MS for each in results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write bench/results/bounds.md")
    parser.add_argument("--gateway", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.gateway:
        import uvloop

        uvloop.run(serve_gateway(*given.gateway))
        return 0
    return asyncio.run(run(write=given.write))


if __name__ == "__main__":
    sys.exit(main())
