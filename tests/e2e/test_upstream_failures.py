"""Upstream failures: the client gets one error in the shape of the API."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    frame,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)
from tests.support.waiting import LIMIT_S


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("stage")) as shared_gateway:
        yield shared_gateway


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
async def test_upstream_statuses_are_mapped_to_gateway_statuses(
    shared_gateway: SharedGateway, failure: tuple[int, Any, int, str], stream: bool
) -> None:
    status, body, expected_status, expected_code = failure
    answer = await shared_gateway.post_request(send_json(status, body), stream=stream)
    assert (answer.status, answer.error["code"]) == (expected_status, expected_code)
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(("status", "body"), [(413, OPENAI), (400, TOO_LONG)], ids=["413", "400"])
async def test_a_context_overflow_is_reported_inside_a_stream(
    shared_gateway: SharedGateway, status: int, body: Any
) -> None:
    streamed = await shared_gateway.post_request(send_json(status, body), stream=True)
    unstreamed = await shared_gateway.post_request(send_json(status, body))
    assert streamed.status == 200
    assert streamed.error["code"] == "context_length_exceeded"
    assert (unstreamed.status, unstreamed.error["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("given", "seconds", "milliseconds"),
    [
        ("7", "7", "7000"),
        ("0.2", "1", "200"),
        ("2.4", "3", "2400"),
        ("0", "1", "0"),
    ],
)
async def test_retry_after_of_the_upstream_is_passed_on(
    shared_gateway: SharedGateway, given: str, seconds: str, milliseconds: str
) -> None:
    """Fractions of seconds are rounded up, so that clients do not retry too early."""
    answer = await shared_gateway.post_request(
        send_json(429, OPENAI, retry_after=given), stream=True
    )
    assert answer.status == 429
    assert answer.headers["retry-after"] == seconds
    assert answer.headers["retry-after-ms"] == milliseconds


@pytest.mark.parametrize("given", ["soon", "-3", "nan", "inf", "1e999", "9" * 400, "\xff", ""])
async def test_a_malformed_retry_after_is_ignored(
    shared_gateway: SharedGateway, given: str
) -> None:
    answer = await shared_gateway.post_request(
        send_json(429, OPENAI, retry_after=given), stream=True
    )
    assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")
    assert float(answer.headers.get("retry-after", 0)) < 10**9


async def test_an_error_body_may_be_cut_off(shared_gateway: SharedGateway) -> None:
    """The status is enough for classification."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(429, content_type="application/json")
        await connection.send(b'{"error": {"mess')
        connection.cut()

    answer = await shared_gateway.post_request(script, stream=True)
    assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")


async def test_an_endless_error_body_is_limited(shared_gateway: SharedGateway) -> None:
    """A limited part is read, then the connection is closed."""
    gone = asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(500, content_type="text/plain")
        try:
            while True:
                await connection.send(b"overloaded " * 5000)
        except ConnectionError:
            gone.set()
            raise

    answer = await shared_gateway.post_request(script, stream=True)
    await asyncio.wait_for(gone.wait(), LIMIT_S)
    assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(shared_gateway: SharedGateway, status: int) -> None:
    """A redirect would send the provider's key to another host."""
    async with upstream(send_frames(HELLO_WORLD)) as elsewhere:
        moved = send_json(status, "moved", location=f"{elsewhere.url}/chat/completions")
        answer = await shared_gateway.post_request(moved, stream=True)
    assert (answer.status, answer.error["type"]) == (502, "server_error")
    assert "base URL" in answer.error["message"]
    assert not elsewhere.requests


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
    shared_gateway: SharedGateway, error: Any, status: int, code: str, stream: bool
) -> None:
    failing = send_frames((frame({"error": error}), DONE))
    answer = await shared_gateway.post_request(failing, stream=stream)
    assert (answer.status, answer.error["code"]) == (status, code)


async def test_a_context_overflow_inside_a_200_is_reported_inside_the_stream(
    shared_gateway: SharedGateway,
) -> None:
    answer = await shared_gateway.post_request(send_frames((frame(TOO_LONG), DONE)), stream=True)
    assert answer.status == 200
    assert answer.error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("body", [OPENAI, MINIMAX_ARREARS], ids=["error", "base_resp"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_error_document_with_status_200_is_an_http_error(
    shared_gateway: SharedGateway, body: Any, stream: bool
) -> None:
    answer = await shared_gateway.post_request(send_json(200, body), stream=stream)
    assert answer.status >= 400


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
async def test_a_whole_answer_to_a_streamed_request_is_streamed(
    shared_gateway: SharedGateway, content_type: str
) -> None:
    script = send_json(200, whole_answer("Hello"), content_type=content_type)
    answer = await shared_gateway.post_request(script, stream=True)
    assert answer.text == "Hello"
    assert answer.response["status"] == "completed"
    assert answer.response["usage"]["total_tokens"] == 10


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_stream_is_read_whether_requested_or_not_and_whatever_its_type(
    shared_gateway: SharedGateway, content_type: str, stream: bool
) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=content_type)
        for each in HELLO_WORLD:
            await connection.send(each)
        await connection.end()

    answer = await shared_gateway.post_request(script, stream=stream)
    assert answer.text == "Hello, world"
    assert answer.response["status"] == "completed"


def raw_answer(data: bytes) -> Script:
    """Make a script that writes raw bytes in place of an HTTP answer and closes."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        connection.write(data)
        connection.cut()

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
async def test_an_unreadable_body_is_a_502(
    shared_gateway: SharedGateway, data: bytes, stream: bool
) -> None:
    answer = await shared_gateway.post_request(raw_answer(data), stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "server_error")


@pytest.mark.parametrize(
    "noise", [b"data: {nope}\n\n", b"data: \xff\xfe\n\n", b"\x00\x01\x02\n\ndata: {]\n\n"]
)
async def test_unreadable_frames_after_output_fail_the_response(
    shared_gateway: SharedGateway, noise: bytes
) -> None:
    answer = await shared_gateway.post_request(send_frames((*HELLO, noise)), stream=True)
    assert answer.response["status"] == "failed"
    assert answer.error["code"] == "server_error"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_compressed_answer_is_read(shared_gateway: SharedGateway, stream: bool) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        body = (
            b"".join(HELLO_WORLD)
            if request.body.get("stream")
            else json.dumps(whole_answer("Hello"))
        )
        packed = gzip.compress(body if isinstance(body, bytes) else body.encode())
        await connection.head(content_encoding="gzip")
        for begin in range(0, len(packed), 50):
            await connection.send(packed[begin : begin + 50])
        await connection.end()

    answer = await shared_gateway.post_request(script, stream=stream)
    assert answer.text.startswith("Hello")


async def test_an_answer_may_have_large_headers(shared_gateway: SharedGateway) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_security_policy="x" * 40_000)
        for each in HELLO_WORLD:
            await connection.send(each)
        await connection.end()

    answer = await shared_gateway.post_request(script, stream=True)
    assert answer.text == "Hello, world"


async def test_a_compressed_answer_that_is_cut_fails(shared_gateway: SharedGateway) -> None:
    packed = gzip.compress(b"".join(HELLO_WORLD))

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_encoding="gzip")
        await connection.send(packed[: len(packed) // 2])
        await connection.end()

    answer = await shared_gateway.post_request(script, stream=True)
    assert answer.status == 502 or answer.response["status"] == "failed"
