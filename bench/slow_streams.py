"""Load test with many slow concurrent streams: all must complete, and memory must not grow.

A provider in a process of its own sends a word every quarter of a second. All streams are open
before the first one ends. There are several rounds: memory that the last one needs more than the
first is leaked. The gateway starts with a limit of 1,024 open files, as on many systems.

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
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "slow_streams.md"
SOURCE = Path(__file__).resolve().parents[1] / "src"
WORDS, PAUSE_S = 40, 0.25
LIMIT_KB_PER_STREAM = 150
LIMIT_LEAK = 1.10  # peak of the last round / peak of the first round


# The provider


def frame(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "slow", "choices": [choice]}).encode() + b"\n\n"


def encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def stream_words(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
    writer.write(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n")
    for number in range(WORDS):
        writer.write(encode_chunk(frame({"content": f" word{number}"})))
        await writer.drain()
        await asyncio.sleep(PAUSE_S)
    writer.write(encode_chunk(frame({}, "stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n")
    await writer.drain()
    writer.close()


async def run_provider() -> None:
    server = await asyncio.start_server(stream_words, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


# The clients


@dataclass
class Round:
    """Result of one round of concurrent streams."""

    completed: int = 0
    took_s: float = 0.0
    first_word_s: float = 0.0
    rss_kb: list[int] = field(default_factory=list)

    @property
    def peak_mb(self) -> float:
        return max(self.rss_kb) / 1024


async def run_client(port: int, result: Round, began: float) -> None:
    """Run one streaming client; it is counted only if it receives the complete response."""
    body = json.dumps({"model": "slow", "input": "Tell me.", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n")
    writer.write(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
    writer.write(body)
    words, ended = 0, False
    async for line in reader:
        if line.startswith(b"event: response.output_text.delta"):
            words += 1
            if words == 1:
                result.first_word_s = max(result.first_word_s, time.monotonic() - began)
        ended = ended or line.startswith(b"event: response.completed")
    writer.close()
    result.completed += ended and words == WORDS


def rss_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


async def sample_memory(pid: int, result: Round) -> None:
    while True:
        result.rss_kb.append(rss_kb(pid))
        await asyncio.sleep(0.2)


async def run_round(port: int, pid: int, streams: int) -> Round:
    result = Round()
    sampler = asyncio.create_task(sample_memory(pid, result))
    began = time.monotonic()
    await asyncio.gather(*(run_client(port, result, began) for _ in range(streams)))
    result.took_s = time.monotonic() - began
    sampler.cancel()
    return result


# The run


@asynccontextmanager
async def process(*args: str, files: int, **more: str) -> AsyncIterator[tuple[int, str]]:
    """Start a Python process; yield its id and the URL in its first line of output."""
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
            await run_round(port, pid, 5)  # warm-up: imports and caches
            before = rss_kb(pid)
            results = [await run_round(port, pid, streams) for _ in range(rounds)]
            return before, results, rss_kb(pid)


def report(streams: int, before: int, results: list[Round], after: int) -> tuple[str, bool]:
    per_stream = (max(results[0].rss_kb) - before) / streams
    leak = results[-1].peak_mb / results[0].peak_mb
    rows = "\n".join(
        f"| {number} | {each.completed} of {streams} | {each.first_word_s:.2f} | {each.took_s:.1f}"
        f" | {each.peak_mb:.1f} |"
        for number, each in enumerate(results, 1)
    )
    text = (
        f"{streams} streams at once, {WORDS} words each, one every {PAUSE_S} s"
        f" (at least {WORDS * PAUSE_S:.0f} s). Memory is the gateway's resident set.\n\n"
        f"| round | completed | latest first word, s | took, s | peak, MB |\n"
        f"|---|---|---|---|---|\n"
        f"{rows}\n\n"
        f"Before {before / 1024:.1f} MB, after {after / 1024:.1f} MB;"
        f" {per_stream:.0f} kB per stream (limit {LIMIT_KB_PER_STREAM});"
        f" last peak / first peak {leak:.2f} (limit {LIMIT_LEAK}).\n"
    )
    is_good = (
        all(each.completed == streams for each in results)
        and per_stream < LIMIT_KB_PER_STREAM
        and leak < LIMIT_LEAK
    )
    return text, is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write the table to {RESULTS.name}")
    parser.add_argument("--provide", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two sockets per stream
    if args.provide:
        asyncio.run(run_provider())
        return
    with tempfile.TemporaryDirectory(prefix="antiphon-slow-") as directory:
        found = asyncio.run(run(args.streams, args.rounds, Path(directory)))
    text, is_good = report(args.streams, *found)
    print(text)
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(
            f"# Many slow concurrent streams\n\n`python bench/slow_streams.py`\n\n{text}"
        )
    sys.exit(0 if is_good else "FAILED: streams were lost, or memory exceeds its limits.")


if __name__ == "__main__":
    main()
