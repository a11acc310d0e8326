"""Between two rounds an answer can end like anywhere else: its client leaves, its time is up, the
gateway goes down. Nothing stays behind, and whoever still listens hears one end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import TimeoutConfig
from antiphon.engine.services import Caller
from antiphon.pipeline.stage import terminal
from antiphon.wire.events import Event
from antiphon.wire.request import Request
from tests.support.machines import documents
from tests.support.rounds import (
    RAIN,
    SEARCH,
    Stage,
    both_ways,
    calls,
    found,
    round_of,
    said,
    search,
    stage,
    thought,
    words,
)
from tests.support.stream_reader import Listener, listening
from tests.support.stream_validator import check
from tests.support.upstream import Asked, Line, Script
from tests.support.waiting import until

LOOKED = round_of(said("Let me see."), calls(search()))
ANSWER = round_of(said("It rains [1]."))


class Engine:
    """A search engine that finds nothing before it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, asked: Asked, line: Line) -> None:
        self.asked += 1
        left = asyncio.ensure_future(line.until_gone())
        told = asyncio.ensure_future(self.go_on.wait())
        await asyncio.wait([left, told], return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            await line.head(content_type="application/json")
            await line.send(json.dumps({"results": [{**RAIN, "content": "It rains."}]}).encode())
            await line.end()
        else:
            self.gone.set()
        for each in (left, told):
            each.cancel()
        await asyncio.wait([left, told])


class Silent:
    """A provider that says nothing at all, or only its head, until it is hung up upon."""

    def __init__(self, *frames: bytes, head: bool = False) -> None:
        self._frames = frames
        self._head = head
        self.waiting = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, asked: Asked, line: Line) -> None:
        if self._head:
            await line.head()
        for each in self._frames:
            await line.send(each)
        self.waiting.set()
        await line.until_gone()
        self.gone.set()


@asynccontextmanager
async def heard(scene: Stage, **body: Any) -> AsyncIterator[Listener]:
    async with listening(scene.gateway.gateway.port) as listener:
        await listener.post({"model": "m", "input": "Hello?", "tools": [SEARCH], **body})
        yield listener


async def listen_for(listener: Listener, kind: str, count: int = 1) -> None:
    while count:
        event = await listener.event()
        assert event is not None
        count -= event["type"] == kind


def tasks() -> set[asyncio.Task[Any]]:
    """All but those of scripted providers: they keep a line open for the next request."""
    return {task for task in asyncio.all_tasks() if "upstream.<locals>" not in repr(task)}


async def nothing_is_left(scene: Stage, before: set[asyncio.Task[Any]]) -> None:
    engine = scene.gateway.engine
    await until(lambda: not engine.active, "the exchange is over")
    await until(lambda: tasks() <= before, "no task is left behind")
    assert scene.under_way == 0
    ends = ("response.finished", "response.cancelled")
    assert len([entry for entry in scene.gateway.log if entry.event in ends]) == 1
    assert not [entry for entry in scene.gateway.log if entry.level == "error"]


# --- the client leaves ----------------------------------------------------------------------------


@both_ways
async def test_a_client_that_leaves_calls_off_its_search(tmp_path: Path, stream: bool) -> None:
    engine = Engine()
    async with stage(tmp_path, LOOKED, ANSWER, engine=engine) as scene:
        before = tasks()
        async with heard(scene, stream=stream) as listener:
            await until(lambda: engine.asked, "the search has begun")
            listener.leave()
            async with asyncio.timeout(10):
                await engine.gone.wait()
        await nothing_is_left(scene, before)
        assert len(scene.asked) == 1


@both_ways
@pytest.mark.parametrize("head", [True, False], ids=["a head", "nothing"])
async def test_a_client_may_leave_before_the_first_word_of_a_later_round(
    tmp_path: Path, stream: bool, head: bool
) -> None:
    second = Silent(head=head)
    async with stage(tmp_path, LOOKED, second) as scene:
        before = tasks()
        async with heard(scene, stream=stream) as listener:
            async with asyncio.timeout(10):
                await second.waiting.wait()
                listener.leave()
                await second.gone.wait()
        await nothing_is_left(scene, before)
        assert len(scene.asked) == 2


async def test_a_client_may_leave_while_a_later_round_waits_to_be_asked_again(
    tmp_path: Path,
) -> None:
    async def busy(asked: Asked, line: Line) -> None:
        await line.head(503, content_type="application/json")
        await line.send(b'{"error": {"message": "Busy."}}')
        await line.end()

    async with stage(tmp_path, LOOKED, busy, ANSWER) as scene:
        scene.clock.stand_still()
        before = tasks()
        async with heard(scene, stream=True) as listener:
            await until(lambda: scene.clock.slept, "it waits")
            listener.leave()
            await nothing_is_left(scene, before)
        assert len(scene.asked) == 2  # and never a third time


# --- its time is up -------------------------------------------------------------------------------


