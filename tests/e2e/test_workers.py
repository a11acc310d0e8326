"""`antiphon serve --workers 2`: one port, one store, one log; workers are replaced without a cut.

Connections are divided by the kernel: what must hold in any worker is asked on many of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.commands import COMMAND, environment
from tests.support.gateways import events_of
from tests.support.prometheus_tools import scrape_sums
from tests.support.stream_reader import StreamReader, open_stream
from tests.support.upstream import HELLO, HELLO_WORLD, Connection, ReceivedRequest, upstream
from tests.support.waiting import until, until_async

PATIENCE_S = 60.0
MANY = 8


@dataclass
class Workers:
    """The parent of two workers."""

    process: asyncio.subprocess.Process
    port: int
    config: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/responses"

    def list_pids(self) -> list[int]:
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(each) for each in children.split()]

    async def logged(self, event: str) -> dict[str, Any]:
        """Read the log up to the next entry of this name."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := await self.process.stderr.readline():
                entry: dict[str, Any] = json.loads(line)
                if entry["event"] == event:
                    return entry
        raise AssertionError(f"no entry {event}")

    def write(self, url: str, *, more: str = "", **aliases: str) -> None:
        models = "".join(f'{name} = "{target}"\n' for name, target in aliases.items())
        self.config.write_text(
            f'[providers.up]\nkind = "chat"\nbase_url = "{url}"\napi_keys = ["sk-upstream"]\n'
            f'[server]\nshutdown_s = 120\n[log]\nformat = "json"\n{more}\n[models]\n{models}'
        )


