"""The worst requests of clients beside normal streams: latency of `/health`, and memory.

A gateway in a process of its own serves 20 streams of a slow provider. Beside them one client sends
the requests below, one after the other. `/health` is requested every 10 ms, whether or not the
answer before has arrived. Memory is the peak of the gateway process, which is started anew for each
request.

    python bench/request_bounds.py                     print the table
    python bench/request_bounds.py --write             and put it into results/bounds.md
    python bench/request_bounds.py --only 'text'       only the requests whose names contain this
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "bounds.md"
SOURCE = Path(__file__).resolve().parents[1] / "src"
HEADING = "## Requests of clients"
STREAMS, PAUSE_S, PROBE_S = 20, 0.05, 0.01
LIMIT_P99_MS, LIMIT_RSS_MB = 100, 500
MEGABYTE = 1024 * 1024
PIECE_BYTES = MEGABYTE // 4
NORMAL = "Tell me a long story."


# The requests


def message(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def with_input(items: list[Any], **fields: Any) -> bytes:
    request = {"model": "slow/slow", "input": items, "store": False, **fields}
    return json.dumps(request, ensure_ascii=False).encode()


def text_items(character: str, count: int, size: int) -> bytes:
    """Messages with one long text each; its characters take four bytes in memory."""
    text = character * ((size - 4) // len(json.dumps(character, ensure_ascii=False)[1:-1].encode()))
    return with_input([message(text + "\U0001f600")] * count)


def many_tools() -> bytes:
    fields = {f"field_{number}": {"type": "string"} for number in range(1_500)}
    schema = {"type": "object", "properties": fields}
    tool = {"type": "function", "parameters": schema, "strict": False}
    tools = [{**tool, "name": f"tool_{number}"} for number in range(120)]
    return with_input([message("Hello")], tools=tools)


def codex_history() -> bytes:
    turn = [
        message([{"type": "input_text", "text": "Please look at this file.\n" * 20}]),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Thinking. " * 20}]},
        {"type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"a": "b"}'},
        {"type": "function_call_output", "call_id": "c", "output": "line of output\n" * 60},
    ]
    items = [
        {**item, "call_id": f"c{number}"} if "call_id" in item else item
        for number in range(3_000)
        for item in turn
    ]
    return with_input(items)


def numbers() -> bytes:
    return with_input([{"type": "later", "values": [1.5] * 490_000}])


def nested() -> bytes:
    value: Any = 1
    for _ in range(90):
        value = [value]
    return with_input([{"type": "later", "value": [value] * 5_300}])


LEGAL: dict[str, Callable[[], bytes]] = {
    "a history of Codex: 12,000 items": codex_history,
    "50,000 messages": lambda: with_input([message("a")] * 50_000),
    "100,000 parts in one message": lambda: with_input(
        [message([{"type": "input_text", "text": "a"}] * 100_000)]
    ),
    "50,000 calls and results": lambda: with_input(
        [
            item
            for number in range(25_000)
            for item in (
                {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": f"c{number}", "output": ""},
            )
        ]
    ),
    "120 tools with 1,500 properties each": many_tools,
    "490,000 numbers": numbers,
    "5,300 values nested 90 levels": nested,
    "64 MB of text: 6 messages with an emoji": lambda: text_items("x", 6, 10 * MEGABYTE),
    "64 MB of text: 6 messages of newlines": lambda: text_items("\n", 6, 10 * MEGABYTE),
    "64 MB of text: 600 messages with an emoji": lambda: text_items("x", 600, MEGABYTE // 10),
    "an image of 64 MB in base64": lambda: with_input(
        [
            message(
                [
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64," + "A" * (63 * MEGABYTE),
                    }
                ]
            )
        ]
    ),
}
REFUSED: dict[str, Callable[[], bytes]] = {
    "2,000,000 items": lambda: with_input([message("a")] * 2_000_000),
    "2 GB of zeros": lambda: b'{"model": "slow/slow", "input": "' + b"0" * (2 * 1024 * MEGABYTE),
    "nested 1,000,000 levels": lambda: b'{"model": "slow/slow", "input": ' + b"[" * 1_000_000,
}


# The provider


def frame(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = b"data: " + json.dumps({"model": "slow", "choices": [choice]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stream a word every 50 ms to a normal request, for a minute; end the others at once."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    size = int(length[1]) if length else 0
    body = await reader.read(min(size, MEGABYTE))
    left = size - len(body)
    while left:
        left -= len(await reader.read(min(left, MEGABYTE)))
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
    writer.write(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n")
    with suppress(ConnectionError):  # the client has left
        for number in range(1200 if NORMAL.encode() in body else 2):
            writer.write(frame({"content": f" word{number}"}))
            await writer.drain()
            await asyncio.sleep(PAUSE_S)
        writer.write(frame({}, "stop") + b"0\r\n\r\n")
        await writer.drain()
    writer.close()


async def provide() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


# The clients


@dataclass
class Measured:
    """What one request came to."""

    name: str
    sent_bytes: int
    status: int = 0
    took_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    peak_mb: float = 0.0

    def row(self) -> str:
        health, gaps = sorted(self.latencies_ms), sorted(self.gaps_ms)
        return (
            f"| {self.name} | {self.sent_bytes / 1e6:.2f} | {self.status} | {self.took_s:.1f}"
            f" | {at(health, 0.5):.0f} | {at(health, 0.99):.0f} | {health[-1]:.0f}"
            f" | {at(gaps, 0.99):.0f} | {self.peak_mb:.0f} |"
        )

    @property
    def holds(self) -> bool:
        return at(sorted(self.latencies_ms), 0.99) <= LIMIT_P99_MS and self.peak_mb <= LIMIT_RSS_MB


def at(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def head(path: str, length: int = 0, *headers: str) -> bytes:
    method = "POST" if length else "GET"
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close", *headers]
    if length:
        lines += ["content-type: application/json", f"content-length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


async def probe(port: int, seen: Measured) -> None:
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head("/health"))
    await reader.read()
    writer.close()
    seen.latencies_ms.append((time.monotonic() - began) * 1000)


async def probe_regularly(port: int, seen: Measured) -> None:
    """Open loop: a probe that waits does not delay the next one."""
    probes = []
    began = time.monotonic()
    try:
        while True:
            probes.append(asyncio.create_task(probe(port, seen)))
            await asyncio.sleep(max(0.0, began + len(probes) * PROBE_S - time.monotonic()))
    finally:
        await asyncio.gather(*probes)


async def listen(port: int, seen: Measured) -> None:
    """A normal stream; the time between its deltas is recorded."""
    body = json.dumps({"model": "slow/slow", "input": NORMAL, "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head("/v1/responses", len(body)) + body)
    last = None
    try:
        async for line in reader:
            if line.startswith(b"event: response.output_text.delta"):
                now = time.monotonic()
                if last is not None:
                    seen.gaps_ms.append((now - last) * 1000)
                last = now
    finally:
        writer.close()


async def send(port: int, body: bytes, packed: bool, seen: Measured) -> None:
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head("/v1/responses", len(body), *["content-encoding: gzip"] * packed))
    sending = asyncio.create_task(send_pieces(writer, body))
    line = await reader.readline()
    seen.status = int(line.split()[1])
    try:
        await reader.read()
    except ConnectionError:
        assert seen.status >= 400  # the rest of the body was not read
    seen.took_s = time.monotonic() - began
    await sending
    writer.close()


async def send_pieces(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a body piece by piece: the transport would copy all of it at once, and the probes of
    this process would wait for its own copy, not for the gateway."""
    with suppress(ConnectionError):  # the gateway has refused the rest of the body
        for start in range(0, len(body), PIECE_BYTES):
            writer.write(body[start : start + PIECE_BYTES])
            await writer.drain()