@both_ways
async def test_the_whole_time_counts_while_a_search_is_made(tmp_path: Path, stream: bool) -> None:
    engine = Engine()
    timeouts = TimeoutConfig(total_s=0.4)
    async with stage(tmp_path, LOOKED, ANSWER, engine=engine, timeouts=timeouts) as scene:
        before = tasks()
        async with heard(scene, stream=stream) as listener:
            answer = await listener.rest()
        async with asyncio.timeout(10):
            await engine.gone.wait()
        await nothing_is_left(scene, before)
        assert len(scene.asked) == 1
    assert answer.response["status"] == "failed"
    assert "in the time allowed" in answer.error["message"]
    assert (words(answer.response), found(answer.response)) == ("Let me see.", ["failed"])


async def test_rounds_that_never_end_do_at_the_deadline(tmp_path: Path) -> None:
    """Each round is quick; together they take too long."""

    def slow(number: int) -> Script:
        play = round_of(calls(search(call_id=f"c{number}")))

        async def script(asked: Asked, line: Line) -> None:
            await line.pause(0.15)
            await play(asked, line)

        return script

    timeouts = TimeoutConfig(total_s=0.5)
    for stream in (True, False):
        async with stage(tmp_path, *map(slow, range(30)), timeouts=timeouts) as scene:
            answer = await scene.ask(stream=stream, tools=[SEARCH])
            assert 1 < len(scene.asked) < 9
        assert "in the time allowed" in answer.error["message"]


# --- the gateway goes down ------------------------------------------------------------------------


@both_ways
async def test_a_search_under_way_at_the_end_is_one_end(tmp_path: Path, stream: bool) -> None:
    engine = Engine()
    async with stage(tmp_path, LOOKED, ANSWER, engine=engine) as scene:
        before = tasks()
        async with heard(scene, stream=stream) as listener:
            await until(lambda: engine.asked, "the search has begun")
            scene.gateway.engine.stop_all()
            answer = await listener.rest()
        await nothing_is_left(scene, before)
        assert len(scene.asked) == 1
    assert answer.response["status"] == "failed"
    assert found(answer.response) == ["failed"]


@both_ways
@pytest.mark.parametrize("head", [True, False], ids=["a head", "nothing"])
async def test_a_later_round_under_way_at_the_end_is_one_end(
    tmp_path: Path, stream: bool, head: bool
) -> None:
    second = Silent(head=head)
    async with stage(tmp_path, LOOKED, second) as scene:
        before = tasks()
        async with heard(scene, stream=stream) as listener:
            await second.waiting.wait()
            scene.gateway.engine.stop_all()
            answer = await listener.rest()
        await nothing_is_left(scene, before)
    assert answer.response["status"] == "failed"
    assert words(answer.response) == "Let me see."


RESTLESS = {
    "a search": [LOOKED, ANSWER],
    "a reminder": [round_of(thought("Hm.")), ANSWER],
    "several": [round_of(thought("Hm.")), LOOKED, LOOKED, ANSWER],
}


BODY = b'{"model": "m", "input": "?", "stream": true, "tools": [{"type": "web_search"}]}'


async def driven(scene: Stage, after: int, *, leave: bool) -> tuple[list[Event], int | None]:
    """The events of an answer that is stopped, or left, after so many batches; and how often the
    provider had been asked by then. None: it has ended before."""
    engine = scene.gateway.engine
    run = await engine.create(Request.parse(BODY), Caller("somebody", "req_1"))
    told: list[Event] = []
    asked = None
    async with run, aclosing(run.events()) as batches:
        await run.open()
        async for events in batches:
            told += events
            after -= 1
            if terminal(events) is None and not after:
                asked = len(scene.asked)
                if leave:
                    break
                engine.stop_all()
    return told, asked


@pytest.mark.parametrize("leave", [True, False], ids=["left", "stopped"])
@pytest.mark.parametrize("rounds", RESTLESS.values(), ids=RESTLESS)
async def test_nothing_is_begun_after_the_end_wherever_it_comes(
    tmp_path: Path, rounds: list[Script], leave: bool
) -> None:
    for after in range(1, 100):
        async with stage(tmp_path, *rounds) as scene:
            before = tasks()
            told, asked = await driven(scene, after, leave=leave)
            assert asked in (None, len(scene.asked))
            await nothing_is_left(scene, before)
        if not leave:
            check(documents(told))
        if asked is None:
            break
    assert asked is None
    assert after > 1


async def test_keep_alives_go_on_while_a_search_is_made(tmp_path: Path) -> None:
    engine = Engine()
    async with (
        stage(tmp_path, LOOKED, ANSWER, engine=engine, keepalive_s=0.03) as scene,
        heard(scene, stream=True) as listener,
    ):
        await listen_for(listener, "response.web_search_call.searching")
        await listen_for(listener, "keepalive", 3)
        engine.go_on.set()
        answer = await listener.rest()
    assert answer.response["status"] == "completed"
    assert words(answer.response) == "Let me see.It rains [1]."


async def test_silence_of_a_search_is_not_the_providers(tmp_path: Path) -> None:
    """A search may take longer than a provider may be silent."""
    engine = Engine()
    timeouts = TimeoutConfig(idle_s=0.05, first_token_s=5)
    async with (
        stage(tmp_path, LOOKED, ANSWER, engine=engine, timeouts=timeouts, keepalive_s=0.1) as scene,
        heard(scene, stream=True) as listener,
    ):
        await listen_for(listener, "keepalive", 3)
        engine.go_on.set()
        answer = await listener.rest()
    assert answer.response["status"] == "completed"
