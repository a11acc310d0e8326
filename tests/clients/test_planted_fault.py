"""The suite can fail: a scenario that passes does not pass once the events are spoiled on the way.

Each fault is planted between the client and the gateway; the check is the one of the scenario.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.clients.codex import Codex
from tests.support.clients.gateway import ClientGateway, client_gateway
from tests.support.clients.installed import python_command
from tests.support.clients.proxy import Change, changing_proxy
from tests.support.clients.scripted_model import Reply

GREETING = "Good morning."
READ_WITH_THE_SDK = """
import os, openai
with openai.OpenAI(max_retries=0).responses.stream(model=os.environ["MODEL"], input="Hi") as stream:
    print(stream.get_final_response().output_text)
"""


async def codex(s: ClientGateway) -> None:
    """What `test_codex.py` asks for in its first scenario; Codex is told not to try again."""
    ran = await (await Codex.at(s, retries=0)).exec("Hello?")
    assert (ran.status, ran.messages) == (0, [GREETING])


async def sdk(s: ClientGateway) -> None:
    done = await s.run([python_command(), "-c", READ_WITH_THE_SDK])
    assert done.check_success().out == f"{GREETING}\n"


def place(frames: list[bytes], kind: str) -> int:
    return next(n for n, frame in enumerate(frames) if b"event: %b\n" % kind.encode() in frame)


def dropped(kind: str) -> Change:
    def change(frames: list[bytes]) -> list[bytes]:
        where = place(frames, kind)
        return [*frames[:where], *frames[where + 1 :]]

    return change


def swapped(one: str, other: str) -> Change:
    def change(frames: list[bytes]) -> list[bytes]:
        here, there = place(frames, one), place(frames, other)
        frames[here], frames[there] = frames[there], frames[here]
        return frames

    return change


@pytest.mark.parametrize("check", [codex, sdk])
async def test_what_nobody_spoils_passes(
    tmp_path: Path, check: Callable[[ClientGateway], Awaitable[None]]
) -> None:
    async with (
        client_gateway(tmp_path, "chat", [Reply(GREETING)]) as s,
        changing_proxy(s, lambda all: all) as way,
    ):
        await check(way.gateway)
        assert way.seen == [("POST", "/v1/responses", 200)]


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (codex, swapped("response.output_item.done", "response.completed")),
        (codex, dropped("response.output_item.done")),
        (codex, dropped("response.completed")),
        (sdk, swapped("response.created", "response.output_item.added")),
        (sdk, swapped("response.content_part.added", "response.output_text.delta")),
        (sdk, dropped("response.completed")),
    ],
    ids=[
        "codex, the end before the item",
        "codex, no item",
        "codex, no end",
        "sdk, an item before the start",
        "sdk, a delta before its part",
        "sdk, no end",
    ],
)
async def test_a_spoiled_stream_makes_a_scenario_fail(
    tmp_path: Path, check: Callable[[ClientGateway], Awaitable[None]], change: Change
) -> None:
    async with (
        client_gateway(tmp_path, "chat", [Reply(GREETING)]) as s,
        changing_proxy(s, change) as way,
    ):
        with pytest.raises(AssertionError):
            await check(way.gateway)
        assert way.seen == [("POST", "/v1/responses", 200)]
