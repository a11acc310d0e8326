"""SIGTERM: answers may finish until the deadline; the others get a terminal event."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.client_answers import Answer, check_error_answer
from tests.support.commands import COMMAND, environment
from tests.support.stream_reader import StreamReader, open_stream
from tests.support.upstream import HELLO, HELLO_WORLD, Connection, ReceivedRequest, chunk, upstream
from tests.support.waiting import until

PATIENCE_S = 60.0


@dataclass
class Process:
    """A gateway in a subprocess."""

    process: asyncio.subprocess.Process
    port: int

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    async def stopping(self) -> None:
        """Wait until the log says that the signal has arrived."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while b"gateway.stopping" not in await self.process.stderr.readline():
                pass


@asynccontextmanager
async def serving(home: Path, url: str, *, shutdown_s: float) -> AsyncIterator[Process]:
    config = home / "antiphon.toml"
    config.write_text(
        f"""
        default_provider = "up"
        [server]
        shutdown_s = {shutdown_s}
        commit_after_s = 0.2
        [providers.up]
        kind = "chat"
        base_url = "{url}"
        api_keys = ["sk-upstream"]
        [log]
        format = "json"
        """
    )
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "serve",
        "--port",
        "0",
        "--config",
        str(config),
        env=environment(home, XDG_DATA_HOME=str(home / "data")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        found = re.search(rb":(\d+)/v1", line)
        assert found, line
        yield Process(process, int(found[1]))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def body(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "input": "Hello?", "stream": True, **more}


class Provider:
    """Sends the first output at once, and the rest when the test releases it."""

    def __init__(self) -> None:
        self.resume = asyncio.Event()
        self.gone = 0

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        if request.body["model"] == "no-head":
            await connection.wait_disconnected()
        else:
            await connection.head()
            if request.body["model"] != "no-word":
                for each in HELLO:
                    await connection.send(each)
            await self._wait(connection)
        self.gone += connection.is_disconnected

    async def _wait(self, connection: Connection) -> None:
        """Wait for the end or for a disconnect, whichever is first."""
        resumed = asyncio.ensure_future(self.resume.wait())
        left = asyncio.ensure_future(connection.wait_disconnected())
        await asyncio.wait([resumed, left], return_when=asyncio.FIRST_COMPLETED)
        if resumed.done():
            for each in HELLO_WORLD[2:]:
                await connection.send(each)
            await connection.end()
        for waiting in (resumed, left):
            waiting.cancel()
        await asyncio.wait([resumed, left])


async def first_words(listener: StreamReader) -> None:
    while (event := await listener.event()) is not None:
        if event["type"] == "response.output_text.delta":
            return
    raise AssertionError("no words came")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_gateway_stops_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async with serving(tmp_path, "http://127.0.0.1:1/v1", shutdown_s=600) as gateway:
        gateway.terminate(number)
        assert await gateway.exit_code() == 0


async def test_during_shutdown_streams_finish_and_new_requests_are_rejected(tmp_path: Path) -> None:
    provider = Provider()
    async with (
        upstream(provider) as server,
        serving(tmp_path, server.url, shutdown_s=600) as gateway,
        open_stream(gateway.port) as stream,
        open_stream(gateway.port) as silent,
        aiohttp.ClientSession(f"http://127.0.0.1:{gateway.port}") as known,
    ):
        await stream.post(body("m"))
        await silent.post(body("m", stream=False))
        await first_words(stream)
        await until(lambda: len(server.requests) == 2, "both have begun")
        assert (await known.get("/health/ready")).status == 200
        gateway.terminate()
        await gateway.stopping()

        async with known.get("/health/ready") as ready:
            assert (ready.status, await ready.json()) == (503, {"status": "shutting down"})
        async with known.get("/health/live") as live:
            assert (live.status, (await live.json())["ready"]) == (200, False)
        async with known.post("/v1/responses", json=body("m")) as refused:
            answer = Answer(refused.status, refused.headers, await refused.read())
            check_error_answer(answer)
            assert (answer.status, refused.headers["connection"]) == (503, "close")
        with pytest.raises(aiohttp.ClientConnectorError):
            await known.get("/health/ready")  # on a new line: the old one was closed
        assert gateway.process.returncode is None

        provider.resume.set()
        streamed, whole = await stream.rest(), await silent.rest()
        assert streamed.response["status"] == whole.response["status"] == "completed"
        assert await gateway.exit_code() == 0


async def test_at_the_shutdown_deadline_every_stream_gets_a_terminal_event(tmp_path: Path) -> None:
    """A request without any event yet gets an error."""
    models = {"m": 3, "no-word": 2, "no-head": 2}
    provider = Provider()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(upstream(provider))
        gateway = await stack.enter_async_context(serving(tmp_path, server.url, shutdown_s=0.5))

        async def come(model: str, stream: bool) -> StreamReader:
            listener = await stack.enter_async_context(open_stream(gateway.port))
            await listener.post(body(model, stream=stream))
            return listener

        streams = [await come(model, True) for model, count in models.items() for _ in range(count)]
        wholes = [await come(model, False) for model in models]
        for listener in streams:  # each has begun, if only because its upstream is slow
            await listener.event()
        await until(lambda: len(server.requests) == len(streams) + len(wholes), "all were asked")
        gateway.terminate()
        answers = [await listener.rest() for listener in streams]
        refusals = [await listener.rest() for listener in wholes]
        assert await gateway.exit_code() == 0
        await until(lambda: provider.gone == len(server.requests), "all upstreams were closed")
    assert {answer.response["status"] for answer in answers} == {"failed"}
    assert {answer.error["code"] for answer in answers} == {"server_error"}
    assert {answer.status for answer in refusals} == {503}


async def test_turns_finished_before_shutdown_are_stored(tmp_path: Path) -> None:
    provider = Provider()
    provider.resume.set()
    async with upstream(provider) as server:
        async with (
            serving(tmp_path, server.url, shutdown_s=5) as gateway,
            open_stream(gateway.port) as stream,
        ):
            await stream.post(body("m"))
            first = await stream.rest()
            gateway.terminate()
            assert await gateway.exit_code() == 0
        async with (
            serving(tmp_path, server.url, shutdown_s=5) as gateway,
            open_stream(gateway.port) as stream,
        ):
            await stream.post(body("m", previous_response_id=first.response["id"]))
            second = await stream.rest()
    assert second.response["status"] == "completed"
    assert [message["role"] for message in server.requests[-1].body["messages"]] == [
        "user",
        "assistant",
        "user",
    ]


async def test_a_client_that_does_not_read_does_not_delay_shutdown(tmp_path: Path) -> None:
    """Its terminal event cannot be delivered; the process exits anyway."""

    async def flood(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        while not connection.is_disconnected:
            await connection.send(chunk({"content": "word " * 20_000}))

    async with (
        upstream(flood) as server,
        serving(tmp_path, server.url, shutdown_s=0.1) as gateway,
        open_stream(gateway.port, buffer_bytes=4096) as stream,
    ):
        await stream.post(body("m"))
        await first_words(stream)
        gateway.terminate()
        assert await gateway.exit_code() == 0
