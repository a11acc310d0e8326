"""The gateway as an HTTP server: statuses, headers, bodies and limits."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_answers import Answer, check_answer, check_error_answer, send_raw
from tests.support.gateways import Running
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_reader import open_stream
from tests.support.upstream import HELLO_WORLD, send_frames

LIMIT = 20_000
REQUEST = {"model": "echo/echo", "input": "Hello?"}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(
        tmp_path_factory.mktemp("stage"), max_body_bytes=LIMIT
    ) as shared_gateway:
        yield shared_gateway


@pytest.fixture
def gateway(shared_gateway: SharedGateway) -> Running:
    return shared_gateway.gateway


async def post(gateway: Running, data: bytes, **headers: str) -> Answer:
    return await send_raw(
        gateway, "POST", "/v1/responses", data, **{"content_type": "application/json", **headers}
    )


# Where and how


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/responses", "POST"),
        ("DELETE", "/v1/responses", "POST"),
        ("PATCH", "/v1/responses", "POST"),
        ("OPTIONS", "/v1/responses", "POST"),
        ("GET", "/v1/responses", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models", "GET"),
        ("POST", "/health", "GET"),
    ],
)
async def test_an_unsupported_method_is_a_405_with_allow(
    gateway: Running, method: str, path: str, allowed: str
) -> None:
    answer = await send_raw(gateway, method, path)
    check_answer(answer)
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert allowed in answer.headers["allow"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/response",
        "/v1/responses/",
        "/response",
        "/v1/responses/resp_1/output",
        "/v1/%2e%2e/etc/passwd",
        "/v1/r%C3%A9sponses",
        "/healthy",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_path_is_a_404(gateway: Running, method: str, path: str) -> None:
    answer = await send_raw(gateway, method, path)
    check_answer(answer)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"],
)
async def test_a_body_without_a_json_content_type_is_rejected(
    gateway: Running, content_type: str
) -> None:
    """A web page of another origin can send these content types without a CORS preflight."""
    answer = await post(gateway, json.dumps(REQUEST).encode(), content_type=content_type)
    check_answer(answer)
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"]
)
async def test_a_json_content_type_is_accepted(gateway: Running, content_type: str) -> None:
    answer = await post(gateway, json.dumps(REQUEST).encode(), content_type=content_type)
    check_answer(answer)
    assert answer.text == "Hello?"


BAD_BODIES: Mapping[str, bytes] = {
    "nothing": b"",
    "a space": b" ",
    "no json": b"{nope}",
    "half": b'{"model": "echo/echo", "input": "He',
    "a list": b"[]",
    "a string": b'"hello"',
    "null": b"null",
    "a number": b"1",
    "bad utf-8": b'{"model": "echo/echo", "input": "\xff\xfe"}',
    "a lone surrogate": b'{"model": "echo/echo", "input": "\\ud800"}',
    "utf-16": '{"model": "echo/echo"}'.encode("utf-16"),
    "two documents": b"{} {}",
    "nan": b'{"model": "echo/echo", "input": "x", "temperature": NaN}',
    "deep": b'{"model": "echo/echo", "input": ' + b"[" * 9000 + b"]" * 9000 + b"}",
    "no model": b'{"input": "x"}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_body_that_is_not_a_json_object_is_a_400(gateway: Running, body: bytes) -> None:
    answer = await post(gateway, body)
    check_answer(answer)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
async def test_a_body_over_the_limit_is_a_413(gateway: Running, chunked: bool) -> None:
    body = json.dumps({**REQUEST, "input": "x" * LIMIT}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), 4096):
            yield body[begin : begin + 4096]

    url = f"{gateway.base_url}/responses"
    headers = {"content-type": "application/json"}
    data: Any = pieces() if chunked else body
    async with gateway.client.post(url, data=data, headers=headers) as response:
        answer = Answer(response.status, response.headers, await response.read())
    check_answer(answer)
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")


async def test_a_body_at_the_limit_is_served(gateway: Running) -> None:
    overhead = len(json.dumps({**REQUEST, "input": ""}))
    body = json.dumps({**REQUEST, "input": "x" * (LIMIT - overhead)}).encode()
    assert len(body) == LIMIT
    answer = await post(gateway, body)
    assert answer.status == 200


async def test_a_compressed_body_that_expands_over_the_limit_is_a_413(gateway: Running) -> None:
    bomb = gzip.compress(b" " * 50_000_000 + json.dumps(REQUEST).encode())
    assert len(bomb) > LIMIT / 2
    answer = await post(gateway, bomb[:LIMIT], content_encoding="gzip")
    check_answer(answer)
    assert answer.status in (400, 413)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_not_compressed_as_declared_is_a_400(gateway: Running, encoding: str) -> None:
    answer = await post(gateway, json.dumps(REQUEST).encode(), content_encoding=encoding)
    check_answer(answer)
    assert answer.status == 400


async def test_a_compressed_body_is_read(gateway: Running) -> None:
    answer = await post(
        gateway, gzip.compress(json.dumps(REQUEST).encode()), content_encoding="gzip"
    )
    assert answer.text == "Hello?"


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/responses?model=x"], ids=["plain", "with a query"]
)
async def test_an_incomplete_websocket_handshake_is_a_400(gateway: Running, path: str) -> None:
    answer = await send_raw(gateway, "GET", path, connection="Upgrade", upgrade="websocket")
    check_error_answer(answer)
    assert answer.status == 400
    assert answer.headers["x-request-id"].startswith("req_")


# What is not even HTTP

NOT_HTTP: Mapping[str, bytes] = {
    "noise": bytes(range(1, 128)) + b"\r\n\r\n",
    "a bad request line": b"POST\r\n\r\n",
    "a bad version": b"POST /v1/responses HTTP/9.9\r\nhost: localhost\r\n\r\n",
    "a bad header": b"POST /v1/responses HTTP/1.1\r\nhost localhost\r\n\r\n",
    "a bad length": b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
    "a bad chunk": b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\n"
    b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "huge headers": b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 200_000,
    "an expectation": b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nexpect: moon\r\n"
    b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("data", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_invalid_http_is_a_4xx(gateway: Running, data: bytes) -> None:
    async with open_stream(gateway.gateway.port) as listener:
        listener.write(data)
        await listener.head()
    assert 400 <= listener.status < 500


# The same on every answer


async def test_every_response_has_a_unique_request_id(gateway: Running) -> None:
    body = json.dumps(REQUEST).encode()
    streamed = json.dumps({**REQUEST, "stream": True}).encode()
    failing = json.dumps({**REQUEST, "model": "echo/error-500"}).encode()
    answers = [
        await post(gateway, body),
        await post(gateway, streamed),
        await post(gateway, failing),
        await post(gateway, b"{}"),
        await send_raw(gateway, "GET", "/v1/models"),
        await send_raw(gateway, "GET", "/health"),
        await send_raw(gateway, "GET", "/nowhere"),
        await send_raw(gateway, "PUT", "/v1/responses"),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(each.startswith("req_") for each in ids)
    assert len(set(ids)) == len(ids)


async def test_the_log_has_the_request_id_of_the_response(gateway: Running) -> None:
    gateway.log.clear()
    answer = await post(gateway, json.dumps(REQUEST).encode())
    [entry] = gateway.log
    assert entry.facts["response_id"] == answer.response["id"]


async def test_a_stream_has_the_headers_of_an_event_stream(gateway: Running) -> None:
    answer = await post(gateway, json.dumps({**REQUEST, "stream": True}).encode())
    check_answer(answer)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert "content-encoding" not in answer.headers
    assert "content-length" not in answer.headers
    frames = answer.body.decode().removesuffix("data: [DONE]\n\n").split("\n\n")[:-1]
    for frame, event in zip(frames, answer.events, strict=True):
        name, data = frame.split("\n")
        assert name == f"event: {event['type']}"
        assert data.startswith("data: {")
        assert "\r" not in frame


async def test_an_http_1_0_client_gets_the_stream(
    gateway: Running,
) -> None:
    body = json.dumps({**REQUEST, "stream": True}).encode()
    head = b"POST /v1/responses HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    async with open_stream(gateway.gateway.port) as listener:
        listener.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        data = await listener.read_until_close()
    assert "transfer-encoding" not in listener.headers
    check_answer(Answer(listener.status, listener.headers, data))


async def test_a_body_with_expect_100_continue_is_accepted(gateway: Running) -> None:
    """curl sends it with large bodies."""
    body = json.dumps(REQUEST).encode()
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    async with open_stream(gateway.gateway.port) as listener:
        listener.write(head + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
        await listener.head()
        assert listener.status == 100
        listener.write(body)
        await listener.head()
        answer = await listener.rest()
    assert answer.text == "Hello?"


async def test_the_response_names_the_requested_model(shared_gateway: SharedGateway) -> None:
    """Codex shows a warning if an `openai-model` header names another model."""
    answer = await shared_gateway.post_request(send_frames(HELLO_WORLD), stream=True)
    assert "openai-model" not in answer.headers
    assert answer.response["model"].startswith("play-")


async def test_internal_errors_are_logged_and_not_sent_to_the_client(
    tmp_path: Path,
) -> None:
    """The error message names a file of the gateway."""
    async with open_shared_gateway(tmp_path) as shared_gateway:
        await shared_gateway.gateway.engine.services.store.close()
        answer = await shared_gateway.post_request(
            send_frames(HELLO_WORLD), previous_response_id="resp_1"
        )
        request_id = answer.headers["x-request-id"]
        log = shared_gateway.gateway.log
        [entry] = [each for each in log if each.facts.get("request_id") == request_id]
    assert (answer.status, answer.error["code"]) == (500, "server_error")
    assert "turns.db" not in answer.body.decode()
    assert "turns.db" in entry.facts["reason"]
