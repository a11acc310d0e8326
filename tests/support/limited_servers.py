"""Scripted Chat Completions servers that reject some output formats and tool choices.

`llama_cpp_python` fails as llama-cpp-python 0.3.36 does: with the text of a validation error for an
unknown format, and with an empty message for a tool choice that an assertion rules out.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from tests.support.failing_providers import answer_hello, error
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    send_frames,
    send_json,
    usage,
    whole_answer,
)

Body = dict[str, Any]
VALIDATION_ERROR = (
    "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'),"
    " 'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema', 'ctx':"
    " {'expected': \"'text' or 'json_object'\"}}\n\n  File \"server/app.py\", line 443, in"
    " create_chat_completion\n    POST /v1/chat/completions"
)
REJECTED_FORMAT = error(500, VALIDATION_ERROR, type="internal_server_error", param=None, code=None)
FAILED_ASSERTION = error(500, "", type="internal_server_error", param=None, code=None)
ANSWER = '{"city":"Oslo"}'


def sent_format(body: Body) -> str:
    return str(body.get("response_format", {}).get("type", "text"))


def sent_choice(body: Body) -> str:
    choice = body.get("tool_choice", "auto")
    return choice if isinstance(choice, str) else "function"


def limited_server(
    formats: Collection[str] = ("text", "json_object", "json_schema"),
    choices: Collection[str] = ("auto", "none", "required", "function"),
    *,
    on_format: Script,
    on_choice: Script,
) -> Script:
    """A server with these output formats and tool choices; other requests run a script."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if sent_format(request.body) not in formats:
            await on_format(request, connection)
        elif sent_choice(request.body) not in choices:
            await on_choice(request, connection)
        else:
            await _answer(request, connection)

    return script


def llama_cpp_python() -> Script:
    return limited_server(
        ("text", "json_object"),
        ("auto", "none", "function"),
        on_format=REJECTED_FORMAT,
        on_choice=FAILED_ASSERTION,
    )


async def _answer(request: ReceivedRequest, connection: Connection) -> None:
    body = request.body
    if sent_choice(body) in ("function", "required"):
        await _answer_with_call(body["tools"][-1]["function"]["name"])(request, connection)
    elif "JSON Schema" in json.dumps(body["messages"]) or sent_format(body) != "text":
        await _answer_with_text()(request, connection)
    else:
        await answer_hello(request, connection)


def _answer_with_text() -> Script:
    frames = (chunk({"content": ANSWER}), chunk({}, "stop"), usage(), DONE)
    return _by_stream(send_frames(frames), send_json(200, whole_answer(ANSWER)))


def _answer_with_call(name: str) -> Script:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": ANSWER}}
    whole = whole_answer("", "tool_calls")
    whole["choices"][0]["message"] = {"role": "assistant", "tool_calls": [call]}
    frames = (chunk({"tool_calls": [{"index": 0, **call}]}), chunk({}, "tool_calls"), usage(), DONE)
    return _by_stream(send_frames(frames), send_json(200, whole))


def _by_stream(streamed: Script, at_once: Script) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await (streamed if request.body.get("stream") else at_once)(request, connection)

    return script
