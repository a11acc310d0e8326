"""However an upstream fails, a client is told one thing, once, in the API's own shape."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import replay
from antiphon.config import TimeoutConfig
from tests.answers import Answer, ask
from tests.corpus import ABSENT, cases
from tests.gateways import Running, running, settings
from tests.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Asked,
    Line,
    Script,
    answering,
    chunk,
    frame,
    playing,
    upstream,
    usage,
)
from tests.validator import TERMINALS

ASKED = {"model": "m", "input": "Say hello."}
STREAMED = {**ASKED, "stream": True}
WHOLE_ANSWER = {
    "id": "c1",
    "model": "scripted",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that `antiphon serve` runs on."""
    return "asyncio", {"use_uvloop": True}


@asynccontextmanager
async def served(
    tmp_path: Path, script: Script, *, timeouts: TimeoutConfig | None = None, **server: Any
) -> AsyncIterator[Running]:
    """A gateway in front of one scripted provider."""
    async with (
        upstream(script) as played,
        running(settings(tmp_path, played.url, timeouts=timeouts, **server)) as gateway,
    ):
        yield gateway


# Killed at every chunk


def call(index: int, arguments: str, **opening: str) -> bytes:
    function = {"arguments": arguments, **opening}
    piece: dict[str, Any] = {"index": index, "function": function}
    if opening:
        piece |= {"id": f"call_{index}", "type": "function"}
    return chunk({"tool_calls": [piece]})


INVENTED: Mapping[str, Sequence[bytes]] = {
    "text": HELLO_WORLD,
    "reasoning": (
        chunk({"role": "assistant", "content": "", "reasoning_content": ""}),
        chunk({"reasoning_content": "They want"}),
        chunk({"reasoning_content": " a greeting."}),
        chunk({"content": "Hello"}),
        chunk({}, "stop"),
        usage(),
        DONE,
    ),
    "calls": (
        chunk({"role": "assistant", "content": None}),
        call(0, "", name="look_up"),
        call(0, '{"word": "h'),
        call(0, 'ello"}'),
        call(1, "", name="look_up"),
        call(1, '{"word": "world"}'),
        chunk({}, "tool_calls"),
        usage(),
        DONE,
    ),
    "comments": (
        b": waiting\n\n",
        b": still waiting\n\n",
        *HELLO,
        b": thinking\n\n",
        chunk({}, "length"),
        DONE,
    ),
    "an error inside": (*HELLO, frame({"error": {"message": "out of memory", "code": 500}})),
    "torn frames": tuple(
        piece for whole in HELLO_WORLD for piece in (whole[:9], whole[9:-1], whole[-1:])
    ),
}


def split(data: bytes) -> list[bytes]:
    """The frames of a recording."""
    return re.findall(rb".+?(?:\n\n|\r\n\r\n|\Z)", data, re.DOTALL)


def recordings() -> dict[str, list[bytes]]:
    """Short recorded streams of different providers, two of each, to keep the run short."""
    streams = [(case, split(case.data)) for case in cases("chat", wire="sse")]
    found: dict[str, list[bytes]] = {}
    for vendor in ("deepseek", "minimax", "openai", "zhipu"):
        own = [(case.id, cut) for case, cut in streams if case.meta["vendor"] == vendor]
        found.update(sorted(own, key=lambda each: len(each[1]))[:2])
    return {name: frames for name, frames in found.items() if len(frames) <= 40}


RECORDED = recordings()
every_ending = pytest.mark.parametrize("ending", ["end", "cut", "reset"])


async def kill(line: Line, ending: str) -> None:
    if ending == "end":
        await line.end()
    elif ending == "cut":
        line.cut()
    else:
        line.reset()


def dying(frames: Sequence[bytes], ending: str) -> Script:
    """The number in the model's name says how many chunks are sent; 0 is only the head."""

    async def script(asked: Asked, line: Line) -> None:
        await line.head()
        for each in frames[: int(asked.body["model"])]:
            await line.send(each)
        await kill(line, ending)

    return script


def has_output(events: Sequence[Mapping[str, Any]]) -> bool:
    early = ("response.created", "response.in_progress", "error", *TERMINALS)
    return any(event["type"] not in early for event in events)


def is_silent(events: Sequence[Mapping[str, Any]]) -> bool:
    """The provider had said nothing that a client could use when it failed."""
    return not has_output(events) and events[-1]["type"] == "response.failed"


async def assert_every_death_is_told(
    tmp_path: Path, frames: Sequence[bytes], ending: str
) -> None:
    """The gateway tells what the library makes of the same bytes, or an error before any output."""
    async with served(tmp_path, dying(frames, ending)) as gateway:
        for count in range(len(frames) + 1):
            answer = await ask(gateway, {**STREAMED, "model": str(count)})
            expected = replay(b"".join(frames[:count]))
            if is_silent(expected):
                assert answer.status >= 400, (count, answer)
            elif ending == "reset":  # the kernel may drop what was under way
                assert answer.status in (200, 502), (count, answer)
            else:
                told = [event["type"] for event in answer.events]
                assert told == [event["type"] for event in expected], count
        assert not gateway.engine.active


@every_ending
@pytest.mark.parametrize("frames", INVENTED.values(), ids=INVENTED)
async def test_an_upstream_killed_at_any_chunk_leaves_one_terminal_event_or_an_error(
    tmp_path: Path, frames: Sequence[bytes], ending: str
) -> None:
    await assert_every_death_is_told(tmp_path, frames, ending)
    assert list(tmp_path.iterdir())


@pytest.mark.skipif(not RECORDED, reason=ABSENT)
@every_ending
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recording_killed_at_any_chunk_leaves_one_terminal_event_or_an_error(
    tmp_path: Path, name: str, ending: str
) -> None:
    await assert_every_death_is_told(tmp_path, RECORDED[name], ending)
    assert list(tmp_path.iterdir())
