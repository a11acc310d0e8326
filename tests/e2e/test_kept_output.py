"""What a provider sent before a failure is kept, streamed and whole by one rule (ADR 0083)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import AttemptConfig, ProviderConfig
from tests.support.client_answers import Answer, post_request
from tests.support.failing_providers import STREAMED_AND_WHOLE
from tests.support.gateways import replaced, running, settings
from tests.support.traces import read_trace
from tests.support.upstream import (
    DONE,
    HELLO,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    send_frames,
    send_json,
    upstream,
)

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CUT_CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"city": "Ro'},
}


def chat(message: dict[str, Any], finish: str) -> Script:
    """Send one message, as a stream or whole, as the request wants it."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if request.body.get("stream"):
            await connection.head()
            await connection.send(
                frame({"choices": [{"index": 0, "delta": message, "finish_reason": None}]})
            )
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
            await connection.send(frame(last) + DONE)
        else:
            await connection.head(content_type="application/json")
            body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
            await connection.send(json.dumps(body).encode())
        await connection.end()

    return script


def gemini(candidate: dict[str, Any]) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        document = {"candidates": [candidate], "modelVersion": "g"}
        if "stream" in request.path:
            await connection.head()
            await connection.send(frame(document))
        else:
            await connection.head(content_type="application/json")
            await connection.send(json.dumps(document).encode())
        await connection.end()

    return script


async def send(
    tmp_path: Path, script: Script, *, kind: str = "chat", **body: Any
) -> tuple[Answer, int]:
    """Send a request to a gateway that retries; return the answer and the number of attempts."""
    async with upstream(script) as server:
        config = settings(tmp_path)
        provider = ProviderConfig(kind=kind, base_url=server.url, api_keys=["k"])
        config = replaced(
            config, providers={"up": provider}, attempts=AttemptConfig(max_attempts=2)
        )
        async with running(config) as gateway:
            answer = await post_request(gateway, {"model": "up/m", "input": "Hi", **body})
    return answer, len(server.requests)


def text_of(response: dict[str, Any]) -> str:
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


@STREAMED_AND_WHOLE
async def test_text_beside_a_truncated_call_is_kept_and_the_call_is_marked(
    tmp_path: Path, stream: bool
) -> None:
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": [CUT_CALL]}
    answer, attempts = await send(
        tmp_path, chat(message, "tool_calls"), tools=[TOOL], stream=stream
    )
    assert (answer.status, attempts) == (200, 1)
    response = answer.response
    assert response["status"] == "failed"
    assert response["error"]["code"] == "server_error"
    assert text_of(response) == "Let me look."
    [call] = [item for item in response["output"] if item["type"] == "function_call"]
    assert (call["status"], call["arguments"]) == ("incomplete", '{"city": "Ro')


@STREAMED_AND_WHOLE
async def test_a_truncated_call_of_a_special_tool_is_marked_as_a_function_call(
    tmp_path: Path, stream: bool
) -> None:
    call = {**CUT_CALL, "function": {"name": "local_shell", "arguments": '{"command": ["ls'}}
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": [call]}
    answer, _ = await send(
        tmp_path, chat(message, "tool_calls"), tools=[{"type": "local_shell"}], stream=stream
    )
    [marked] = [item for item in answer.response["output"] if item["type"] != "message"]
    assert (marked["type"], marked["status"]) == ("function_call", "incomplete")
    assert marked["arguments"] == '{"command": ["ls'


@STREAMED_AND_WHOLE
async def test_text_beside_an_unexpected_tool_call_of_gemini_is_kept(
    tmp_path: Path, stream: bool
) -> None:
    parts = [{"text": "Let me look."}]
    candidate = {"content": {"parts": parts}, "finishReason": "UNEXPECTED_TOOL_CALL"}
    answer, attempts = await send(tmp_path, gemini(candidate), kind="gemini", stream=stream)
    assert (answer.status, attempts) == (200, 1)
    assert (answer.response["status"], text_of(answer.response)) == ("failed", "Let me look.")


