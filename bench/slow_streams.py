"""Many slow streams at once through one gateway process: completion of all, and memory.

A provider in a separate process sends a delta every quarter of a second. All streams are open
before the first one ends. Memory that the last of several rounds needs more than the first is a
leak. The gateway is started with a limit of 1,024 open files, the default of many systems.

    python bench/slow_streams.py                     1,000 streams, three rounds
    python bench/slow_streams.py --streams 200 --write
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "slow_streams.md"
SOURCE = Path(__file__).resolve().parents[1] / "src"
DELTAS, PAUSE_S = 40, 0.25
LIMIT_KB_PER_STREAM = 150
LIMIT_LEAK = 1.10  # the last round's peak, as a part of the first one's


# The provider


def frame(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "slow", "choices": [choice]}).encode() + b"\n\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
    writer.write(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n")
    with suppress(ConnectionResetError):  # the gateway asked for a list of models, and left
        for number in range(DELTAS):
            writer.write(chunked(frame({"content": f" word{number}"})))
            await writer.drain()
            await asyncio.sleep(PAUSE_S)
        writer.write(chunked(frame({}, "stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
    writer.close()


async def provide() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


# The clients


@dataclass
class Round:
    """What one round came to."""

    completed: int = 0
    took_s: float = 0.0
    first_word_s: float = 0.0
    rss_kb: list[int] = field(default_factory=list)

    @property
    def peak_mb(self) -> float:
        return max(self.rss_kb) / 1024


async def listen(port: int, seen: Round, began: float) -> None:
    """One client; it counts only if all of its answer is there."""
    body = json.dumps({"model": "slow/words", "input": "Tell me.", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n")
    writer.write(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
    writer.write(body)
    deltas, ended = 0, False
    async for line in reader:
        if line.startswith(b"event: response.output_text.delta"):
            deltas += 1
            if deltas == 1:
                seen.first_word_s = max(seen.first_word_s, time.monotonic() - began)
        ended = ended or line.startswith(b"event: response.completed")
    writer.close()
    seen.completed += ended and deltas == DELTAS


def rss_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


async def watch(pid: int, seen: Round) -> None:
    while True:
        seen.rss_kb.append(rss_kb(pid))
        await asyncio.sleep(0.2)


async def play(port: int, pid: int, streams: int) -> Round:
    seen = Round()
    watcher = asyncio.create_task(watch(pid, seen))
    began = time.monotonic()
    await asyncio.gather(*(listen(port, seen, began) for _ in range(streams)))
    seen.took_s = time.monotonic() - began
    watcher.cancel()
    return seen


# The run


@asynccontextmanager
async def process(*args: str, files: int, **more: str) -> AsyncIterator[tuple[int, str]]:
    """A process of ours: its id and the URL that its first line names."""
    running = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        f'ulimit -Sn {files} && exec "$@"',
        "sh",
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
        running.terminate()
        await running.communicate()


async def run(streams: int, rounds: int, directory: Path) -> tuple[int, list[Round], int]:
    config = directory / "antiphon.toml"
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    serve = ("-m", "antiphon.cli.main", "serve", "--port", "0", "--config", str(config))
    async with process(__file__, "--provide", files=most) as (_, url):
        config.write_text(
            f'default_provider = "slow"\n[log]\nlevel = "error"\n'
            f'[providers.slow]\nkind = "chat"\nbase_url = "{url}"\n'
        )
        async with process(*serve, files=1024, XDG_DATA_HOME=str(directory)) as (pid, own_url):
            port = int(own_url.rsplit(":")[-1].partition("/")[0])
            await play(port, pid, 5)  # so that everything is loaded
            before = rss_kb(pid)
            played = [await play(port, pid, streams) for _ in range(rounds)]
            return before, played, rss_kb(pid)


def report(streams: int, before: int, played: list[Round], after: int) -> tuple[str, bool]:
    per_stream = (max(played[0].rss_kb) - before) / streams
    leak = played[-1].peak_mb / played[0].peak_mb
    rows = "\n".join(
        f"| {number} | {each.completed} of {streams} | {each.first_word_s:.2f} | {each.took_s:.1f}"
        f" | {each.peak_mb:.1f} |"
        for number, each in enumerate(played, 1)
    )
    text = (
        f"{streams} streams at once, {DELTAS} deltas each, one every {PAUSE_S} s"
        f" (at least {DELTAS * PAUSE_S:.0f} s). Memory is the gateway's resident set.\n\n"
        f"| round | completed | last first delta, s | took, s | peak, MB |\n|---|---|---|---|---|\n"
        f"{rows}\n\n"
        f"Before {before / 1024:.1f} MB, after {after / 1024:.1f} MB;"
        f" {per_stream:.0f} kB a stream (limit {LIMIT_KB_PER_STREAM});"
        f" last peak / first peak {leak:.2f} (limit {LIMIT_LEAK}).\n"
    )
    good = (
        all(each.completed == streams for each in played)
        and per_stream < LIMIT_KB_PER_STREAM
        and leak < LIMIT_LEAK
    )
    return text, good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    parser.add_argument("--provide", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two lines a stream
    if args.provide:
        asyncio.run(provide())
        return
    with tempfile.TemporaryDirectory(prefix="antiphon-slow-") as directory:
        found = asyncio.run(run(args.streams, args.rounds, Path(directory)))
    text, good = report(args.streams, *found)
    print(text)
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# Many slow streams\n\n`python bench/slow_streams.py`\n\n{text}")
    sys.exit(0 if good else "The gateway lost streams, or memory is not steady.")


if __name__ == "__main__":
    main()
