"""Keep-alive events during silence, and responses that start before the provider sends output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import TimeoutConfig
from tests.support.client_answers import Answer
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_reader import StreamReader, open_stream
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    send_frames,
    send_json,
    whole_answer,
)
from tests.support.waiting import until

TICK_S = 0.03


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def keep_alive_gateway(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[SharedGateway]:
    """A gateway with a very short keep-alive interval."""
    path = tmp_path_factory.mktemp("chatty")
    async with open_shared_gateway(path, keepalive_s=TICK_S, commit_after_s=TICK_S) as setup:
        yield setup


@pytest.fixture(scope="module")
async def early_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    """A gateway that starts a response at once, before its provider has output."""
    async with open_shared_gateway(
        tmp_path_factory.mktemp("hasty"), commit_after_s=TICK_S
    ) as setup:
        yield setup


class SilentProvider:
    """A script that sends its first part, and its second one when the test releases it."""

    def __init__(self, first: Script | None, second: Script) -> None:
        self._parts = (first, second)
        self.go_on = asyncio.Event()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        first, second = self._parts
        if first is not None:
            await first(request, connection)
        await self.go_on.wait()
        await second(request, connection)


def sending(*frames: bytes, head: bool = False, end: bool = False) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if head:
            await connection.head()
        for each in frames:
            await connection.send(each)
        if end:
            await connection.end()

    return script


@asynccontextmanager
async def open_request(
    setup: SharedGateway, script: Script, **body: Any
) -> AsyncIterator[StreamReader]:
    async with open_stream(setup.gateway.gateway.port) as listener:
        await listener.post(
            {"model": setup.add_script(script), "input": "Hello?", "stream": True, **body}
        )
        yield listener


async def read_until(listener: StreamReader, kind: str, count: int = 1) -> None:
    """Read until this many events of a type have arrived."""
    while count:
        event = await listener.event()
        assert event is not None
        count -= event["type"] == kind


def kinds(answer: Answer) -> list[str]:
    return [event["type"] for event in answer.events]


# Keep-alive


@pytest.mark.parametrize("before", [1, 2, 3, 4])
async def test_keep_alive_events_repeat_the_last_number(
    keep_alive_gateway: SharedGateway, before: int
) -> None:
    """The stream validator checks the numbers of all events."""
    frames = HELLO_WORLD
    rest = sending(*frames[before:], end=True)
    script = SilentProvider(sending(*frames[:before], head=True), rest)
    async with open_request(keep_alive_gateway, script) as listener:
        await read_until(listener, "keepalive", 3)
        script.go_on.set()
        answer = await listener.rest()
    assert kinds(answer).count("keepalive") >= 3
    assert answer.text == "Hello, world"
    numbers = [e["sequence_number"] for e in answer.events if e["type"] != "keepalive"]
    assert numbers == list(range(len(numbers)))


async def test_a_steady_stream_has_no_keep_alive_events(early_gateway: SharedGateway) -> None:
    answer = await early_gateway.post_request(send_frames(HELLO_WORLD), stream=True)
    assert "keepalive" not in kinds(answer)


async def test_no_keep_alive_follows_the_terminal_event(keep_alive_gateway: SharedGateway) -> None:
    """Not even if the client is slow to read the large last event."""
    words = "word " * 500_000
    end = sending(chunk({}, "stop"), DONE, end=True)
    large = SilentProvider(sending(chunk({"content": words}), head=True), end)
    silent = SilentProvider(sending(*HELLO, head=True), end)
    async with (
        open_stream(keep_alive_gateway.gateway.gateway.port, buffer_bytes=2**16) as slow,
        open_request(keep_alive_gateway, silent) as clock,
    ):
        await slow.post(
            {
                "model": keep_alive_gateway.add_script(large),
                "input": "x",
                "stream": True,
                "store": False,
            }
        )
        await read_until(slow, "response.output_text.delta")
        keep_alive_gateway.gateway.log.clear()
        large.go_on.set()
        await until(lambda: keep_alive_gateway.gateway.log, "the large answer has ended")
        await read_until(clock, "keepalive", 3)
        answer = await slow.rest()
        silent.go_on.set()
        await clock.rest()
    assert kinds(answer)[-1] == "response.completed"
    assert answer.text == words


# Begun before the provider


async def start_early(setup: SharedGateway, second: Script, first: Script | None = None) -> Answer:
    """Return an answer that started before its provider sent output."""
    script = SilentProvider(first, second)
    async with open_request(setup, script) as listener:
        await read_until(listener, "response.in_progress")
        script.go_on.set()
        return await listener.rest()


SLOW_STARTS: dict[str, tuple[Script | None, Script]] = {
    "no head": (None, send_frames(HELLO_WORLD)),
    "no byte": (sending(head=True), sending(*HELLO_WORLD, end=True)),
    "no word": (sending(HELLO[0], head=True), sending(*HELLO_WORLD[1:], end=True)),
    "comments": (sending(b": busy\n\n", head=True), sending(*HELLO_WORLD, end=True)),
    "a whole answer": (None, send_json(200, whole_answer("Hello, world"))),
}


@pytest.mark.parametrize("parts", SLOW_STARTS.values(), ids=SLOW_STARTS)
async def test_a_response_may_start_before_its_provider_sends_output(
    early_gateway: SharedGateway, parts: tuple[Script | None, Script]
) -> None:
    first, second = parts
    answer = await start_early(early_gateway, second, first)
    assert answer.text == "Hello, world"
    assert answer.response["status"] == "completed"
    assert kinds(answer)[:3] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]


async def test_a_response_that_started_early_can_be_continued(early_gateway: SharedGateway) -> None:
    """It is stored like any other."""
    answer = await start_early(early_gateway, send_frames(HELLO_WORLD))
    again = await early_gateway.post_request(
        send_frames(HELLO_WORLD), stream=True, previous_response_id=answer.response["id"]
    )
    assert again.response["status"] == "completed"


async def hang_up(request: ReceivedRequest, connection: Connection) -> None:
    connection.cut()


async def reset(request: ReceivedRequest, connection: Connection) -> None:
    connection.reset()


def refusing(status: int) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(status, content_type="application/json", retry_after="2")
        await connection.send(b'{"error": {"message": "No."}}')
        await connection.end()

    return script


LATE_FAILURES: dict[str, tuple[Script | None, Script, str]] = {
    "429": (None, refusing(429), "rate_limit_exceeded"),
    "500": (None, refusing(500), "server_error"),
    "401": (None, refusing(401), "server_error"),
    "413": (None, refusing(413), "context_length_exceeded"),
    "hung up": (None, hang_up, "server_error"),
    "reset": (None, reset, "server_error"),
    "cut before a word": (sending(HELLO[0], head=True), hang_up, "server_error"),
    "ended before a word": (sending(HELLO[0], head=True), sending(end=True), "server_error"),
    "an error in place of words": (
        sending(head=True),
        sending(frame({"error": {"message": "No.", "code": 429}}), end=True),
        "rate_limit_exceeded",
    ),
    "noise": (sending(head=True), sending(b"data: {no\n\n", end=True), "server_error"),
}


@pytest.mark.parametrize("parts", LATE_FAILURES.values(), ids=LATE_FAILURES)
async def test_a_failure_after_the_start_is_reported_inside_the_stream(
    early_gateway: SharedGateway, parts: tuple[Script | None, Script, str]
) -> None:
    first, second, code = parts
    answer = await start_early(early_gateway, second, first)
    assert kinds(answer) == ["response.created", "response.in_progress", "response.failed"]
    assert answer.error["code"] == code


async def test_a_first_token_timeout_is_reported_inside_a_started_stream(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.wait_disconnected()

    timeouts = TimeoutConfig(first_token_s=0.3)
    async with open_shared_gateway(tmp_path, timeouts=timeouts, commit_after_s=TICK_S) as setup:
        answer = await setup.post_request(script, stream=True)
    assert kinds(answer) == ["response.created", "response.in_progress", "response.failed"]
    assert "sent no output" in answer.error["message"]


async def test_a_failure_before_the_start_is_an_http_error(tmp_path: Path) -> None:
    async with open_shared_gateway(tmp_path, commit_after_s=60) as setup:
        answer = await setup.post_request(refusing(429), stream=True)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "2"
