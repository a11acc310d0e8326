"""Faults before the first output are retried without the client noticing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from antiphon import replay
from antiphon.config import AttemptConfig
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_reader import open_stream
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    send_frames,
    send_json,
)
from tests.support.waiting import until

AT_ONCE = AttemptConfig(backoff_s=0.0)
MUCH_LATER = AttemptConfig(backoff_s=50.0, max_backoff_s=50.0)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(
        tmp_path_factory.mktemp("stage"), attempts=AT_ONCE
    ) as shared_gateway:
        yield shared_gateway


class RecoveringProvider:
    """One script for the first request, another one for all that follow."""

    def __init__(self, first: Script, then: Script) -> None:
        self._first = first
        self._then = then
        self.requests = 0

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        self.requests += 1
        await (self._first if self.requests == 1 else self._then)(request, connection)


def disconnect_after(frames: Sequence[bytes], ending: str) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in frames:
            await connection.send(each)
        if ending == "end":
            await connection.end()
        else:
            connection.cut()

    return script


@pytest.mark.parametrize("ending", ["end", "cut"])
async def test_an_upstream_that_breaks_off_before_output_is_retried(
    shared_gateway: SharedGateway, ending: str
) -> None:
    for count in range(len(HELLO_WORLD) + 1):
        script = RecoveringProvider(
            disconnect_after(HELLO_WORLD[:count], ending), send_frames(HELLO_WORLD)
        )
        answer = await shared_gateway.post_request(script, stream=True, store=False)
        has_word = count >= 2
        assert script.requests == (1 if has_word else 2), count
        expected = HELLO_WORLD[:count] if has_word else HELLO_WORLD
        actual = [event["type"] for event in replay(b"".join(expected))]
        assert [event["type"] for event in answer.events] == actual, count


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_persistent_failure_is_reported(
    shared_gateway: SharedGateway, stream: bool
) -> None:
    broken = send_json(500, {"error": {"message": "No."}})
    script = RecoveringProvider(broken, broken)
    answer = await shared_gateway.post_request(script, stream=stream)
    assert answer.status == 503
    assert script.requests > 1
    assert not shared_gateway.gateway.engine.active


async def test_a_started_response_continues_with_the_second_attempt(tmp_path: Path) -> None:
    """The response started during the first attempt; it does not start again."""
    go_on = asyncio.Event()

    async def slow_failure(request: ReceivedRequest, connection: Connection) -> None:
        await go_on.wait()
        await send_json(500, {"error": {"message": "No."}})(request, connection)

    async with (
        open_shared_gateway(tmp_path, attempts=AT_ONCE, commit_after_s=0.03) as shared_gateway,
        open_stream(shared_gateway.gateway.gateway.port) as listener,
    ):
        model = shared_gateway.add_script(
            RecoveringProvider(slow_failure, send_frames(HELLO_WORLD))
        )
        await listener.post({"model": model, "input": "Hello?", "stream": True})
        await listener.event()
        go_on.set()
        answer = await listener.rest()
    assert answer.text == "Hello, world"
    assert answer.response["status"] == "completed"


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "not begun"])
async def test_a_run_waiting_for_its_next_attempt_can_be_stopped(
    tmp_path: Path, begun: bool
) -> None:
    """Shutdown interrupts a run that waits for its next attempt."""
    script = RecoveringProvider(
        send_json(500, {"error": {"message": "No."}}), send_frames(HELLO_WORLD)
    )
    commit_after_s = 0.03 if begun else 60.0
    async with (
        open_shared_gateway(
            tmp_path, attempts=MUCH_LATER, commit_after_s=commit_after_s
        ) as shared_gateway,
        open_stream(shared_gateway.gateway.gateway.port) as listener,
    ):
        await listener.post(
            {"model": shared_gateway.add_script(script), "input": "x", "stream": True}
        )
        if begun:
            await listener.event()
        await until(lambda: shared_gateway.gateway.log, "the first try has failed")
        shared_gateway.gateway.engine.stop_all()
        answer = await listener.rest()
        assert (answer.status, answer.error["code"]) == (200 if begun else 503, "server_error")
        assert "restarting" in answer.error["message"]
        assert not shared_gateway.gateway.engine.active
    assert script.requests == 1


async def test_a_client_may_disconnect_between_attempts(tmp_path: Path) -> None:
    script = RecoveringProvider(
        send_json(500, {"error": {"message": "No."}}), send_frames(HELLO_WORLD)
    )
    async with open_shared_gateway(tmp_path, attempts=MUCH_LATER) as shared_gateway:
        before = asyncio.all_tasks()
        async with open_stream(shared_gateway.gateway.gateway.port) as listener:
            await listener.post(
                {"model": shared_gateway.add_script(script), "input": "x", "stream": True}
            )
            await until(lambda: shared_gateway.gateway.log, "the first try has failed")
            listener.disconnect()
        await until(lambda: not shared_gateway.gateway.engine.active, "the exchange is over")
        await until(
            # The provider's end of the line stays: the gateway keeps it for the next request.
            lambda: len(asyncio.all_tasks() - before) <= shared_gateway.open_connections,
            "no task is left behind",
        )
    assert script.requests == 1


async def test_a_parameter_left_out_on_retry_is_in_the_diagnostics_header(
    shared_gateway: SharedGateway,
) -> None:
    refusal = {"error": {"message": "Unsupported parameter: temperature", "param": "temperature"}}
    script = RecoveringProvider(send_json(400, refusal), send_frames(HELLO_WORLD))
    answer = await shared_gateway.post_request(script, stream=True, temperature=0.5)
    assert answer.response["status"] == "completed"
    assert ":temperature" in answer.headers["antiphon-diagnostics"]
    assert script.requests == 2
