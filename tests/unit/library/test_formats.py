"""Client formats in the library: translator, replay and render."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

import antiphon
from antiphon.core.events import Event
from antiphon.library.formats import Format
from tests.support.tables import table

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hi"}],
    "stream": True,
}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 100}
RESPONSES: dict[str, Any] = {"model": "m", "input": "Hi", "stream": True}
REQUESTS: dict[Format, dict[str, Any]] = {
    "responses": RESPONSES,
    "chat": CHAT,
    "messages": MESSAGES,
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


ANSWER = chunk({"content": "Hel"}) + chunk({"content": "lo"}, "stop") + b"data: [DONE]\n\n"


def text_of(format: Format, document: dict[str, Any]) -> str:
    if format == "chat":
        return str(document["choices"][0]["message"]["content"])
    if format == "messages":
        return str(document["content"][0]["text"])
    return antiphon.output_text(document)


LAST: dict[Format, Any] = {
    "responses": lambda event: event["type"] == "response.completed",
    "chat": lambda chunk: chunk["choices"][0]["finish_reason"] == "stop",
    "messages": lambda event: event["type"] == "message_stop",
}


@table("format", REQUESTS)
def test_a_translator_speaks_the_format_of_its_client(format: Format) -> None:
    translator = antiphon.Translator(REQUESTS[format], provider="deepseek", format=format)
    sent = json.loads(translator.outbound.body)
    assert sent["messages"][-1] == {"role": "user", "content": "Hi"}
    events = [*translator.feed(ANSWER), *translator.close()]
    assert LAST[format](events[-1])
    assert text_of(format, translator.response) == "Hello"
    whole = antiphon.Translator(REQUESTS[format], provider="deepseek", format=format)
    whole.fail("the connection broke")
    assert whole.response["error"]


@table("format", REQUESTS)
def test_a_recording_is_replayed_in_the_format_of_a_client(format: Format) -> None:
    plain = antiphon.replay(ANSWER, format=format)
    with_request = antiphon.replay(
        ANSWER, request=REQUESTS[format] | {"model": "p/m"}, format=format
    )
    cut = antiphon.replay(ANSWER, cuts=range(len(ANSWER)), format=format)
    for events in (with_request, cut):
        assert any(LAST[format](event) for event in events if event.get("choices") != [])
    assert [event.get("type") for event in plain] == [event.get("type") for event in cut]


def made_events() -> list[Event]:
    machine = antiphon.ResponseMachine()
    events = machine.start()
    for delta in antiphon.parse_delta({"text": "Hello", "finishReason": "stop"}):
        events += machine.feed(delta)
    return [*events, *machine.finish()]


def test_events_are_rendered_as_a_stream() -> None:
    events = made_events()
    chat = antiphon.render(events, "chat")
    assert chat.endswith(b"data: [DONE]\n\n")
    assert b'"usage"' in chat
    assert b"event: message_stop" in antiphon.render(events, "messages")
    assert b"response.completed" in antiphon.render(events, "responses", client="codex")
    assert antiphon.render([], "messages") == b""


def test_an_unknown_format_is_an_error_that_names_the_known_ones() -> None:
    unknown: Any = "completions"
    with pytest.raises(antiphon.InvalidRequest, match="'responses', 'messages', 'chat'"):
        antiphon.render(made_events(), unknown)


def test_an_asgi_application_has_the_routes_of_all_formats() -> None:
    app = antiphon.asgi_app()
    with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        for path, format in (("responses", "responses"), ("chat/completions", "chat")):
            body = {**REQUESTS[format], "model": "echo/echo", "stream": False}  # type: ignore[index]
            assert client.post(f"/v1/{path}", json=body).status_code == 200
        body = {**MESSAGES, "model": "echo/echo", "stream": False}
        assert client.post("/v1/messages", json=body).json()["content"][0]["text"] == "Hi"
        assert client.post("/v1/messages/count_tokens", json=body).json()["input_tokens"] > 0
