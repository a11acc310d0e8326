"""However an upstream fails, a client is told one thing, once, in the API's own shape."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
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


def understood(frames: Sequence[bytes], ending: str) -> bytes:
    """What counts of these: at a clean end everything, in a broken line only whole frames."""
    data = b"".join(frames)
    if ending == "end":
        return data
    return b"".join(piece for piece in split(data) if piece.endswith((b"\n\n", b"\r\n\r\n")))


async def deaths_told(tmp_path: Path, frames: Sequence[bytes], ending: str) -> int:
    """The gateway tells what the library makes of the same bytes, or an error before any output."""
    told = 0
    async with served(tmp_path, dying(frames, ending)) as gateway:
        for count in range(len(frames) + 1):
            answer = await ask(gateway, {**STREAMED, "model": str(count)})
            expected = replay(understood(frames[:count], ending))
            if is_silent(expected):
                assert answer.status >= 400, (count, answer)
            elif ending == "reset":  # the kernel may drop what was under way
                assert answer.status in (200, 502), (count, answer)
            else:
                kinds = [event["type"] for event in answer.events]
                assert kinds == [event["type"] for event in expected], count
            told += 1
        assert not gateway.engine.active
    return told


@every_ending
@pytest.mark.parametrize("frames", INVENTED.values(), ids=INVENTED)
async def test_an_upstream_killed_at_any_chunk_leaves_one_terminal_event_or_an_error(
    tmp_path: Path, frames: Sequence[bytes], ending: str
) -> None:
    assert await deaths_told(tmp_path, frames, ending) == len(frames) + 1


@pytest.mark.skipif(not RECORDED, reason=ABSENT)
@every_ending
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recording_killed_at_any_chunk_leaves_one_terminal_event_or_an_error(
    tmp_path: Path, name: str, ending: str
) -> None:
    assert await deaths_told(tmp_path, RECORDED[name], ending) == len(RECORDED[name]) + 1


async def test_an_upstream_that_hangs_up_without_an_answer_is_a_502(tmp_path: Path) -> None:
    async def script(asked: Asked, line: Line) -> None:
        line.cut() if asked.body["model"] == "polite" else line.reset()

    async with served(tmp_path, script) as gateway:
        for model in ("polite", "rude"):
            for stream in (True, False):
                answer = await ask(gateway, {**ASKED, "model": model, "stream": stream})
                assert (answer.status, answer.error["code"]) == (502, "server_error")


# Error statuses

OPENAI = {"error": {"message": "No.", "type": "some_error", "param": None, "code": None}}
NO_MODEL = {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}
TOO_LONG = {"error": {"message": "This model's maximum context length is 8192 tokens."}}
ZHIPU_ARREARS = {"error": {"code": "1113", "message": "余额不足"}}
ZHIPU_BUSY = {"error": {"code": "1305", "message": "当前 API 请求过多"}}
MINIMAX_ARREARS = {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
GOOGLE = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}

# status, vendor's body → our status, our code
FAILURES: Mapping[str, tuple[int, Any, int, str]] = {
    "400": (400, OPENAI, 400, "invalid_prompt"),
    "400 by balance": (400, ZHIPU_ARREARS, 429, "insufficient_quota"),
    "400 by model": (400, NO_MODEL, 404, "model_not_found"),
    "401": (401, OPENAI, 502, "server_error"),
    "402": (402, OPENAI, 429, "insufficient_quota"),
    "403": (403, OPENAI, 502, "server_error"),
    "404": (404, "<html>nginx</html>", 404, "invalid_prompt"),
    "404 by model": (404, NO_MODEL, 404, "model_not_found"),
    "408": (408, OPENAI, 504, "server_error"),
    "422": (422, {"detail": [{"loc": ["body", "n"], "msg": "bad"}]}, 400, "invalid_prompt"),
    "429": (429, OPENAI, 429, "rate_limit_exceeded"),
    "429 by balance": (429, ZHIPU_ARREARS, 429, "insufficient_quota"),
    "429 by load": (429, ZHIPU_BUSY, 503, "server_is_overloaded"),
    "500": (500, OPENAI, 503, "server_error"),
    "500 by balance": (500, MINIMAX_ARREARS, 429, "insufficient_quota"),
    "502": (502, "<html>bad gateway</html>", 503, "server_error"),
    "503": (503, GOOGLE, 503, "server_is_overloaded"),
    "504": (504, "", 504, "server_error"),
    "529": (529, {"type": "error", "error": {"type": "overloaded_error"}}, 503,
            "server_is_overloaded"),
}  # fmt: skip


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_status_of_the_upstream_becomes_ours(
    tmp_path: Path, failure: tuple[int, Any, int, str], stream: bool
) -> None:
    status, body, expected_status, expected_code = failure
    async with served(tmp_path, answering(status, body)) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert (answer.status, answer.error["code"]) == (expected_status, expected_code)
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(("status", "body"), [(413, OPENAI), (400, TOO_LONG)], ids=["413", "400"])
async def test_an_overflow_is_told_inside_a_stream_because_clients_compact_only_then(
    tmp_path: Path, status: int, body: Any
) -> None:
    async with served(tmp_path, answering(status, body)) as gateway:
        streamed, whole = await ask(gateway, STREAMED), await ask(gateway, ASKED)
    assert streamed.status == 200
    assert streamed.error["code"] == "context_length_exceeded"
    assert (whole.status, whole.error["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("given", "seconds", "milliseconds"),
    [
        ("7", "7", "7000"),
        ("0.2", "1", "200"),
        ("2.4", "3", "2400"),
        ("0", "1", "0"),
    ],
)
async def test_a_delay_that_the_upstream_asks_for_is_handed_on(
    tmp_path: Path, given: str, seconds: str, milliseconds: str
) -> None:
    """Whole seconds are rounded up, so that nobody comes back too early."""
    async with served(tmp_path, answering(429, OPENAI, retry_after=given)) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.status == 429
    assert answer.headers["retry-after"] == seconds
    assert answer.headers["retry-after-ms"] == milliseconds


@pytest.mark.parametrize("given", ["soon", "-3", "nan", "inf", "1e999", "9" * 400, "\xff", ""])
async def test_a_delay_that_makes_no_sense_is_no_reason_to_stumble(
    tmp_path: Path, given: str
) -> None:
    async with served(tmp_path, answering(429, OPENAI, retry_after=given)) as gateway:
        answer = await ask(gateway, STREAMED)
    assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")
    assert float(answer.headers.get("retry-after", 0)) < 10**9


async def test_the_body_of_an_error_may_break_off(tmp_path: Path) -> None:
    """The status has said enough."""

    async def script(asked: Asked, line: Line) -> None:
        await line.head(429, content_type="application/json")
        await line.send(b'{"error": {"mess')
        line.cut()

    async with served(tmp_path, script) as gateway:
        answer = await ask(gateway, STREAMED)
    assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")


async def test_the_body_of_an_error_may_never_end(tmp_path: Path) -> None:
    """What is reasonable is read, and then the line is closed."""
    gone = asyncio.Event()

    async def script(asked: Asked, line: Line) -> None:
        await line.head(500, content_type="text/plain")
        try:
            while True:
                await line.send(b"overloaded " * 5000)
        except ConnectionError:
            gone.set()
            raise

    async with served(tmp_path, script) as gateway:
        answer = await ask(gateway, STREAMED)
        await asyncio.wait_for(gone.wait(), 10)
    assert (answer.status, answer.error["code"]) == (503, "server_error")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(tmp_path: Path, status: int) -> None:
    """It would carry the provider's key to whatever place the answer names."""
    async with upstream(playing(HELLO_WORLD)) as elsewhere:
        moved = answering(status, "moved", location=f"{elsewhere.url}/chat/completions")
        async with served(tmp_path, moved) as gateway:
            answer = await ask(gateway, STREAMED)
    assert answer.status >= 400
    assert not elsewhere.asked


