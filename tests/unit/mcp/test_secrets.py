"""Credentials are in no log record, message or value, whatever a server does."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable

import pytest

from antiphon.config import McpConfig
from antiphon.core.mcp.values import McpServer
from tests.support.mcp.raw_servers import Request, http, raw_server, result, session_of
from tests.support.mcp.sessions import open_sessions
from tests.support.tables import table

CANARY = "canary-5d1f0a"
HEADERS = {"Authorization": f"Bearer {CANARY}", "X-Key": f"{CANARY}-2"}


def echo_error(request: Request) -> Iterable[bytes]:
    error = {"code": -32000, "message": f"refused: {request.headers['authorization']}"}
    return http(200, json.dumps({"jsonrpc": "2.0", "id": 2, "error": error}).encode())


def echo_text(request: Request) -> Iterable[bytes]:
    return http(200, request.headers["authorization"].encode())


def echo_status(request: Request) -> Iterable[bytes]:
    return http(401, json.dumps(request.headers).encode())


def echo_stream(request: Request) -> Iterable[bytes]:
    body = f"data: {request.headers['authorization']}\n\n".encode()
    return http(200, body, "text/event-stream")


def succeed(request: Request) -> Iterable[bytes]:
    return result(request, {"content": [{"type": "text", "text": "fine"}]})


def break_off(request: Request) -> Iterable[bytes]:
    return [b"HTTP/1.1 200 OK\r\n"]


REPLIES = [echo_error, echo_text, echo_status, echo_stream, succeed, break_off]


@table("is_open", [False, True])
@table("reply", REPLIES, ids=lambda reply: str(reply.__name__))
async def test_a_credential_is_nowhere_but_in_the_requests(
    reply: Callable[[Request], Iterable[bytes]], is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with raw_server(session_of(reply) if is_open else reply) as server:
        config = McpConfig(allow=[server.url], connect_timeout_s=0.5, idle_timeout_s=0.3)
        named = McpServer(label="a", url=server.url, headers=HEADERS)
        async with open_sessions(config) as sessions:
            listed = await sessions.list_tools(named)
            called = await sessions.call(named, "a", {"secret": f"{CANARY}-3"})
        assert all(CANARY in request.headers["authorization"] for request in server.requests)
    records = [record for record in caplog.records if record.name != "asyncio"]
    assert records == []
    assert CANARY not in f"{caplog.text}{listed!r}{called!r}{named!r}{sessions!r}{vars(sessions)!r}"
