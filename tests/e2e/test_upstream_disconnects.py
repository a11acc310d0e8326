"""An upstream that disconnects at any chunk of its answer."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from antiphon import replay
from antiphon.core.plan.plan import Outbound
from antiphon.engine.upstream import HTTPUpstream
from antiphon.errors import UpstreamError
from antiphon.providers.registry import build_providers
from tests.support.corpus import ABSENT, cases
from tests.support.gateways import settings
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_validator import TERMINALS
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    upstream,
    usage,
    whole_answer,
)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("stage")) as shared_gateway:
        yield shared_gateway


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
        piece for each in HELLO_WORLD for piece in (each[:9], each[9:-1], each[-1:])
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


def disconnect_after(
    frames: Sequence[bytes], ending: str, content_type: str = "text/event-stream"
) -> Script:
    """Send the response head and these frames, then break the connection."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=content_type)
        for each in frames:
            await connection.send(each)
        if ending == "end":
            await connection.end()
        elif ending == "cut":
            connection.cut()
        else:
            connection.reset()

    return script


def has_output(events: Sequence[Mapping[str, Any]]) -> bool:
    early = ("response.created", "response.in_progress", "error", *TERMINALS)
    return any(event["type"] not in early for event in events)


def is_silent(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the provider failed before any output."""
    return not has_output(events) and events[-1]["type"] == "response.failed"


def decodable_bytes(frames: Sequence[bytes], ending: str) -> bytes:
    """The bytes that are decoded: all at a clean end, only whole frames of a broken stream."""
    data = b"".join(frames)
    if ending == "end":
        return data
    return b"".join(piece for piece in split(data) if piece.endswith((b"\n\n", b"\r\n\r\n")))


async def check_every_cut(
    shared_gateway: SharedGateway, frames: Sequence[bytes], ending: str
) -> int:
    """Check that the gateway sends what `replay` makes of the bytes, or an error before output."""
    for count in range(len(frames) + 1):
        answer = await shared_gateway.post_request(
            disconnect_after(frames[:count], ending), stream=True, store=False
        )
        expected = replay(decodable_bytes(frames[:count], ending))
        if is_silent(expected):
            assert answer.status == 502 or ending == "end", (count, answer)
            assert answer.status >= 400, (count, answer)
        elif ending == "reset":  # the kernel may drop what was under way
            assert answer.status in (200, 502), (count, answer)
        else:
            kinds = [event["type"] for event in answer.events]
            assert kinds == [event["type"] for event in expected], count
    assert not shared_gateway.gateway.engine.active
    return len(frames) + 1


@every_ending
@pytest.mark.parametrize("frames", INVENTED.values(), ids=INVENTED)
async def test_an_upstream_cut_at_any_chunk_gives_one_terminal_event_or_an_error(
    shared_gateway: SharedGateway, frames: Sequence[bytes], ending: str
) -> None:
    assert await check_every_cut(shared_gateway, frames, ending) > len(frames)


@pytest.mark.skipif(not RECORDED, reason=ABSENT)
@every_ending
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recording_cut_at_any_chunk_gives_one_terminal_event_or_an_error(
    shared_gateway: SharedGateway, name: str, ending: str
) -> None:
    assert await check_every_cut(shared_gateway, RECORDED[name], ending) > len(RECORDED[name])


@every_ending
async def test_a_whole_answer_that_is_cut_anywhere_is_a_502(
    shared_gateway: SharedGateway, ending: str
) -> None:
    body = json.dumps(whole_answer("Hello")).encode()
    for size in range(0, len(body), 7):
        script = disconnect_after(
            [body[:size]] if size else [], ending, content_type="application/json"
        )
        answer = await shared_gateway.post_request(script)
        assert (answer.status, answer.error["code"]) == (502, "server_error"), size


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("rude", [True, False], ids=["reset", "cut"])
async def test_an_upstream_that_disconnects_without_an_answer_is_a_502(
    shared_gateway: SharedGateway, rude: bool, stream: bool
) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        connection.reset() if rude else connection.cut()

    answer = await shared_gateway.post_request(script, stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "server_error")


async def test_bytes_received_before_a_reset_are_read(tmp_path: Path) -> None:
    """A slow client lets the gateway read the answer and the reset together."""
    everything = b"".join(HELLO_WORLD)
    outbound = Outbound(path="/chat/completions", body=b"{}")
    http = HTTPUpstream()
    async with upstream(disconnect_after([everything], "cut")) as server:
        provider = build_providers(settings(tmp_path, server.url), {})["up"]
        answers = [await http.open(provider, outbound, "key") for _ in range(9)]
        for answer in answers:  # the first ones broke long ago, while the others were asked for
            assert await answer.next() == everything
            with pytest.raises(UpstreamError):
                await answer.next()
            answer.close()
    await http.close()