# Errors and surprises inside a 200


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ({"message": "Slow down", "code": 429}, 429, "rate_limit_exceeded"),
        (
            {"message": "Insufficient balance", "code": "insufficient_quota"},
            429,
            "insufficient_quota",
        ),
        ({"message": "Overloaded", "type": "overloaded_error"}, 503, "server_is_overloaded"),
        ("something broke", 502, "server_error"),
    ],
)
async def test_a_200_that_begins_with_an_error_is_an_http_error(
    tmp_path: Path, error: Any, status: int, code: str, stream: bool
) -> None:
    failing = playing((frame({"error": error}), DONE))
    async with served(tmp_path, failing) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert (answer.status, answer.error["code"]) == (status, code)


async def test_an_overflow_inside_a_200_is_told_inside_the_stream(tmp_path: Path) -> None:
    async with served(tmp_path, playing((frame(TOO_LONG), DONE))) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.status == 200
    assert answer.error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("body", [OPENAI, MINIMAX_ARREARS], ids=["error", "base_resp"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_error_document_with_status_200_is_an_http_error(
    tmp_path: Path, body: Any, stream: bool
) -> None:
    async with served(tmp_path, answering(200, body)) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert answer.status >= 400


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
async def test_a_whole_answer_to_a_streamed_request_is_streamed(
    tmp_path: Path, content_type: str
) -> None:
    whole = answering(200, WHOLE_ANSWER, content_type=content_type)
    async with served(tmp_path, whole) as gateway:
        answer = await ask(gateway, STREAMED)
    assert said(answer) == "Hello"
    assert answer.response["status"] == "completed"
    assert answer.response["usage"]["total_tokens"] == 10


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_streamed_answer_is_read_whatever_was_asked_for_and_whatever_it_is_called(
    tmp_path: Path, content_type: str, stream: bool
) -> None:
    async def script(asked: Asked, line: Line) -> None:
        await line.head(content_type=content_type)
        for each in HELLO_WORLD:
            await line.send(each)
        await line.end()

    async with served(tmp_path, script) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert said(answer) == "Hello, world"
    assert answer.response["status"] == "completed"


def said(answer: Answer) -> str:
    [message] = answer.response["output"]
    return "".join(part["text"] for part in message["content"])


def raw_answer(data: bytes) -> Script:
    """Bytes in place of an HTTP answer, and the line is closed."""

    async def script(asked: Asked, line: Line) -> None:
        line.write(data)
        line.cut()

    return script


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
NONSENSE: Mapping[str, bytes] = {
    "no http": b"\x16\x03\x01\x02\x00SSH-2.0-moon\r\n\r\n",
    "nothing but noise": bytes(range(256)) * 40,
    "a bad length": HEAD + b"content-length: moon\r\n\r\n",
    "a bad chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\nnope\r\n",
    "no gzip": HEAD + b"content-encoding: gzip\r\ncontent-length: 9\r\n\r\nnot gzip!",
    "an empty body": HEAD + b"content-length: 0\r\n\r\n",
    "a web page": HEAD + b"content-length: 22\r\n\r\n<html>Sign in</html>\r\n",
    "binary frames": HEAD + b"content-length: 17\r\n\r\ndata: \xff\xfe\x00\x01\xc3\x28\x00\n\n\n\n",
    "a frame that is no json": HEAD + b"content-length: 15\r\n\r\ndata: {nope}\n\n\n",
    "a frame of another kind": HEAD + b"content-length: 16\r\n\r\ndata: [1, 2]\n\n\n\n",
    "half a json body": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    b'content-length: 13\r\n\r\n{"choices": [',
    "a deep json body": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    b"content-length: 90001\r\n\r\n{" + b"[" * 90000,
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_in_place_of_an_answer_is_a_502(
    tmp_path: Path, data: bytes, stream: bool
) -> None:
    async with served(tmp_path, raw_answer(data)) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert (answer.status, answer.error["code"]) == (502, "server_error")


@pytest.mark.parametrize(
    "noise", [b"data: {nope}\n\n", b"data: \xff\xfe\n\n", b"\x00\x01\x02\n\ndata: {]\n\n"]
)
async def test_noise_after_the_first_words_fails_the_response(tmp_path: Path, noise: bytes) -> None:
    async with served(tmp_path, playing((*HELLO, noise))) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.response["status"] == "failed"
    assert answer.error["code"] == "server_error"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_compressed_answer_is_read(tmp_path: Path, stream: bool) -> None:
    async def script(asked: Asked, line: Line) -> None:
        body = b"".join(HELLO_WORLD) if asked.body.get("stream") else json.dumps(WHOLE_ANSWER)
        packed = gzip.compress(body if isinstance(body, bytes) else body.encode())
        await line.head(content_encoding="gzip")
        for begin in range(0, len(packed), 50):
            await line.send(packed[begin : begin + 50])
        await line.end()

    async with served(tmp_path, script) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert said(answer).startswith("Hello")


async def test_a_compressed_answer_that_is_cut_fails(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(HELLO_WORLD))

    async def script(asked: Asked, line: Line) -> None:
        await line.head(content_encoding="gzip")
        await line.send(packed[: len(packed) // 2])
        await line.end()

    async with served(tmp_path, script) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.status == 502 or answer.response["status"] == "failed"


# Not there


async def test_a_refused_connection_is_a_502(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    async with running(settings(tmp_path, f"http://127.0.0.1:{port}/v1")) as gateway:
        for stream in (True, False):
            answer = await ask(gateway, {**ASKED, "stream": stream})
            assert (answer.status, answer.error["code"]) == (502, "server_error")


@contextmanager
def full_house() -> Iterator[int]:
    """A port that lets nobody in: its queue is full, and nobody is taken from it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            yield address[1]
        finally:
            for each in waiting:
                each.close()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_connection_that_takes_too_long_is_a_504(tmp_path: Path, stream: bool) -> None:
    with full_house() as port:
        timeouts = TimeoutConfig(connect_s=0.05)
        config = settings(tmp_path, f"http://127.0.0.1:{port}/v1", timeouts=timeouts)
        async with running(config) as gateway:
            answer = await ask(gateway, {**ASKED, "stream": stream})
    assert (answer.status, answer.error["code"]) == (504, "server_error")
    assert "in time" in answer.error["message"]


# Timers


def stalling(*frames: bytes, head: bool = True) -> Script:
    """Send these and then nothing, until the other side hangs up."""

    async def script(asked: Asked, line: Line) -> None:
        if head:
            await line.head()
        for each in frames:
            await line.send(each)
        await line.until_gone()

    return script


@pytest.mark.parametrize(
    "script",
    [
        stalling(head=False),
        stalling(),
        stalling(HELLO[0]),
        stalling(b": working\n\n", b": working\n\n"),
    ],
    ids=["no head", "no byte", "no word", "comments"],
)
async def test_an_upstream_that_does_not_begin_in_time_is_a_504(
    tmp_path: Path, script: Script
) -> None:
    async with served(tmp_path, script, timeouts=TimeoutConfig(first_token_s=0.1)) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.status == 504
    assert "did not begin" in answer.error["message"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_the_whole_time_counts_from_the_beginning(tmp_path: Path, stream: bool) -> None:
    async with served(tmp_path, stalling(), timeouts=TimeoutConfig(total_s=0.1)) as gateway:
        answer = await ask(gateway, {**ASKED, "stream": stream})
    assert answer.status == 504
    assert "in the time allowed" in answer.error["message"]


async def test_an_upstream_that_falls_silent_fails_the_response(tmp_path: Path) -> None:
    async with served(tmp_path, stalling(*HELLO), timeouts=TimeoutConfig(idle_s=0.1)) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.response["status"] == "failed"
    assert "stopped in the middle" in answer.error["message"]
    assert said(answer) == "Hello"


def ticking(first: Sequence[bytes], tick: bytes) -> Script:
    """Send the first frames, and then the same one again and again."""

    async def script(asked: Asked, line: Line) -> None:
        await line.head()
        for each in first:
            await line.send(each)
        while not line.is_gone:
            await line.send(tick)
            await line.pause(0.02)

    return script


async def test_comments_do_not_count_as_an_answer(tmp_path: Path) -> None:
    """A provider that only says that it is still there has fallen silent."""
    script = ticking(HELLO, b": still here\n\n")
    async with served(tmp_path, script, timeouts=TimeoutConfig(idle_s=0.2)) as gateway:
        answer = await ask(gateway, STREAMED)
    assert "stopped in the middle" in answer.error["message"]


async def test_an_upstream_that_goes_on_for_ever_is_stopped(tmp_path: Path) -> None:
    script = ticking(HELLO, chunk({"content": " and"}))
    timeouts = TimeoutConfig(total_s=0.3, idle_s=0.2)
    async with served(tmp_path, script, timeouts=timeouts) as gateway:
        answer = await ask(gateway, STREAMED)
    assert answer.response["status"] == "failed"
    assert "in the time allowed" in answer.error["message"]
    assert said(answer).startswith("Hello and and")


FINISHED = (*HELLO, chunk({}, "stop"))


async def late_usage(asked: Asked, line: Line) -> None:
    await line.head()
    for each in FINISHED:
        await line.send(each)
    await line.pause(0.1)
    await line.send(usage())
    await line.until_gone()


OPEN_LINES: Mapping[str, Script] = {
    "in-pieces": stalling(*FINISHED),
    "in-one-piece": stalling(b"".join(FINISHED)),
    "with-comments": ticking(FINISHED, b": still here\n\n"),
    "with-empty-frames": ticking(FINISHED, frame({"choices": []})),
    "with-late-usage": late_usage,
}


async def test_an_answer_that_is_finished_is_not_held_up_by_an_open_line(tmp_path: Path) -> None:
    """Usage has a short grace to follow; nothing that comes instead makes it longer."""

    async def script(asked: Asked, line: Line) -> None:
        await OPEN_LINES[asked.body["model"]](asked, line)

    async with served(tmp_path, script) as gateway:
        asked = [ask(gateway, {**STREAMED, "model": model}) for model in OPEN_LINES]
        async with asyncio.timeout(10):  # the idle time is far longer than that
            answers = await asyncio.gather(*asked)
    assert {answer.response["status"] for answer in answers} == {"completed"}
    totals = [answer.response["usage"]["total_tokens"] for answer in answers]
    assert totals == [0, 0, 0, 0, 10]