@asynccontextmanager
async def two_workers(home: Path, url: str, more: str = "") -> AsyncIterator[Workers]:
    workers = Workers(None, 0, home / "antiphon.toml")  # type: ignore[arg-type]
    workers.write(url, more=more)
    workers.process = process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("serve", "--port", "0", "--workers", "2", "--config", str(workers.config)),
        env=environment(home, XDG_DATA_HOME=str(home / "data")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    assert process.stdout is not None
    try:
        found = re.search(rb":(\d+)/v1", await process.stdout.readline())
        assert found
        workers.port = int(found[1])
        yield workers
        process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            await process.communicate()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


class HeldProvider:
    """Sends the first output at once, and the rest when the test releases it."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.calls = 0

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        self.calls += 1
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        left = asyncio.ensure_future(connection.wait_disconnected())
        released = asyncio.ensure_future(self.release.wait())
        await asyncio.wait([left, released], return_when=asyncio.FIRST_COMPLETED)
        for waiting in (left, released):
            waiting.cancel()
        await asyncio.wait([left, released])
        if not connection.is_disconnected:
            for each in HELLO_WORLD[len(HELLO) :]:
                await connection.send(each)
            await connection.end()


def body(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "input": "Hello?", **more}


async def ask(workers: Workers, **more: Any) -> dict[str, Any]:
    """Make a request on a connection of its own."""
    async with aiohttp.ClientSession() as client, client.post(workers.url, json=more) as response:
        document: dict[str, Any] = await response.json()
        assert response.status == 200, document
        return document


async def begin_stream(stack: AsyncExitStack, workers: Workers) -> StreamReader:
    stream = await stack.enter_async_context(open_stream(workers.port))
    await stream.post(body("up/m", stream=True))
    while (event := await stream.event()) is not None:
        if event["type"] == "response.output_text.delta":
            return stream
    raise AssertionError("no words came")


async def test_workers_share_the_store_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    async with two_workers(tmp_path, "http://127.0.0.1:1/v1") as workers:
        first = await ask(workers, **body("echo/echo"))
        chained = [
            await ask(workers, **body("echo/echo"), previous_response_id=first["id"])
            for _ in range(MANY)
        ]
        assert {each["status"] for each in chained} == {"completed"}
        os.kill(workers.list_pids()[0], signal.SIGKILL)
        died = await workers.logged("worker.died")
        assert died["reason"] == "was ended by SIGKILL"
        again = [await ask(workers, **body("echo/echo")) for _ in range(MANY)]
        assert {each["status"] for each in again} == {"completed"}
        await until(lambda: len(workers.list_pids()) == 2, "the dead one is replaced")


async def test_each_worker_answers_with_the_metrics_of_all(tmp_path: Path) -> None:
    async with two_workers(tmp_path, "http://127.0.0.1:1/v1") as workers:
        for _ in range(MANY):
            await ask(workers, **body("echo/echo"))
        await until_async(lambda: _count_requests(workers, MANY), "every worker has counted")
        os.kill(workers.list_pids()[0], signal.SIGKILL)
        await workers.logged("worker.died")
        for _ in range(MANY):
            await ask(workers, **body("echo/echo"))
        await until_async(lambda: _count_requests(workers, 2 * MANY), "nothing counted is lost")
        assert len(workers.list_pids()) == 2


async def _count_requests(workers: Workers, number: int) -> bool:
    """Whether so many requests are counted, whichever worker is asked."""
    sums: list[dict[str, float]] = []
    for _ in range(MANY):
        async with aiohttp.ClientSession() as client:  # a connection of its own
            sums.append(await scrape_sums(client, f"http://127.0.0.1:{workers.port}"))
    assert all(each["antiphon_running_streams"] == 0 for each in sums)
    return all(each.get("antiphon_requests_total") == number for each in sums)


async def test_a_background_response_is_followed_and_cancelled_in_any_worker(
    tmp_path: Path,
) -> None:
    provider = HeldProvider()
    async with (
        upstream(provider) as server,
        two_workers(tmp_path, server.url) as workers,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client,
    ):
        kept = await _begin_background(client, workers)
        cancelled = await ask(workers, **body("up/m", background=True))
        await until(lambda: provider.calls == 2, "both responses have begun")

        async def follow(after: int) -> list[dict[str, Any]]:
            query = f"?stream=true&starting_after={after}"
            async with client.get(f"{workers.url}/{kept['id']}{query}") as response:
                return events_of(await response.read())

        tails = [asyncio.create_task(follow(0)) for _ in range(MANY)]
        for _ in range(MANY):
            async with client.post(f"{workers.url}/{cancelled['id']}/cancel") as response:
                assert (response.status, (await response.json())["status"]) == (200, "cancelled")
        provider.release.set()
        async with asyncio.timeout(PATIENCE_S):
            events = await asyncio.gather(*tails)
        assert all(each == events[0] for each in events)
        numbers = [event["sequence_number"] for event in events[0]]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert events[0][-1]["type"] == "response.completed"
        assert provider.calls == 2


async def test_a_worker_has_its_parent_reload_a_valid_file(tmp_path: Path) -> None:
    async with two_workers(tmp_path, "http://127.0.0.1:1/v1") as workers:
        workers.write("http://127.0.0.1:1/v1", fresh="nobody/m")
        status, answer = await _reload(workers)
        assert (status, answer["error"]["code"]) == (400, "invalid_configuration")
        assert "antiphon.toml:" in answer["error"]["message"]
        before = {*workers.list_pids()}
        workers.write("http://127.0.0.1:1/v1", fresh="echo/echo")
        status, answer = await _reload(workers)
        assert (status, answer["replaces_workers"]) == (200, True)
        assert (await workers.logged("config.reloaded"))["workers"] == 2
        await until(lambda: before.isdisjoint(workers.list_pids()), "all workers are new")
        assert (await ask(workers, **body("fresh")))["status"] == "completed"


async def _reload(workers: Workers) -> tuple[int, dict[str, Any]]:
    digest = hashlib.sha256(workers.config.read_bytes()).hexdigest()
    url = f"http://127.0.0.1:{workers.port}/admin/reload"
    async with (
        aiohttp.ClientSession() as client,
        client.post(url, json={"sha256": digest}) as response,
    ):
        return response.status, await response.json()


async def _begin_background(client: aiohttp.ClientSession, workers: Workers) -> dict[str, Any]:
    """Begin a streamed background response, and leave it after its first event."""
    request = body("up/m", background=True, stream=True)
    async with client.post(workers.url, json=request) as response:
        line = await response.content.readuntil(b"\n\n")
        created: dict[str, Any] = events_of(line)[0]["response"]
        return created


async def test_a_hangup_replaces_the_workers_and_cuts_no_stream(tmp_path: Path) -> None:
    provider = HeldProvider()
    async with upstream(provider) as server, AsyncExitStack() as stack:
        workers = await stack.enter_async_context(two_workers(tmp_path, server.url))
        streams = [await begin_stream(stack, workers) for _ in range(4)]
        known = [await stack.enter_async_context(open_stream(workers.port)) for _ in range(4)]

        workers.config.write_text("[models\n")
        workers.process.send_signal(signal.SIGHUP)
        failed = await workers.logged("config.reload_failed")
        assert "antiphon.toml" in failed["reason"]

        workers.write(server.url, fresh="echo/echo")
        workers.process.send_signal(signal.SIGHUP)
        await workers.logged("config.reloaded")
        fresh = [await ask(workers, **body("fresh")) for _ in range(MANY)]
        assert {each["model"] for each in fresh} == {"fresh"}
        for each in known:  # opened before, and still served
            await each.post(body("echo/echo"))
            assert (await each.rest()).response["status"] == "completed"
        provider.release.set()
        for stream in streams:
            assert (await stream.rest()).response["status"] == "completed"


async def test_a_limit_is_one_for_all_workers(tmp_path: Path) -> None:
    limits = "[limits.local]\nrequests_per_minute = 20"

    async def ask(url: str) -> int:
        async with (
            aiohttp.ClientSession() as client,  # a connection of its own, to either worker
            client.post(url, json=body("echo/echo")) as response,
        ):
            return response.status

    async with two_workers(tmp_path, "http://127.0.0.1:9/v1", limits) as workers:
        statuses = await asyncio.gather(*(ask(workers.url) for _ in range(60)))
    assert sorted(statuses) == [200] * 20 + [429] * 40
