"""The suite can fail: a passing scenario fails if a proxy changes the events.

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


async def codex(setup: ClientGateway) -> None:
    """The first scenario of `test_codex.py`, without retries of Codex."""
    ran = await (await Codex.at(setup, retries=0)).exec("Hello?")
    assert (ran.status, ran.messages) == (0, [GREETING])


async def sdk(setup: ClientGateway) -> None:
    done = await setup.run([python_command(), "-c", READ_WITH_THE_SDK])
    assert done.check_success().out == f"{GREETING}\n"


def find_frame(frames: list[bytes], kind: str) -> int:
    return next(n for n, frame in enumerate(frames) if b"event: %b\n" % kind.encode() in frame)


def drop_frame(kind: str) -> Change:
    def change(frames: list[bytes]) -> list[bytes]:
        where = find_frame(frames, kind)
        return [*frames[:where], *frames[where + 1 :]]

    return change


def swap_frames(one: str, other: str) -> Change:
    def change(frames: list[bytes]) -> list[bytes]:
        first, second = find_frame(frames, one), find_frame(frames, other)
        frames[first], frames[second] = frames[second], frames[first]
        return frames

    return change


@pytest.mark.parametrize("check", [codex, sdk])
async def test_an_unchanged_stream_passes(
    tmp_path: Path, check: Callable[[ClientGateway], Awaitable[None]]
) -> None:
    async with (
        client_gateway(tmp_path, "chat", [Reply(GREETING)]) as setup,
        changing_proxy(setup, lambda all: all) as proxy,
    ):
        await check(proxy.gateway)
        assert proxy.seen == [("POST", "/v1/responses", 200)]


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (codex, swap_frames("response.output_item.done", "response.completed")),
        (codex, drop_frame("response.output_item.done")),
        (codex, drop_frame("response.completed")),
        (sdk, swap_frames("response.created", "response.output_item.added")),
        (sdk, swap_frames("response.content_part.added", "response.output_text.delta")),
        (sdk, drop_frame("response.completed")),
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
async def test_a_changed_stream_makes_a_scenario_fail(
    tmp_path: Path, check: Callable[[ClientGateway], Awaitable[None]], change: Change
) -> None:
    async with (
        client_gateway(tmp_path, "chat", [Reply(GREETING)]) as setup,
        changing_proxy(setup, change) as proxy,
    ):
        with pytest.raises(AssertionError):
            await check(proxy.gateway)
        assert proxy.seen == [("POST", "/v1/responses", 200)]
