"""WebSockets of the ASGI application, in the test client of Starlette and by hand."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient, WebSocketDenialResponse

import antiphon
from antiphon.config import Config, ServerConfig
from antiphon.errors import InvalidRequest
from antiphon.library.asgi_websocket import ASGIWebSocket
from tests.support.web_sockets import ENDINGS, create_frame

KEYS = Config(server=ServerConfig(api_keys={"alice": "alice-secret"}))
HEADERS = {"authorization": "Bearer alice-secret"}


def header_names(socket: Any) -> list[str]:
    """The headers that the handshake was accepted with."""
    return [name.decode() for name, _ in socket.extra_headers]


def read_turn(socket: Any) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["type"] not in ENDINGS:
        frames.append(socket.receive_json())
    return frames


def test_turns_are_answered_also_below_a_path() -> None:
    application = Starlette(routes=[Mount("/llm", app=antiphon.asgi_app(KEYS))])
    with (
        TestClient(application, headers=HEADERS) as client,
        client.websocket_connect("/llm/v1/responses") as socket,
    ):
        assert header_names(socket) == ["x-request-id"], "the server adds the date by itself"
        socket.send_json(create_frame("one"))
        first = read_turn(socket)[-1]["response"]
        socket.send_json(create_frame("two", previous_response_id=first["id"]))
        assert read_turn(socket)[-1]["response"]["output_text"] == "two"
        socket.send_bytes(b"binary")
        assert read_turn(socket)[-1]["status"] == 400


def test_a_refused_handshake_has_its_status() -> None:
    with (
        TestClient(antiphon.asgi_app(KEYS)) as client,
        pytest.raises(WebSocketDenialResponse) as caught,
        client.websocket_connect("/v1/responses"),
    ):
        pass
    assert caught.value.status_code == 401
    assert caught.value.json()["error"]["code"] == "invalid_api_key"


async def test_a_server_without_denial_responses_closes_the_handshake() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": "websocket", "path": "/v1/responses", "headers": []}
    await antiphon.asgi_app(KEYS)(scope, receive, send)
    assert sent == [{"type": "websocket.close"}]


async def test_the_socket_translates_messages_and_losses() -> None:
    incoming: list[MutableMapping[str, Any]] = [
        {"type": "websocket.receive", "text": "ä"},
        {"type": "websocket.receive", "bytes": b"x"},
        {"type": "websocket.disconnect", "code": 1006},
    ]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return incoming.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        if not incoming:
            raise OSError
        sent.append(message)

    socket = ASGIWebSocket(receive, send)
    assert await socket.receive() == "ä".encode()
    await socket.ping()
    await socket.send(b"{}")
    await socket.close(1001, "over")
    with pytest.raises(InvalidRequest):
        await socket.receive()
    assert await socket.receive() is None
    with pytest.raises(ConnectionError):
        await socket.send(b"{}")
    assert sent == [
        {"type": "websocket.send", "text": "{}"},
        {"type": "websocket.close", "code": 1001, "reason": "over"},
    ]
