"""A client that leaves takes its upstream with it, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.listeners import Listener, listening
from tests.stages import UVLOOP, Stage, opened_stage
from tests.upstream import HELLO, Asked, Line, Script, chunk
from tests.waiting import until

# The promise is 0.1 s, and a millisecond is usual. All parties of a test share one loop on a machine
# that may be busy, so more is let pass here.
PROMPT_S = 1.0

LONG = (
    *HELLO,
    chunk({"content": ", world"}),
    chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}),
)
EVENTS_OF_LONG = 12  # what a client can see of it while it goes on


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with opened_stage(tmp_path_factory.mktemp("stage"), commit_after_s=0.05) as stage:
        yield stage


class Stalled:
    """A script that sends some frames, and then waits until it is hung up upon."""

    def __init__(self, *frames: bytes, head: bool = True) -> None:
        self._frames = frames
        self._head = head
        self.waiting = asyncio.Event()
        self.gone = asyncio.Event()
        self.gone_at = 0.0

    async def __call__(self, asked: Asked, line: Line) -> None:
        if self._head:
            await line.head()
        for each in self._frames:
            await line.send(each)
        self.waiting.set()
        await line.until_gone()
        self.gone_at = asyncio.get_running_loop().time()
        self.gone.set()


async def leaving(
    stage: Stage, script: Stalled, read: Callable[[Listener], Any], **body: Any
) -> float:
    """How long after the client left the upstream heard of it. Nothing else may be left of it."""
    before = asyncio.all_tasks()
    async with listening(stage.gateway.gateway.port) as listener:
        await listener.post({"model": stage.cast(script), "input": "Hello?", **body})
        async with asyncio.timeout(10):
            await script.waiting.wait()
            await read(listener)
            left_at = asyncio.get_running_loop().time()
            listener.leave()
            await script.gone.wait()
    await until(lambda: not stage.gateway.engine.active, "the exchange is over")
    assert stage.gateway.engine.idle.is_set()
    await until(lambda: asyncio.all_tasks() <= before, "no task is left behind")
    return script.gone_at - left_at


async def nothing(listener: Listener) -> None:
    """Leave before anything was said."""


def events(count: int) -> Callable[[Listener], Any]:
    async def read(listener: Listener) -> None:
        for _ in range(count):
            assert await listener.event() is not None

    return read


async def test_a_client_may_leave_at_any_event(stage: Stage) -> None:
    took = [
        await leaving(stage, Stalled(*LONG), events(count), stream=True)
        for count in range(EVENTS_OF_LONG + 1)
    ]
    assert max(took) < PROMPT_S, f"median {statistics.median(took)} s, worst {max(took)} s"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "script",
    [Stalled(head=False), Stalled(), Stalled(HELLO[0]), Stalled(b": working\n\n")],
    ids=["no head", "no byte", "no word", "comments"],
)
async def test_a_client_may_leave_before_the_first_word(
    tmp_path: Path, script: Stalled, stream: bool
) -> None:
    fresh = Stalled(*script._frames, head=script._head)
    async with opened_stage(tmp_path) as stage:
        assert await leaving(stage, fresh, nothing, stream=stream) < PROMPT_S
