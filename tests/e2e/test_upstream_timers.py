"""Upstream timeouts: connect, first token, idle and total."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.config import TimeoutConfig
from tests.support.client_answers import post_request
from tests.support.gateways import running, settings
from tests.support.shared_gateway import UVLOOP, open_shared_gateway
from tests.support.upstream import HELLO, Connection, ReceivedRequest, Script, chunk, frame, usage
from tests.support.waiting import LIMIT_S

ASKED = {"model": "m", "input": "Hello?"}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


# Not there


async def test_a_refused_connection_is_a_502(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    async with running(settings(tmp_path, f"http://127.0.0.1:{port}/v1")) as gateway:
        for stream in (True, False):
            answer = await post_request(gateway, {**ASKED, "stream": stream})
            assert (answer.status, answer.error["code"]) == (502, "server_error")


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port that accepts no connection: its backlog is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            yield address[1]
        finally:
            for each in waiting:
                each.close()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_connection_that_takes_too_long_is_a_504(tmp_path: Path, stream: bool) -> None:
    with full_backlog() as port:
        timeouts = TimeoutConfig(connect_s=0.05)
        config = settings(tmp_path, f"http://127.0.0.1:{port}/v1", timeouts=timeouts)
        async with running(config) as gateway:
            answer = await post_request(gateway, {**ASKED, "stream": stream})
    assert (answer.status, answer.error["code"]) == (504, "server_error")
    assert "in time" in answer.error["message"]


# Timers


def stall_after(*frames: bytes, head: bool = True) -> Script:
    """Send these frames, then nothing until the disconnect."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if head:
            await connection.head()
        for each in frames:
            await connection.send(each)
        await connection.wait_disconnected()

    return script


@pytest.mark.parametrize(
    "script",
    [
        stall_after(head=False),
        stall_after(),
        stall_after(HELLO[0]),
        stall_after(b": working\n\n", b": working\n\n"),
    ],
    ids=["no head", "no byte", "no word", "comments"],
)
async def test_an_upstream_that_does_not_begin_in_time_is_a_504(
    tmp_path: Path, script: Script
) -> None:
    async with open_shared_gateway(tmp_path, timeouts=TimeoutConfig(first_token_s=0.1)) as setup:
        answer = await setup.post_request(script, stream=True)
    assert answer.status == 504
    assert "sent no output" in answer.error["message"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_the_total_timeout_counts_from_the_start_of_the_request(
    tmp_path: Path, stream: bool
) -> None:
    async with open_shared_gateway(tmp_path, timeouts=TimeoutConfig(total_s=0.1)) as setup:
        answer = await setup.post_request(stall_after(), stream=stream)
    assert answer.status == 504
    assert "in the time allowed" in answer.error["message"]


async def test_an_upstream_that_stops_sending_fails_the_response(tmp_path: Path) -> None:
    async with open_shared_gateway(tmp_path, timeouts=TimeoutConfig(idle_s=0.1)) as setup:
        answer = await setup.post_request(stall_after(*HELLO), stream=True)
    assert answer.response["status"] == "failed"
    assert "stopped sending output" in answer.error["message"]
    assert answer.text == "Hello"


def repeat_frame(first: Sequence[bytes], tick: bytes) -> Script:
    """Send the first frames, then repeat one frame forever."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in first:
            await connection.send(each)
        while not connection.is_disconnected:
            await connection.send(tick)
            await connection.pause(0.02)

    return script


async def test_sse_comments_do_not_reset_the_idle_timeout(tmp_path: Path) -> None:
    """A provider that sends only comments is idle."""
    script = repeat_frame(HELLO, b": still here\n\n")
    async with open_shared_gateway(tmp_path, timeouts=TimeoutConfig(idle_s=0.2)) as setup:
        answer = await setup.post_request(script, stream=True)
    assert "stopped sending output" in answer.error["message"]


async def test_an_endless_upstream_is_stopped_at_the_total_timeout(tmp_path: Path) -> None:
    more = chunk({"content": " and"})
    script = repeat_frame((*HELLO, more, more), more)
    async with open_shared_gateway(tmp_path, timeouts=TimeoutConfig(total_s=1.0)) as setup:
        answer = await setup.post_request(script, stream=True)
    assert answer.response["status"] == "failed"
    assert "in the time allowed" in answer.error["message"]
    assert answer.text.startswith("Hello and and")


FINISHED = (*HELLO, chunk({}, "stop"))


async def late_usage(request: ReceivedRequest, connection: Connection) -> None:
    await connection.head()
    for each in FINISHED:
        await connection.send(each)
    await connection.pause(0.1)
    await connection.send(usage())
    await connection.wait_disconnected()


OPEN_CONNECTIONS = (
    stall_after(*FINISHED),
    stall_after(b"".join(FINISHED)),
    repeat_frame(FINISHED, b": still here\n\n"),
    repeat_frame(FINISHED, frame({"choices": []})),
    late_usage,
)


async def test_a_finished_answer_does_not_wait_for_the_connection_to_close(tmp_path: Path) -> None:
    """Usage may follow within a short grace period, which nothing else extends."""
    async with open_shared_gateway(tmp_path) as setup:
        requests = [setup.post_request(script, stream=True) for script in OPEN_CONNECTIONS]
        async with asyncio.timeout(LIMIT_S):  # the idle time is far longer than that
            answers = await asyncio.gather(*requests)
    assert {answer.response["status"] for answer in answers} == {"completed"}
    totals = [answer.response["usage"]["total_tokens"] for answer in answers]
    assert totals[-1] == 10  # the others are estimates
    assert 10 not in totals[:-1]
