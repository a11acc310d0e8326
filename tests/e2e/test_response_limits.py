"""An upstream that sends more than `[limits]` allows: a fault that names the limit, at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.config import LimitConfig
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import replaced, running, settings
from tests.support.shared_gateway import UVLOOP
from tests.support.stream_validator import TERMINALS
from tests.support.upstream import (
    HELLO,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    upstream,
    whole_answer,
)
from tests.support.waiting import let_others_read

LIMITS = LimitConfig(
    frame_bytes=20_000,
    body_bytes=30_000,
    stream_bytes=100_000,
    text_chars=10_000,
    reasoning_chars=10_000,
    argument_chars=10_000,
    calls=3,
    items=5,
)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def repeat(*pieces: bytes, kind: str = "text/event-stream") -> Script:
    """Send the first pieces, and then the last one until the other side disconnects."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=kind)
        for piece in pieces[:-1]:
            await connection.send(piece)
        await let_others_read()
        while True:
            await connection.send(pieces[-1])

    return script


async def answer_and_codes(
    tmp_path: Path, script: Script, *, stream: bool
) -> tuple[Answer, set[str]]:
    """The answer to a client, and the codes of faults in the log."""
    body = {"model": "m", "input": "Hi", "stream": stream, "store": False}
    async with upstream(script) as server:
        config = replaced(settings(tmp_path, server.url), limits=LIMITS)
        async with running(config) as gateway:
            answer = await post_request(gateway, body)
    return answer, {entry.facts["code"] for entry in gateway.log if "code" in entry.facts}


def call(index: int, arguments: str) -> bytes:
    function = {"name": "f", "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})


CALLS = [call(index, "{}") for index in range(4)]
BEFORE_OUTPUT = {
    "a line": repeat(b"data: ", b"x" * 1000),
    "a comment": repeat(b": ", b"x" * 1000),
    "an event of many lines": repeat(b"data: x\n" * 100),
    "comments": repeat(b": wait\n\n"),
}
AFTER_OUTPUT = {
    "a line": repeat(*HELLO, b"data: ", b"x" * 1000),
    "text": repeat(*HELLO, chunk({"content": "x" * 1000})),
    "reasoning": repeat(*HELLO, chunk({"reasoning_content": "x" * 1000})),
    "arguments": repeat(call(0, "["), call(0, "1," * 1000)),
    "calls": repeat(*CALLS, b": \n\n"),
    "items": repeat(*[chunk({key: "x"}) for key in ("content", "reasoning_content") * 3], b"\n"),
    "empty frames": repeat(*HELLO, chunk({})),
}


@pytest.mark.parametrize("case", BEFORE_OUTPUT)
async def test_a_stream_beyond_a_limit_before_output_is_a_502(tmp_path: Path, case: str) -> None:
    answer, codes = await answer_and_codes(tmp_path, BEFORE_OUTPUT[case], stream=True)
    assert (answer.status, answer.error["code"]) == (502, "server_error")
    assert "up sent a larger response than the gateway accepts" in answer.error["message"]
    assert codes == {"response_too_large"}


@pytest.mark.parametrize("case", AFTER_OUTPUT)
async def test_a_stream_beyond_a_limit_after_output_fails_with_one_terminal_event(
    tmp_path: Path, case: str
) -> None:
    answer, codes = await answer_and_codes(tmp_path, AFTER_OUTPUT[case], stream=True)
    kinds = [event["type"] for event in answer.events]
    assert [kind for kind in kinds if kind in TERMINALS] == kinds[-1:] == ["response.failed"]
    assert "larger response" in answer.error["message"]
    assert codes == {"response_too_large"}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_whole_body_beyond_the_limit_is_a_502(tmp_path: Path, stream: bool) -> None:
    script = repeat(b'{"choices": "', b"x" * 1000, kind="application/json")
    answer, codes = await answer_and_codes(tmp_path, script, stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "server_error")
    assert "larger response" in answer.error["message"]
    assert codes == {"response_too_large"}


async def test_a_whole_answer_with_too_much_text_is_a_502(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type="application/json")
        await connection.send(json.dumps(whole_answer("x" * 10_001)).encode())
        await connection.end()

    answer, codes = await answer_and_codes(tmp_path, script, stream=False)
    assert (answer.status, codes) == (502, {"response_too_large"})
