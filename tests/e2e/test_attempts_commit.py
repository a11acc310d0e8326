"""Attempts end with the first output; disconnects and shutdown interrupt them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.config import TimeoutConfig
from tests.support.client_answers import Answer
from tests.support.failing_providers import (
    NO_FALLBACKS,
    STREAMED_AND_WHOLE,
    A,
    B,
    Clock,
    FailoverGateway,
    error,
    failover_gateway,
    read_attempts,
)
from tests.support.shared_gateway import UVLOOP
from tests.support.stream_reader import StreamReader, open_stream
from tests.support.traces import read_trace
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    send_frames,
    usage,
)
from tests.support.waiting import until

CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}
ASKED = {"model": "one/m", "input": "Hello?", "stream": True}
ROLE = chunk({"role": "assistant", "content": ""})


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def cut_after(*frames: bytes) -> Script:
    """Send these frames, then close the connection."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in frames:
            await connection.send(each)
        connection.cut()

    return script


# The commit point


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(chunk({"content": "Hel"}), id="text"),
        pytest.param(chunk({"reasoning_content": "Hm"}), id="thought"),
        pytest.param(chunk({"refusal": "No"}), id="refusal"),
        pytest.param(chunk({"tool_calls": [CALL]}), id="call"),
    ],
)
@pytest.mark.parametrize(
    "last", [b"", frame({"error": {"message": "No.", "code": 503}}), b"data: {broken\n\n"]
)
async def test_nothing_is_retried_after_the_first_output(
    tmp_path: Path, word: bytes, last: bytes
) -> None:
    async with failover_gateway(tmp_path, [cut_after(ROLE, word, *filter(None, [last]))]) as setup:
        answer = await setup.post_request(stream=True)
        assert setup.new_calls == [A]
    assert answer.response["status"] == "failed"
    assert [event["type"] for event in answer.events].count("response.created") == 1


@pytest.mark.parametrize(
    "silence",
    [
        pytest.param(ROLE, id="a role"),
        pytest.param(b": keep-alive\n\n", id="a comment"),
        pytest.param(usage(), id="a count"),
        pytest.param(frame({"id": "c1", "choices": []}), id="nothing"),
    ],
)
async def test_empty_deltas_are_not_output(tmp_path: Path, silence: bytes) -> None:
    async with failover_gateway(tmp_path, [cut_after(silence)]) as setup:
        answer = await setup.post_request(stream=True)
        assert (answer.text, setup.new_calls) == ("Hello, world", [A, A])
    assert answer.response["usage"]["total_tokens"] == 10


async def test_the_trace_has_only_the_bytes_of_the_successful_attempt(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [cut_after(ROLE, usage(999))], payloads=True) as setup:
        answer = await setup.post_request(stream=True)
    detail = read_trace(setup.trace, answer.headers["x-request-id"])
    raw = {stream.kind: stream.blob for stream in detail.streams}["raw"]
    assert raw == b"".join(HELLO_WORLD)


@STREAMED_AND_WHOLE
async def test_a_first_token_timeout_falls_back_to_the_next_provider(
    tmp_path: Path, stream: bool
) -> None:
    async def silent(request: ReceivedRequest, connection: Connection) -> None:
        await connection.wait_disconnected()

    timeouts = TimeoutConfig(first_token_s=0.05, total_s=60.0 if stream else 0.05)
    async with failover_gateway(tmp_path, [silent] * 2, timeouts={"one": timeouts}) as setup:
        answer = await setup.post_request(stream=stream)
        assert answer.text == "Hello, world"
    tried = [(provider, fault) for _, provider, _, fault in read_attempts(setup, answer)]
    again = [("one", "timeout")] * (2 if stream else 1)  # all of its time is all of its time
    assert tried == [*again, ("two", None)]


# A client that was told of the beginning


class SlowProvider:
    """Waits until the test releases it, then runs a script."""

    def __init__(self, script: Script) -> None:
        self.resume = asyncio.Event()
        self._script = script

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        await self.resume.wait()
        await self._script(request, connection)


async def answer_started_early(listener: StreamReader, slow: SlowProvider) -> Answer:
    """Return the answer to a request that started early and then failed."""
    await listener.post(ASKED)
    event = await listener.event()
    assert event is not None
    slow.resume.set()
    return await listener.rest()


