"""An answer that ends between two rounds: by a disconnect, the total timeout or a shutdown.

Everything is released, and a client that still reads gets one terminal event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import TimeoutConfig
from antiphon.core.events import Event
from antiphon.engine.services import Caller
from antiphon.stages.pipeline import terminal
from tests.support.machines import documents
from tests.support.request_body import parse_body
from tests.support.rounds import (
    RAIN,
    SEARCH,
    RoundsGateway,
    call_delta,
    output_text,
    reasoning_delta,
    round_script,
    rounds_gateway,
    search_call,
    search_statuses,
    streamed_and_whole,
    text_delta,
)
from tests.support.stream_reader import StreamReader, open_stream
from tests.support.stream_validator import check
from tests.support.upstream import Connection, ReceivedRequest, Script
from tests.support.waiting import LIMIT_S, until

LOOKED = round_script(text_delta("Let me see."), call_delta(search_call()))
ANSWER = round_script(text_delta("It rains [1]."))


class SlowSearchEngine:
    """A search engine that finds nothing before the test resumes it."""

    def __init__(self) -> None:
        self.request_bodies = 0
        self.resume = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        self.request_bodies += 1
        left = asyncio.ensure_future(connection.wait_disconnected())
        resumed = asyncio.ensure_future(self.resume.wait())
        await asyncio.wait([left, resumed], return_when=asyncio.FIRST_COMPLETED)
        if resumed.done():
            await connection.head(content_type="application/json")
            await connection.send(
                json.dumps({"results": [{**RAIN, "content": "It rains."}]}).encode()
            )
            await connection.end()
        else:
            self.gone.set()
        for each in (left, resumed):
            each.cancel()
        await asyncio.wait([left, resumed])


class SilentRound:
    """A provider that sends nothing, or only the response head, until the disconnect."""

    def __init__(self, *frames: bytes, head: bool = False) -> None:
        self._frames = frames
        self._head = head
        self.waiting = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        if self._head:
            await connection.head()
        for each in self._frames:
            await connection.send(each)
        self.waiting.set()
        await connection.wait_disconnected()
        self.gone.set()


@asynccontextmanager
async def open_request(setup: RoundsGateway, **body: Any) -> AsyncIterator[StreamReader]:
    async with open_stream(setup.gateway.gateway.port) as listener:
        await listener.post({"model": "m", "input": "Hello?", "tools": [SEARCH], **body})
        yield listener


async def listen_for(listener: StreamReader, kind: str, count: int = 1) -> None:
    while count:
        event = await listener.event()
        assert event is not None
        count -= event["type"] == kind


def tasks() -> set[asyncio.Task[Any]]:
    """All tasks but those of scripted providers, which keep connections open."""
    return {task for task in asyncio.all_tasks() if "upstream.<locals>" not in repr(task)}


async def nothing_is_left(setup: RoundsGateway, before: set[asyncio.Task[Any]]) -> None:
    engine = setup.gateway.engine
    await until(lambda: not engine.active, "the exchange is over")
    await until(lambda: tasks() <= before, "no task is left behind")
    assert setup.waiting_requests == 0
    ends = ("response.finished", "response.cancelled")
    assert len([entry for entry in setup.gateway.log if entry.event in ends]) == 1
    assert not [entry for entry in setup.gateway.log if entry.level == "error"]


# --- the client leaves ----------------------------------------------------------------------------


@streamed_and_whole
async def test_a_client_disconnect_cancels_its_search(tmp_path: Path, stream: bool) -> None:
    engine = SlowSearchEngine()
    async with rounds_gateway(tmp_path, LOOKED, ANSWER, engine=engine) as setup:
        before = tasks()
        async with open_request(setup, stream=stream) as listener:
            await until(lambda: engine.request_bodies, "the search has begun")
            listener.disconnect()
            async with asyncio.timeout(LIMIT_S):
                await engine.gone.wait()
        await nothing_is_left(setup, before)
        assert len(setup.request_bodies) == 1


@streamed_and_whole
@pytest.mark.parametrize("head", [True, False], ids=["a head", "nothing"])
async def test_a_client_may_disconnect_before_output_of_a_later_round(
    tmp_path: Path, stream: bool, head: bool
) -> None:
    second = SilentRound(head=head)
    async with rounds_gateway(tmp_path, LOOKED, second) as setup:
        before = tasks()
        async with open_request(setup, stream=stream) as listener:
            async with asyncio.timeout(LIMIT_S):
                await second.waiting.wait()
                listener.disconnect()
                await second.gone.wait()
        await nothing_is_left(setup, before)
        assert len(setup.request_bodies) == 2


async def test_a_client_may_disconnect_between_attempts_of_a_later_round(
    tmp_path: Path,
) -> None:
    async def busy(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(503, content_type="application/json")
        await connection.send(b'{"error": {"message": "Busy."}}')
        await connection.end()

    async with rounds_gateway(tmp_path, LOOKED, busy, ANSWER) as setup:
        setup.clock.freeze()
        before = tasks()
        async with open_request(setup, stream=True) as listener:
            await until(lambda: setup.clock.slept, "it waits")
            listener.disconnect()
            await nothing_is_left(setup, before)
        assert len(setup.request_bodies) == 2  # and never a third time


# --- its time is up -------------------------------------------------------------------------------


@streamed_and_whole
async def test_the_total_timeout_counts_during_a_search(tmp_path: Path, stream: bool) -> None:
    engine = SlowSearchEngine()
    timeouts = TimeoutConfig(total_s=2.0)  # the search begins long before
    async with rounds_gateway(tmp_path, LOOKED, ANSWER, engine=engine, timeouts=timeouts) as setup:
        before = tasks()
        async with open_request(setup, stream=stream) as listener:
            answer = await listener.rest()
        async with asyncio.timeout(LIMIT_S):
            await engine.gone.wait()
        await nothing_is_left(setup, before)
        assert len(setup.request_bodies) == 1
    assert answer.response["status"] == "failed"
    assert "in the time allowed" in answer.error["message"]
    assert (output_text(answer.response), search_statuses(answer.response)) == (
        "Let me see.",
        ["failed"],
    )


async def test_endless_rounds_end_at_the_total_timeout(tmp_path: Path) -> None:
    """Each round is quick; together they take too long."""

    def slow(number: int) -> Script:
        play = round_script(call_delta(search_call(call_id=f"c{number}")))

        async def script(request: ReceivedRequest, connection: Connection) -> None:
            await connection.pause(0.15)
            await play(request, connection)

        return script

    timeouts = TimeoutConfig(total_s=1.0)
    for stream in (True, False):
        async with rounds_gateway(tmp_path, *map(slow, range(30)), timeouts=timeouts) as setup:
            answer = await setup.post_request(stream=stream, tools=[SEARCH])
            assert 1 < len(setup.request_bodies) < 9
        assert "in the time allowed" in answer.error["message"]


# --- the gateway goes down ------------------------------------------------------------------------


@streamed_and_whole
async def test_a_shutdown_during_a_search_ends_the_answer_once(
    tmp_path: Path, stream: bool
) -> None:
    engine = SlowSearchEngine()
    async with rounds_gateway(tmp_path, LOOKED, ANSWER, engine=engine) as setup:
        before = tasks()
        async with open_request(setup, stream=stream) as listener:
            await until(lambda: engine.request_bodies, "the search has begun")
            setup.gateway.engine.stop_all()
            answer = await listener.rest()
        await nothing_is_left(setup, before)
        assert len(setup.request_bodies) == 1
    assert answer.response["status"] == "failed"
    assert search_statuses(answer.response) == ["failed"]


@streamed_and_whole
@pytest.mark.parametrize("head", [True, False], ids=["a head", "nothing"])
async def test_a_shutdown_during_a_later_round_ends_the_answer_once(
    tmp_path: Path, stream: bool, head: bool
) -> None:
    second = SilentRound(head=head)
    async with rounds_gateway(tmp_path, LOOKED, second) as setup:
        before = tasks()
        async with open_request(setup, stream=stream) as listener:
            await second.waiting.wait()
            setup.gateway.engine.stop_all()
            answer = await listener.rest()
        await nothing_is_left(setup, before)
    assert answer.response["status"] == "failed"
    assert output_text(answer.response) == "Let me see."


RESTLESS = {
    "a search": [LOOKED, ANSWER],
    "a reminder": [round_script(reasoning_delta("Hm.")), ANSWER],
    "several": [round_script(reasoning_delta("Hm.")), LOOKED, LOOKED, ANSWER],
}


BODY = b'{"model": "m", "input": "?", "stream": true, "tools": [{"type": "web_search"}]}'


async def run_until(
    setup: RoundsGateway, after: int, *, leave: bool
) -> tuple[list[Event], int | None]:
    """The events of an answer that is stopped, or left, after so many batches; and how often the
    provider had been asked by then. None: it has ended before."""
    engine = setup.gateway.engine
    run = await engine.create(parse_body(BODY), Caller("somebody", "req_1"))
    seen: list[Event] = []
    request_count = None
    async with run:
        await run.open()
        while events := await run.next_events():
            seen += events
            after -= 1
            if terminal(events) is None and not after:
                request_count = len(setup.request_bodies)
                if leave:
                    break
                engine.stop_all()
    return seen, request_count


@pytest.mark.parametrize("leave", [True, False], ids=["left", "stopped"])
@pytest.mark.parametrize("rounds", RESTLESS.values(), ids=RESTLESS)
async def test_nothing_is_started_after_the_end_of_an_answer(
    tmp_path: Path, rounds: list[Script], leave: bool
) -> None:
    for after in range(1, 100):
        async with rounds_gateway(tmp_path, *rounds) as setup:
            before = tasks()
            seen, request_count = await run_until(setup, after, leave=leave)
            assert request_count in (None, len(setup.request_bodies))
            await nothing_is_left(setup, before)
        if not leave:
            check(documents(seen))
        if request_count is None:
            break
    assert request_count is None
    assert after > 1


async def test_keep_alives_are_sent_during_a_search(tmp_path: Path) -> None:
    engine = SlowSearchEngine()
    async with (
        rounds_gateway(tmp_path, LOOKED, ANSWER, engine=engine, keepalive_s=0.03) as setup,
        open_request(setup, stream=True) as listener,
    ):
        await listen_for(listener, "response.web_search_call.searching")
        await listen_for(listener, "keepalive", 3)
        engine.resume.set()
        answer = await listener.rest()
    assert answer.response["status"] == "completed"
    assert output_text(answer.response) == "Let me see.It rains [1]."


async def test_a_slow_search_is_not_an_idle_provider(tmp_path: Path) -> None:
    """A search may take longer than a provider may be silent."""
    engine = SlowSearchEngine()
    timeouts = TimeoutConfig(idle_s=0.05, first_token_s=5)
    async with (
        rounds_gateway(
            tmp_path, LOOKED, ANSWER, engine=engine, timeouts=timeouts, keepalive_s=0.1
        ) as setup,
        open_request(setup, stream=True) as listener,
    ):
        await listen_for(listener, "keepalive", 3)
        engine.resume.set()
        answer = await listener.rest()
    assert answer.response["status"] == "completed"
