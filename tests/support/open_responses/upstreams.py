"""A model behind the wire format of each dialect: it answers in one line, or calls a tool.

It calls `get_weather` where the request declares it and has no result yet. The same requests work
with the built-in echo model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.config import ProviderConfig
from tests.support.gateways import Running, replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Call, Turn
from tests.support.upstream import Connection, ReceivedRequest, Script, send_json, upstream

Document = dict[str, Any]

TEXT = "Hello from the model."
ARGUMENTS = {"location": "San Francisco"}
RESULT = "sunny, 21 degrees"
_FIRST = 11  # the first turn of a scripted provider has content that is not needed here
_ANSWER = Turn(_FIRST, text=TEXT)
_CALL = Turn(_FIRST, calls=(Call("get_weather", json.dumps(ARGUMENTS), RESULT),))
_CALL_ID = "call_1"


def _chat(call: bool) -> Document:
    function = {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)}
    calls = [{"id": _CALL_ID, "type": "function", "function": function}]
    message: Document = {"role": "assistant", "content": None if call else TEXT}
    message |= {"tool_calls": calls} if call else {}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return {"id": "c", "model": "m", "choices": [choice], "usage": usage}


def _anthropic(call: bool) -> Document:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": ARGUMENTS}
    return {
        "type": "message",
        "id": "msg",
        "role": "assistant",
        "model": "m",
        "content": [use if call else {"type": "text", "text": TEXT}],
        "stop_reason": "tool_use" if call else "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 5},
    }


def _gemini(call: bool) -> Document:
    part = {"functionCall": {"name": "get_weather", "args": ARGUMENTS}}
    content = {"role": "model", "parts": [part if call else {"text": TEXT}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
    candidate = {"index": 0, "content": content, "finishReason": "STOP"}
    return {"candidates": [candidate], "modelVersion": "m", "usageMetadata": usage}


def _bedrock(call: bool) -> Document:
    use = {"toolUse": {"toolUseId": "t_1", "name": "get_weather", "input": ARGUMENTS}}
    message = {"role": "assistant", "content": [use if call else {"text": TEXT}]}
    usage = {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}
    stop = "tool_use" if call else "end_turn"
    return {"output": {"message": message}, "stopReason": stop, "usage": usage}


def _cohere(call: bool) -> Document:
    function = {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)}
    calls = [{"id": _CALL_ID, "type": "function", "function": function}]
    content = [{"type": "text", "text": TEXT}]
    message: Document = {"role": "assistant"}
    message |= {"tool_calls": calls} if call else {"content": content}
    usage = {"tokens": {"input_tokens": 9, "output_tokens": 5}}
    finish = "TOOL_CALL" if call else "COMPLETE"
    return {"id": "c", "message": message, "finish_reason": finish, "usage": usage}


def _ollama(call: bool) -> Document:
    function = {"name": "get_weather", "arguments": ARGUMENTS}
    message: Document = {"role": "assistant", "content": "" if call else TEXT}
    message |= {"tool_calls": [{"function": function}]} if call else {}
    ended = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 5}
    return {"model": "m", "message": message, **ended}


def _responses(call: bool) -> Document:
    item: Document = {"type": "function_call", "id": "fc_1", "call_id": _CALL_ID}
    item |= {"name": "get_weather", "arguments": json.dumps(ARGUMENTS), "status": "completed"}
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    message: Document = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    answered = {"id": "resp_up", "object": "response", "model": "m", "status": "completed"}
    output = [item if call else {**message, "status": "completed"}]
    return {**answered, "output": output, "usage": usage}


_DIALECTS: Mapping[str, tuple[ScriptedProvider, Callable[[bool], Document]]] = {
    "anthropic": (ScriptedAnthropic(), _anthropic),
    "bedrock": (ScriptedBedrock(), _bedrock),
    "chat": (ScriptedChat(), _chat),
    "cohere": (ScriptedCohere(), _cohere),
    "gemini": (ScriptedGemini(), _gemini),
    "ollama": (ScriptedOllama(), _ollama),
    "responses": (ScriptedResponses(), _responses),
}
BACKENDS = ("echo", *_DIALECTS)
"""Models that every case is run with: the built-in one, and one of each dialect."""


def scripted_model(dialect: str) -> Script:
    scripted, whole = _DIALECTS[dialect]

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        calls = b"get_weather" in request.raw and RESULT.encode() not in request.raw
        if not _is_streamed(request):
            await send_json(200, whole(calls))(request, connection)
            return
        await connection.head(content_type=scripted.content_type)
        await connection.send(scripted.stream_bytes(_CALL if calls else _ANSWER))
        await connection.end()

    return script


def _is_streamed(request: ReceivedRequest) -> bool:
    return request.body.get("stream") is True or "stream" in request.path.rpartition("/")[2]


@asynccontextmanager
async def serve(backend: str, directory: Path) -> AsyncIterator[tuple[Running, str]]:
    """A gateway with one backend, and the name of its model."""
    if backend == "echo":
        async with running(settings(directory)) as gateway:
            yield gateway, "echo/echo"
        return
    async with upstream(scripted_model(backend)) as server:
        entry = ProviderConfig(kind=backend, base_url=server.url, api_keys=["sk-upstream"])
        async with running(replaced(settings(directory), providers={"up": entry})) as gateway:
            yield gateway, "up/m"
