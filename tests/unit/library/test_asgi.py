"""Unit tests of the ASGI application."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import antiphon
from antiphon.config import ClientLimitConfig, Config, LimitConfig, ServerConfig

KEYS = Config(server=ServerConfig(api_keys={"alice": "alice-secret"}))
HEADERS = {"authorization": "Bearer alice-secret"}


def test_a_whole_answer_is_returned() -> None:
    with TestClient(antiphon.asgi_app(KEYS), headers=HEADERS) as client:
        answer = client.post("/v1/responses", json={"model": "echo/echo", "input": "Hello"})
    assert answer.status_code == 200
    assert antiphon.output_text(answer.json()) == "Hello"


def test_a_stream_is_streamed() -> None:
    request = {"model": "echo/echo", "input": "one two", "stream": True}
    with (
        TestClient(antiphon.asgi_app(KEYS), headers=HEADERS) as client,
        client.stream("POST", "/v1/responses", json=request) as answer,
    ):
        lines = list(answer.iter_lines())
    assert answer.headers["content-type"] == "text/event-stream"
    assert lines[0] == "event: response.created"
    assert "data: [DONE]" in lines


def test_it_can_be_mounted_below_a_path() -> None:
    application = Starlette(routes=[Mount("/llm", app=antiphon.asgi_app(KEYS))])
    with TestClient(application, headers=HEADERS) as client:
        answer = client.post("/llm/v1/responses", json={"model": "echo/echo", "input": "Hello"})
        unknown = client.get("/llm/v1/nothing")
    assert answer.json()["status"] == "completed"
    assert unknown.status_code == 404


def test_a_client_without_a_key_is_refused() -> None:
    with TestClient(antiphon.asgi_app(KEYS)) as client:
        answer = client.get("/v1/models")
    assert answer.status_code == 401


async def test_a_client_that_disconnects_ends_the_stream() -> None:
    body = json.dumps({"model": "echo/echo", "input": "one two", "stream": True}).encode()
    requests: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": body},
        {"type": "http.disconnect"},
    ]
    sent: list[MutableMapping[str, Any]] = []
    application = antiphon.asgi_app(KEYS)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "headers": [
            (b"content-type", b"application/json"),
            (b"authorization", b"Bearer alice-secret"),
        ],
    }

    async def receive() -> MutableMapping[str, Any]:
        return requests.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            await asyncio.Future()  # a client that reads no further

    await application(scope, receive, send)
    assert sent[0]["status"] == 200
    assert not any(message.get("more_body") is False for message in sent)


async def test_a_client_that_disconnects_before_its_body_is_complete_gets_no_answer() -> None:
    sent: list[MutableMapping[str, Any]] = []
    headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer alice-secret")]
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": headers}

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await antiphon.asgi_app(KEYS)(scope, receive, send)
    assert sent == []


async def test_a_client_that_is_gone_before_the_head_of_its_stream_ends_the_response() -> None:
    limits = LimitConfig(clients={"alice": ClientLimitConfig(max_streams=1)})
    application = antiphon.asgi_app(Config(server=KEYS.server, limits=limits))
    body = json.dumps({"model": "echo/echo", "input": "one two", "stream": True}).encode()
    headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer alice-secret")]
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": headers}
    statuses: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message["status"])
        raise ConnectionResetError

    for _ in range(2):
        with suppress(ConnectionResetError):
            await application(scope, receive, send)
    assert statuses == [200, 200]


def test_a_compressed_body_is_decompressed() -> None:
    body = gzip.compress(b'{"model": "echo/echo", "input": "Hello"}')
    headers = {**HEADERS, "content-encoding": "gzip", "content-type": "application/json"}
    with TestClient(antiphon.asgi_app(KEYS), headers=headers) as client:
        answer = client.post("/v1/responses", content=body)
        broken = client.post("/v1/responses", content=b"no gzip")
    assert answer.json()["status"] == "completed"
    assert broken.status_code == 400