@STREAMED_AND_WHOLE
async def test_without_any_output_an_unexpected_tool_call_is_tried_again(
    tmp_path: Path, stream: bool
) -> None:
    candidate = {"finishReason": "UNEXPECTED_TOOL_CALL"}
    answer, attempts = await send(tmp_path, gemini(candidate), kind="gemini", stream=stream)
    assert (answer.status, attempts) == (502, 2)


@STREAMED_AND_WHOLE
async def test_a_filter_that_leaves_no_output_is_an_error_and_is_not_retried(
    tmp_path: Path, stream: bool
) -> None:
    """With output, the response is incomplete: see test_known_defects_stream.py."""
    safety = gemini({"finishReason": "SAFETY"})
    filtered = chat({"role": "assistant", "content": ""}, "content_filter")
    for kind, script in (("gemini", safety), ("chat", filtered)):
        answer, attempts = await send(tmp_path, script, kind=kind, stream=stream)
        assert (answer.status, attempts) == (400, 1)
        assert answer.error["code"] == "invalid_prompt"
        assert "content filter" in answer.error["message"]


@STREAMED_AND_WHOLE
async def test_what_a_filter_left_is_an_incomplete_response(tmp_path: Path, stream: bool) -> None:
    script = gemini({"content": {"parts": [{"text": "Once"}]}, "finishReason": "SAFETY"})
    answer, _ = await send(tmp_path, script, kind="gemini", stream=stream)
    assert (answer.status, answer.response["status"]) == (200, "incomplete")
    assert answer.response["incomplete_details"] == {"reason": "content_filter"}
    assert text_of(answer.response) == "Once"


@STREAMED_AND_WHOLE
async def test_parts_that_clients_do_not_get_are_in_the_diagnostics_and_the_trace(
    tmp_path: Path, stream: bool
) -> None:
    parts = [
        {"thoughtSummary": "**Plan**"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "Done."},
    ]
    script = gemini({"content": {"parts": parts}, "finishReason": "STOP"})
    answer, _ = await send(
        tmp_path, script, kind="gemini", stream=stream, reasoning={"summary": "auto"}
    )
    reasoning, message = answer.response["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "**Plan**"}]
    assert message["content"][0]["text"] == "Done."
    assert "output.dropped:inlineData" in answer.headers["antiphon-diagnostics"]
    detail = read_trace(tmp_path / "trace.db", answer.headers["x-request-id"])
    assert "output.dropped" in [row.code for row in detail.diagnostics]


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


@pytest.mark.parametrize(
    ("kind", "script", "dropped"),
    [
        (
            "chat",
            send_frames((chunk({"images": [IMAGE]}), *HELLO, chunk({}, "stop"), DONE)),
            "images",
        ),
        (
            "chat",
            send_frames((chunk({"audio": {"data": "aGk="}}), *HELLO, chunk({}, "stop"), DONE)),
            "audio",
        ),
        (
            "ollama",
            send_json(200, {"message": {"content": "Hello", "images": ["aGk="]}, "done": True}),
            "images",
        ),
        (
            "anthropic",
            send_json(
                200,
                {
                    "type": "message",
                    "content": [{"type": "hologram"}, {"type": "text", "text": "Hello"}],
                    "stop_reason": "end_turn",
                },
            ),
            "hologram",
        ),
    ],
    ids=["chat images", "chat audio", "ollama", "anthropic"],
)
async def test_output_that_no_item_carries_is_a_diagnostic_of_each_dialect(
    tmp_path: Path, kind: str, script: Script, dropped: str
) -> None:
    answer, _ = await send(tmp_path, script, kind=kind, stream=False)
    assert text_of(answer.response) == "Hello"
    assert f"output.dropped:{dropped}" in answer.headers["antiphon-diagnostics"]