def peak_mb(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


async def measure(name: str, body: bytes, packed: bool, provider: str) -> Measured:
    seen = Measured(name, len(body))
    async with gateway(provider) as (pid, port):
        streams = [asyncio.create_task(listen(port, seen)) for _ in range(STREAMS)]
        await asyncio.sleep(2.0)
        seen.gaps_ms.clear()
        probing = asyncio.create_task(probe_regularly(port, seen))
        await send(port, body, packed, seen)
        await asyncio.sleep(0.2)
        for task in (*streams, probing):
            task.cancel()
        await asyncio.gather(*streams, probing, return_exceptions=True)
        seen.peak_mb = peak_mb(pid)
    return seen


# The run


@asynccontextmanager
async def process(*args: str, **more: str) -> AsyncIterator[tuple[int, str]]:
    """A process of ours: its id and the URL that its first line names."""
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *args,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **more},
        stdout=asyncio.subprocess.PIPE,
    )
    assert running.stdout is not None
    try:
        line = (await running.stdout.readline()).decode()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield running.pid, found[0]
    finally:
        running.kill()
        await running.communicate()


@asynccontextmanager
async def gateway(provider: str) -> AsyncIterator[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "antiphon.toml"
        config.write_text(
            'default_provider = "slow"\n[server]\nport = 0\n[log]\nlevel = "error"\n'
            f'[providers.slow]\nkind = "chat"\nbase_url = "{provider}"\napi_keys = ["sk-x"]\n'
        )
        args = ("-m", "antiphon.cli.main", "serve", "--config", str(config))
        async with process(*args, XDG_DATA_HOME=place) as (pid, url):
            yield pid, int(url.rstrip("/").split("/")[2].rpartition(":")[2])


async def run(only: str) -> list[Measured]:
    found = []
    async with process(__file__, "--provide") as (_, provider):
        for packed, cases in ((False, LEGAL), (True, REFUSED)):
            for name, make in cases.items():
                if only in name:
                    body = gzip.compress(make(), 9) if packed else make()
                    found.append(await measure(name, body, packed, provider))
                    print(found[-1].row(), flush=True)
    return found


def table(found: list[Measured]) -> str:
    return "\n".join(
        [
            HEADING,
            "",
            f"`python bench/request_bounds.py --write`: each request beside {STREAMS} streams of"
            f" one delta every {PAUSE_S * 1000:.0f} ms. `/health` is requested every"
            f" {PROBE_S * 1000:.0f} ms while the request is served, each time on a new connection."
            f" Goal: p99 ≤ {LIMIT_P99_MS} ms, memory ≤ {LIMIT_RSS_MB} MB."
            " The refused requests (status 413 or 400) are compressed with gzip.",
            "",
            "| request | MB sent | status | s | `/health` p50 ms | p99 ms | max ms"
            " | streams: p99 ms between deltas | peak RSS MB |",
            "|---|---|---|---|---|---|---|---|---|",
            *(each.row() for each in found),
            "",
        ]
    )


def write(text: str) -> None:
    """Replace the section in the file of results; other sections stay."""
    old = RESULTS.read_text() if RESULTS.exists() else "# Bounds\n"
    before, _, rest = old.partition(HEADING)
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    RESULTS.write_text(f"{before.rstrip()}\n\n{text}" + (f"\n{after}" if after else ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--provide", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.provide:
        asyncio.run(provide())
        return 0
    found = asyncio.run(run(options.only))
    text = table(found)
    print(text)
    if options.write:
        write(text)
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
