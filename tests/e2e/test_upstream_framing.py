"""An upstream that breaks HTTP: late bytes on a kept connection, and broken chunks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import pytest

from tests.support.raw_upstream import chunked, gzip_chunked, gzip_with_length, with_length
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_validator import TERMINALS
from tests.support.upstream import (
    DONE,
    HELLO,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    usage,
    whole_answer,
)
from tests.support.waiting import LIMIT_S, let_others_read, until

STREAM, JSON = "text/event-stream", "application/json"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("stage")) as shared_gateway:
        yield shared_gateway


# Late bytes


def chat_body(text: str, *, stream: bool) -> bytes:
    if not stream:
        return json.dumps(whole_answer(text)).encode()
    return b"".join([*HELLO[:1], chunk({"content": text}), chunk({}, "stop"), usage(), DONE])


Frame = Callable[[bytes, str], bytes]
FRAMINGS: dict[str, Frame] = {
    "content-length": lambda body, kind: with_length(body, kind=kind),
    "chunked": lambda body, kind: chunked(body, kind=kind),
    "trailers": lambda body, kind: chunked(body, kind=kind, trailers=b"x-sum: 1\r\n"),
    "gzip": gzip_with_length,
    "gzip in chunks": gzip_chunked,
}


@dataclass
class AnswersTwice:
    """Answers, and writes a second answer that nobody asked for: in one segment, or apart."""

    framing: Frame
    stream: bool
    apart: bool
    late: int = 0
    """Number of late answers written."""

    def encode(self, text: str) -> bytes:
        kind = STREAM if self.stream else JSON
        return self.framing(chat_body(text, stream=self.stream), kind)

    def has_written(self, count: int) -> bool:
        return self.late == count

    async def script(self, request: ReceivedRequest, connection: Connection) -> None:
        own = request.body["messages"][-1]["content"]
        late = self.encode(f"late, after {own}")
        connection.write(self.encode(own) + (b"" if self.apart else late))
        if self.apart:
            await let_others_read()
            connection.write(late)
        self.late += 1


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "in_one_segment"])
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_each_client_gets_its_own_answer_from_an_upstream_that_answers_twice(
    shared_gateway: SharedGateway, framing: str, apart: bool, stream: bool
) -> None:
    twice = AnswersTwice(FRAMINGS[framing], stream=stream, apart=apart)
    for number in range(10):
        own = f"number {number}"
        answer = await shared_gateway.post_request(
            twice.script, input=own, stream=stream, store=False
        )
        assert answer.response["status"] == "completed"
        assert answer.text == own
        await until(partial(twice.has_written, number + 1), "a late answer is written")


# Broken chunks

BROKEN = {
    "no size": b"zz\r\n",
    "a negative size": b"-5\r\nHello\r\n",
    "a size beyond 64 bits": b"fffffffffffffffff\r\n",
    "more data than the size": b"2\r\nHello\r\n",
    "an empty line": b"\r\n\r\n",
    "another answer inside": b"HTTP/1.1 200 OK\r\n\r\n",
}


def break_chunks(*chunks: bytes, broken: bytes, kind: str = STREAM) -> Script:
    """Send good chunks, then broken framing, and leave the connection open."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=kind)
        for each in chunks:
            await connection.send(each)
        await let_others_read()
        connection.write(broken)
        await connection.wait_disconnected()

    return script


@pytest.mark.parametrize("broken", BROKEN)
async def test_broken_chunks_end_a_stream_at_once_with_one_terminal_event(
    shared_gateway: SharedGateway, broken: str
) -> None:
    async with asyncio.timeout(LIMIT_S):  # `idle_s` is 120
        answer = await shared_gateway.post_request(
            break_chunks(*HELLO, broken=BROKEN[broken]), stream=True, store=False
        )
    kinds = [event["type"] for event in answer.events]
    assert [kind for kind in kinds if kind in TERMINALS] == kinds[-1:] == ["response.failed"]
    response = answer.events[-1]["response"]
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert "cannot be parsed" in response["error"]["message"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("broken", BROKEN)
async def test_broken_chunks_before_output_are_a_502_at_once(
    shared_gateway: SharedGateway, broken: str, stream: bool
) -> None:
    script = break_chunks(b'{"id": "c1", ', broken=BROKEN[broken], kind=STREAM if stream else JSON)
    async with asyncio.timeout(LIMIT_S):  # `total_s` is 3600
        answer = await shared_gateway.post_request(script, stream=stream, store=False)
    assert (answer.status, answer.error["code"]) == (502, "server_error")
    assert "cannot be parsed" in answer.error["message"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_broken_chunks_in_the_segment_of_the_head_are_a_502_at_once(
    shared_gateway: SharedGateway, stream: bool
) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        await connection.wait_disconnected()

    async with asyncio.timeout(LIMIT_S):
        answer = await shared_gateway.post_request(script, stream=stream, store=False)
    assert (answer.status, answer.error["code"]) == (502, "server_error")
    assert "cannot be parsed" in answer.error["message"]


async def test_broken_chunks_after_the_finish_reason_leave_the_answer_complete(
    shared_gateway: SharedGateway,
) -> None:
    script = break_chunks(*HELLO, chunk({}, "stop"), broken=b"zz\r\n")
    async with asyncio.timeout(LIMIT_S):
        answer = await shared_gateway.post_request(script, stream=True, store=False)
    assert answer.events[-1]["type"] == "response.completed"
