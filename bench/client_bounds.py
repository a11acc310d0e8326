"""What one client can take of the gateway: restored history, unknown fields, bursts against limits,
the background queue, and readers that stop.

Each case starts a gateway in a process of its own, with a provider in another one. `/health` is
requested every 10 ms at the same time. `--before` measures another checkout as well:

    git worktree add /tmp/before 491a446
    python bench/client_bounds.py --before /tmp/before/src --write
    python bench/client_bounds.py --only 'readers'       only the cases whose names contain this

`--write` puts the table into results/bounds.md.

A case that needs Redis starts `redis-server`; without that program it is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

RESULTS = Path(__file__).parent / "results" / "bounds.md"
SOURCE = Path(__file__).resolve().parents[1] / "src"
HEADING = "## What one client can take"
PROBE_S = 0.01
MEGABYTE = 1024 * 1024
TURNS, TURN_BYTES = 15, 9 * MEGABYTE
FIELDS = 480_000
BURST, PER_MINUTE = 200, 60
QUEUED, WAIT_S = 400, 40.0
READERS, READ_BYTES = 40, 3 * MEGABYTE
LONG = "three megabytes"
SLOW = "half a second"
KEYS = {"alice": "key-of-alice-0123456789", "bob": "key-of-bob-0123456789"}


# The provider


def frame(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "m", "choices": [choice]}).encode() + b"\n\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stream a word, or 3 MB of text, or a word after half a second: as the prompt asks for."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    left = int(length[1]) if length else 0
    tail = b""
    while left:
        piece = await reader.read(min(left, MEGABYTE))
        left -= len(piece)
        tail = (tail + piece)[-4096:]
    with suppress(ConnectionError):
        if SLOW.encode() in tail:
            await asyncio.sleep(0.5)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"connection: close\r\n\r\n")
        for _ in range(READ_BYTES // 4096 if LONG.encode() in tail else 1):
            writer.write(frame("word " * 819))
            await writer.drain()
        writer.write(frame("", "stop") + b"data: [DONE]\n\n")
        await writer.drain()
    writer.close()


async def provide() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


# Processes


@asynccontextmanager
async def process(*args: str, source: Path, log: Path, **more: str) -> AsyncIterator[Any]:
    """A process of ours, with the URL that its first line names."""
    with log.open("ab") as errors:
        running = await asyncio.create_subprocess_exec(
            sys.executable,
            *args,
            env={**os.environ, "PYTHONPATH": str(source), **more},
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
        assert running.stdout is not None
        try:
            line = (await asyncio.wait_for(running.stdout.readline(), 60)).decode()
            found = re.search(r"http://[\w.]+:\d+\S*", line)
            assert found, f"it has not started; see {log}"
            yield running.pid, found[0].rstrip("/")
        finally:
            running.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(running.wait(), 5)
            if running.returncode is None:
                running.kill()


@asynccontextmanager
async def redis(place: Path) -> AsyncIterator[str]:
    socket = place / "redis.sock"
    args = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(place))
    running = await asyncio.create_subprocess_exec(
        "redis-server", *args, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        while not socket.exists():  # noqa: ASYNC110  # a file sends no event
            await asyncio.sleep(0.05)
        yield f"unix://{socket}"
    finally:
        running.terminate()
        await running.wait()


def memory_mb(pid: int, name: str = "VmHWM") -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Cases


@dataclass
class Bench:
    """One case: the checkout it measures, its directory, and what was found."""

    source: Path
    place: Path
    provider: str
    facts: list[str] = field(default_factory=list)
    stalls_ms: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def gateway(self, settings: str = "", *args: str) -> AsyncIterator[tuple[int, Any]]:
        """A gateway, with a session whose paths begin at its origin."""
        config = self.place / "antiphon.toml"
        keys = ", ".join(f'{name} = "{key}"' for name, key in KEYS.items())
        config.write_text(
            'default_provider = "up"\n[server]\nport = 0\napi_keys = { ' + keys + " }\n"
            f'[log]\nlevel = "info"\n[providers.up]\nkind = "chat"\nbase_url = "{self.provider}"\n'
            f'api_keys = ["sk-x"]\n{settings}'
        )
        command = ("-m", "antiphon.cli.main", "serve", "--config", str(config), *args)
        log = self.place / "gateway.log"
        data = {"XDG_DATA_HOME": str(self.place)}
        async with process(*command, source=self.source, log=log, **data) as (pid, url):
            origin = re.match(r"http://[^/]+", url)
            assert origin
            unlimited = aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(total=600)
            async with aiohttp.ClientSession(
                origin[0], connector=unlimited, timeout=timeout, read_bufsize=4096
            ) as session:
                yield pid, session

    @asynccontextmanager
    async def probing(self, session: Any) -> AsyncIterator[None]:
        """Request `/health` regularly; a probe that waits does not delay the next one."""
        probes: set[asyncio.Task[None]] = set()

        async def probe() -> None:
            began = time.monotonic()
            async with session.get("/health"):
                self.stalls_ms.append((time.monotonic() - began) * 1000)

        async def repeat() -> None:
            while True:
                probes.add(asyncio.create_task(probe()))
                await asyncio.sleep(PROBE_S)

        task = asyncio.create_task(repeat())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, *probes, return_exceptions=True)

    def note(self, **facts: float | str) -> None:
        for name, value in facts.items():
            shown = value if isinstance(value, str) else f"{value:,.1f}".removesuffix(".0")
            self.facts.append(f"{name.replace('_', ' ')} {shown}")

    def note_process(self, pid: int, before_s: float) -> None:
        self.note(
            peak_MB=round(memory_mb(pid)),
            CPU_s=cpu_s(pid) - before_s,
            longest_stall_ms=round(max(self.stalls_ms, default=0)),
        )


def by(client: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[client]}"}


async def create(session: Any, client: str = "alice", **request: Any) -> tuple[int, Any]:
    body = {"model": "up/m", "input": "Hello", **request}
    async with session.post("/v1/responses", json=body, headers=by(client)) as response:
        return response.status, await response.json()


async def restore_history(bench: Bench) -> None:
    """A request of 200 bytes that continues turns of 9 MB each."""
    last: dict[str, str] = {}
    accepted = 0
    async with bench.gateway() as (_, session):
        for _ in range(TURNS):
            status, document = await create(session, input="x" * TURN_BYTES, **last)
            accepted += status == 200
            if status == 200:
                last = {"previous_response_id": document["id"]}
    async with bench.gateway() as (pid, session):
        before_s = cpu_s(pid)
        async with bench.probing(session):
            status, _ = await create(session, **last)
        bench.note(turns=accepted, status=status)
        bench.note_process(pid, before_s)


async def unknown_fields(bench: Bench) -> None:
    """480,000 unknown fields, about 1 MB as gzip."""
    fields = {f"unknown_{number}": 1 for number in range(FIELDS)}
    body = gzip.compress(json.dumps({"model": "up/m", "input": "Hello", **fields}).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip", **by("alice")}
    async with bench.gateway() as (pid, session):
        before_s = cpu_s(pid)
        async with bench.probing(session):
            async with session.post("/v1/responses", data=body, headers=headers) as response:
                bench.note(status=response.status)
                await response.read()
            await asyncio.sleep(0.5)
        bench.note_process(pid, before_s)
        bench.note(log_kB=round((bench.place / "gateway.log").stat().st_size / 1024))


async def burst(bench: Bench, settings: str, *args: str) -> None:
    """200 requests at once where 60 a minute may pass."""
    limit = f"[limits.alice]\nrequests_per_minute = {PER_MINUTE}\n"
    async with bench.gateway(limit + settings, *args) as (_, session):
        await asyncio.sleep(max(0.0, 10 - time.time() % 60))  # a minute that does not end now
        found = await asyncio.gather(*(create(session) for _ in range(BURST)))
        statuses = [status for status, _ in found]
        bench.note(admitted=statuses.count(200), refused=statuses.count(429), limit=PER_MINUTE)


async def burst_of_workers(bench: Bench) -> None:
    await burst(bench, "", "--workers", "2")


async def burst_with_redis(bench: Bench) -> None:
    async with redis(bench.place) as url:
        await burst(bench, f'[shared]\nurl = "{url}"\n')


async def background_queue(bench: Bench, places: int = 4) -> None:
    """Another client behind 400 queued responses, of which so many at a time take half a second
    each."""
    async with bench.gateway(f"[background]\nmax_running = {places}\n") as (_, session):
        for _ in range(QUEUED // 40):
            await asyncio.gather(*(create(session, input=SLOW, background=True) for _ in range(40)))
        began = time.monotonic()
        _, document = await create(session, "bob", input=SLOW, background=True)
        while document["status"] in ("queued", "in_progress"):
            if time.monotonic() - began > WAIT_S:
                break
            await asyncio.sleep(0.1)
            path = f"/v1/responses/{document['id']}"
            async with session.get(path, headers=by("bob")) as response:
                document = await response.json()
        bench.note(waited_s=time.monotonic() - began, status=document["status"])


async def single_place(bench: Bench) -> None:
    await background_queue(bench, places=1)


async def lost_readers(bench: Bench) -> None:
    """40 streams of 3 MB whose readers stop reading, and leave two seconds later."""
    async with bench.gateway() as (pid, session):
        await create(session)
        idle_mb, before_s = memory_mb(pid, "VmRSS"), cpu_s(pid)

        async def read_and_leave() -> None:
            body = {"model": "up/m", "input": LONG, "stream": True}
            async with session.post("/v1/responses", json=body, headers=by("alice")) as response:
                await response.content.readany()
                await asyncio.sleep(2)
                response.close()

        async with bench.probing(session):
            await asyncio.gather(*(read_and_leave() for _ in range(READERS)))
            await asyncio.sleep(6)
        bench.note(idle_MB=round(idle_mb))
        bench.note_process(pid, before_s)


CASES: dict[str, Callable[[Bench], Awaitable[None]]] = {
    "a history of 15 turns of 9 MB, continued by one request": restore_history,
    "480,000 unknown fields": unknown_fields,
    "200 requests at once, 2 workers": burst_of_workers,
    "200 requests at once, Redis": burst_with_redis,
    "another client behind a background queue of 400": background_queue,
    "another client behind a background queue of 400, a single place": single_place,
    "40 readers of 3 MB that stop and leave": lost_readers,
}


async def measure(source: Path, case: Callable[[Bench], Awaitable[None]]) -> str:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        args = (__file__, "--provide")
        async with process(*args, source=source, log=place / "provider.log") as (_, provider):
            bench = Bench(source, place, provider)
            await case(bench)
    return ", ".join(bench.facts)


async def run(sources: list[Path], only: str) -> list[str]:
    rows: list[str] = []
    for name, case in CASES.items():
        if only not in name or (case is burst_with_redis and shutil.which("redis-server") is None):
            continue
        found = [await measure(source, case) for source in sources]
        rows.append(f"| {' | '.join([name, *found])} |")
        print(rows[-1], flush=True)
    return rows


def table(rows: list[str], names: list[str]) -> str:
    return "\n".join(
        [
            HEADING,
            "",
            "`python bench/client_bounds.py --before /tmp/before/src --write`: one client against a"
            " gateway of its own, with `/health` requested every 10 ms. The longest of these"
            " requests is the longest stall. Before: commit 491a446.",
            "",
            f"| {' | '.join(['case', *names])} |",
            "|---" * (1 + len(names)) + "|",
            *rows,
            "",
        ]
    )


def write(text: str) -> None:
    """Replace the section in the file of results; other sections stay."""
    before, _, rest = RESULTS.read_text().partition(HEADING)
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    RESULTS.write_text(f"{before.rstrip()}\n\n{text}" + (f"\n{after}" if after else ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--provide", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--before", type=Path, help="the src directory of another checkout")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.provide:
        asyncio.run(provide())
        return 0
    before = options.before and options.before.resolve()
    rows = asyncio.run(run([before, SOURCE] if before else [SOURCE], options.only))
    if options.write:
        write(table(rows, ["before", "now"] if before else ["now"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
