"""HTTP paths, methods, limits and health, with errors in the shape of the API."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.gateways import Running, running, settings

BODY = json.dumps({"model": "echo/echo", "input": "Hello"}).encode()
LIMIT = 10_000
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    config = settings(tmp_path_factory.mktemp("surface"), max_body_bytes=LIMIT)
    async with running(config) as started:
        yield started


async def ask(
    gateway: Running, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Any, Any]:
    """Status, headers and JSON of the answer."""
    url = gateway.base_url.removesuffix("/v1") + path
    given = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with gateway.client.request(method, url, data=body or None, headers=given) as response:
        return response.status, response.headers, await response.json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("POST", "/v1/responses/", 404),
        ("GET", "/v1/responses/resp_1", 404),
        ("POST", "/v1/completions", 404),
        ("GET", "/v1/responses", 405),
        ("DELETE", "/v1/responses", 405),
        ("OPTIONS", "/v1/responses", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/health", 405),
    ],
)
async def test_routing_errors_have_the_error_shape_of_the_api(
    gateway: Running, method: str, path: str, status: int
) -> None:
    answered, headers, document = await ask(gateway, method, path)
    assert answered == status
    assert set(document["error"]) == {"message", "type", "param", "code"}
    assert headers["x-request-id"].startswith("req_")
    assert ("allow" in headers) == (status == 405)


async def test_a_body_over_the_limit_is_rejected_compressed_or_not(gateway: Running) -> None:
    large = json.dumps({"model": "echo/echo", "input": "x" * LIMIT}).encode()
    for body, headers in ((large, {}), (gzip.compress(large), {"content_encoding": "gzip"})):
        status, _, document = await ask(gateway, "POST", "/v1/responses", body, **headers)
        assert (status, document["error"]["code"]) == (413, "request_too_large")


async def test_a_compressed_body_is_decompressed(gateway: Running) -> None:
    packed = gzip.compress(BODY)
    status, _, document = await ask(
        gateway, "POST", "/v1/responses", packed, content_encoding="gzip"
    )
    assert (status, document["status"]) == (200, "completed")


async def test_a_body_that_does_not_match_its_content_encoding_is_a_400(gateway: Running) -> None:
    status, _, document = await ask(gateway, "POST", "/v1/responses", BODY, content_encoding="gzip")
    assert (status, document["error"]["type"]) == (400, "invalid_request_error")


async def test_an_unparsable_body_is_not_logged(
    gateway: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.gateway.port)
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head + b"a secret instead of a chunk")
    assert b"400 Bad Request" in await reader.read()
    writer.close()
    assert "secret" not in caplog.text + str(gateway.log)


async def test_every_response_has_a_unique_request_id(gateway: Running) -> None:
    ids = [(await ask(gateway, "POST", "/v1/responses", BODY))[1]["x-request-id"] for _ in "12"]
    assert len(set(ids)) == 2


async def test_a_gateway_that_runs_is_alive_and_ready(gateway: Running) -> None:
    for path in ("/health", "/health/live", "/health/ready"):
        status, _, document = await ask(gateway, "GET", path)
        assert (status, document["status"]) == (200, "ok")


async def test_stream_headers_forbid_buffering_and_compression(gateway: Running) -> None:
    body = json.dumps({"model": "echo/echo", "input": "Hello", "stream": True}).encode()
    headers = {**JSON, "accept-encoding": "gzip"}
    url = f"{gateway.base_url}/responses"
    async with gateway.client.post(url, data=body, headers=headers) as response:
        assert response.content_type == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        assert "content-encoding" not in response.headers
        assert "openai-model" not in response.headers
        frames = (await response.read()).decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    for frame in frames[:-2]:
        event, _, data = frame.partition("\n")
        assert event == f"event: {json.loads(data.removeprefix('data: '))['type']}"