@pytest.mark.parametrize(
    ("script", "names"),
    [
        pytest.param(error(500), ["one", "one"], id="again"),
        pytest.param(error(401), ["one", "one"], id="another key"),
        pytest.param(error(404, code="model_not_found"), ["one", "two"], id="another provider"),
        pytest.param(send_frames([ROLE]), ["one", "one"], id="after a start without a word"),
    ],
)
async def test_a_started_response_continues_with_the_next_attempt(
    tmp_path: Path, script: Script, names: list[str]
) -> None:
    slow = SlowProvider(script)
    async with (
        failover_gateway(tmp_path, [slow], commit_after_s=0.02) as setup,
        open_stream(setup.gateway.gateway.port) as listener,
    ):
        answer = await answer_started_early(listener, slow)
        assert [name for name, _ in setup.new_calls] == names
    types = [event["type"] for event in answer.events]
    assert types[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert types.count("response.created") == types.count("response.completed") == 1
    assert answer.text == "Hello, world"


@pytest.mark.parametrize(
    ("script", "code", "hint"),
    [
        pytest.param(error(429, retry_after=77), "rate_limit_exceeded", "try again in 77 s"),
        pytest.param(error(402), "insufficient_quota", "credit"),
        pytest.param(error(401), "server_error", "key"),
        pytest.param(error(403), "server_error", "allow"),
        pytest.param(error(404, code="model_not_found"), "invalid_prompt", "model"),
        pytest.param(error(400), "invalid_prompt", "request"),
        pytest.param(error(400, code="content_filter"), "invalid_prompt", "filter"),
        pytest.param(error(413), "context_length_exceeded", "too long"),
        pytest.param(error(503), "server_error", "overloaded"),
        pytest.param(error(504), "server_error", "too long"),
        pytest.param(send_frames([b"data: {broken\n\n"]), "server_error", "cannot be parsed"),
    ],
)
async def test_a_started_response_fails_with_the_code_of_its_fault(
    tmp_path: Path, script: Script, code: str, hint: str
) -> None:
    slow = SlowProvider(script)
    async with (
        failover_gateway(
            tmp_path, [slow, *[script] * 3], fallbacks=NO_FALLBACKS, commit_after_s=0.02
        ) as setup,
        open_stream(setup.gateway.gateway.port) as listener,
    ):
        answer = await answer_started_early(listener, slow)
    assert [event["type"] for event in answer.events] == [
        "response.created",
        "response.in_progress",
        "response.failed",
    ]
    assert answer.error["code"] == code
    assert hint in answer.error["message"]


async def test_a_response_may_start_during_backoff(tmp_path: Path) -> None:
    clock = Clock()
    clock.freeze()
    async with (
        failover_gateway(tmp_path, [error(500)], clock=clock, commit_after_s=0.02) as setup,
        open_stream(setup.gateway.gateway.port) as listener,
    ):
        await listener.post(ASKED)
        await listener.event()
        clock.resume()
        answer = await listener.rest()
    assert answer.text == "Hello, world"
    assert [event["type"] for event in answer.events].count("response.created") == 1


# Nobody waits for whoever waits


async def wait_for_backoff(setup: FailoverGateway, listener: StreamReader) -> None:
    """Send a request and wait until it sleeps between two attempts."""
    setup.clock.freeze()
    await listener.post(ASKED)
    await until(lambda: setup.clock.slept, "the pause has begun")


async def test_a_client_may_disconnect_during_backoff(tmp_path: Path) -> None:
    async with failover_gateway(tmp_path, [error(500)]) as setup:
        async with open_stream(setup.gateway.gateway.port) as listener:
            await wait_for_backoff(setup, listener)
            listener.disconnect()
        await until(lambda: not setup.gateway.engine.active, "the exchange is over")
        assert setup.new_calls == [A]
        setup.clock.resume()
        assert (await setup.post_request()).text == "Hello, world"
        assert setup.new_calls == [B]


async def test_a_client_disconnect_is_logged_as_cancelled(tmp_path: Path) -> None:
    async def silent(request: ReceivedRequest, connection: Connection) -> None:
        await connection.wait_disconnected()

    for script in (silent, error(500)):
        async with failover_gateway(tmp_path, [script]) as setup:
            async with open_stream(setup.gateway.gateway.port) as listener:
                setup.clock.freeze()
                await listener.post(ASKED)
                await until(lambda: setup.clock.slept or setup.sent(), "it was asked")
                listener.disconnect()
            await until(lambda: not setup.gateway.engine.active, "the exchange is over")
            assert setup.new_calls == [A]
            request_id = setup.gateway.log[-1].facts["request_id"]
        finish = read_trace(setup.trace, request_id).finish
        assert finish is not None
        assert finish.status == "cancelled"


@pytest.mark.parametrize("early", [True, False], ids=["begun", "not begun"])
async def test_shutdown_interrupts_backoff(tmp_path: Path, early: bool) -> None:
    commit_after_s = 0.02 if early else 60.0
    async with (
        failover_gateway(
            tmp_path, [error(500)], commit_after_s=commit_after_s, shutdown_s=0.0
        ) as setup,
        open_stream(setup.gateway.gateway.port) as listener,
    ):
        await wait_for_backoff(setup, listener)
        if early:
            await listener.event()
        await setup.gateway.gateway.stop()
        answer = await listener.rest()
        assert (answer.status, answer.error["code"]) == (200 if early else 503, "server_error")
        assert setup.new_calls == [A]


# What is written down


async def test_trace_and_log_name_keys_by_number_only(tmp_path: Path) -> None:
    async with failover_gateway(
        tmp_path, [error(401, "sk-one-a is not valid"), error(429)]
    ) as setup:
        answer = await setup.post_request(stream=True)
        log = repr(setup.gateway.log)
    assert read_attempts(setup, answer) == [
        (1, "one", "key 1", "auth"),
        (2, "one", "key 2", "rate_limit"),
        (3, "two", "key 1", None),
    ]
    assert "key 2" in log
    written = setup.trace.read_bytes() + log.encode()
    for key in ("sk-one-a", "sk-one-b", "sk-two-a"):
        assert key.encode() not in written
