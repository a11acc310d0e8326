"""How each vendor answers, in small: a stream, a whole body, and the errors it is known for.

Every answer thinks "Let me see.", says "Rain." and calls `get_weather` with {"city": "Ulm"}.
"""

from __future__ import annotations

import json
from typing import Any

from antiphon.providers import echo

Document = dict[str, Any]

CALL = {"id": "call_1", "type": "function"}
ARGUMENTS = '{"city": "Ulm"}'
WHOLE_CALL = {**CALL, "function": {"name": "get_weather", "arguments": ARGUMENTS}}


def delta(finish: str | None = None, **fields: Any) -> Document:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "x", "model": "m", "object": "chat.completion.chunk", "choices": [choice]}


def streamed(*chunks: Document) -> bytes:
    frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ("".join(frames) + "data: [DONE]\n\n").encode()


def whole(usage: Document, **more: Any) -> bytes:
    message = {
        "role": "assistant",
        "content": "Rain.",
        "reasoning_content": "Let me see.",
        "tool_calls": [WHOLE_CALL],
        **more.pop("message", {}),
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    document = {"id": "x", "model": "m", "object": "chat.completion", "choices": [choice]}
    return json.dumps({**document, "usage": usage, **more}).encode()


def counted(**more: Any) -> Document:
    """Ten tokens in, four of them cached; eight out, five of them thought."""
    return {
        "prompt_tokens": 10,
        "completion_tokens": 8,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
        **more,
    }


def pieces(*arguments: str) -> list[Document]:
    """The chunks of a call whose arguments come in pieces."""
    first = {"index": 0, **CALL, "function": {"name": "get_weather", "arguments": ""}}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in arguments]
    return [delta(tool_calls=[call]) for call in (first, *rest)]


DEEPSEEK_USAGE = counted(prompt_cache_hit_tokens=4, prompt_cache_miss_tokens=6)
OK = {"status_code": 0, "status_msg": ""}
DETAIL = {"type": "reasoning.text", "id": "r", "index": 0, "text": "Let me see."}

STREAMED: dict[str, bytes] = {
    "deepseek": streamed(
        {**delta(role="assistant", content=None, reasoning_content=""), "usage": None},
        delta(content=None, reasoning_content="Let me "),
        delta(content=None, reasoning_content="see."),
        delta(content="Rain.", reasoning_content=None),
        *pieces('{"city"', ': "Ulm"}'),
        {**delta("tool_calls", content="", reasoning_content=None), "usage": DEEPSEEK_USAGE},
    ),
    "zhipu": streamed(
        delta(role="assistant", reasoning_content="Let me "),
        delta(role="assistant", reasoning_content="see."),
        delta(role="assistant", content="Rain."),
        delta(tool_calls=[{**WHOLE_CALL, "index": 0}]),
        {**delta("tool_calls", role="assistant", content=""), "usage": counted()},
    ),
    "minimax": streamed(
        delta(role="assistant", reasoning_content="Let me see.", reasoning_details=[DETAIL]),
        delta(content="Rain."),
        *pieces(ARGUMENTS),
        delta("tool_calls"),
        {**delta(), "choices": [], "usage": counted(), "base_resp": OK},
    ),
    "xiaomi": streamed(
        delta(role="assistant", content=""),
        delta(reasoning_content="Let me see.", content=None),
        delta(content="Rain.", reasoning_content=None),
        *pieces(ARGUMENTS),
        delta("tool_calls", content=None),
        {**delta(), "choices": [], "usage": counted()},
    ),
    "chat": streamed(
        delta(role="assistant", content=""),
        delta(reasoning="Let me see."),
        delta(content="Rain."),
        *pieces(ARGUMENTS),
        delta("tool_calls"),
        {**delta(), "choices": [], "usage": counted()},
    ),
}
WHOLE: dict[str, bytes] = {
    "deepseek": whole(DEEPSEEK_USAGE),
    "zhipu": whole(counted(), request_id="x"),
    "minimax": whole(counted(), base_resp=OK, message={"reasoning_details": [DETAIL]}),
    "xiaomi": whole(counted()),
    "chat": whole(counted()),
}


def _echoed(stream: bool) -> bytes:
    request = {
        "model": "reasoner",
        "messages": [{"role": "user", "content": "What is the weather?"}],
        "tools": [{"function": {"name": "get_weather", "parameters": {"required": ["city"]}}}],
        "stream": stream,
    }
    return b"".join(echo.answer(json.dumps(request).encode()).chunks)


STREAMED["echo"] = _echoed(True)
WHOLE["echo"] = _echoed(False)

ERRORS: dict[str, list[tuple[int, bytes, str]]] = {
    "deepseek": [
        (401, b'{"error": {"message": "x", "type": "authentication_error"}}', "auth"),
        (402, b'{"error": {"message": "Insufficient Balance", "code": "x"}}', "billing"),
        (503, b'{"error": {"message": "x", "type": "service_unavailable_error"}}', "overloaded"),
    ],
    "zhipu": [
        (429, '{"error": {"code": "1302", "message": "请求过快"}}'.encode(), "rate_limit"),
        (429, '{"error": {"code": "1113", "message": "余额不足"}}'.encode(), "billing"),
        (400, b'{"error": {"code": "1261", "message": "Prompt exceeds"}}', "context_length"),
    ],
    "minimax": [
        (200, b'{"base_resp": {"status_code": 1002, "status_msg": "x"}}', "rate_limit"),
        (200, b'{"base_resp": {"status_code": 1008, "status_msg": "x"}}', "billing"),
        (200, b'{"base_resp": {"status_code": 1004, "status_msg": "x"}}', "auth"),
    ],
    "xiaomi": [
        (
            400,
            b'{"error": {"code": "400", "message": "Param Incorrect", "param": "x", "type": ""}}',
            "invalid_request",
        ),
        (429, b'data:{"error": {"code": "429", "message": "Too many requests"}}', "rate_limit"),
    ],
    "chat": [(500, b"Internal Server Error", "overloaded")],
    "echo": [(429, b"".join(echo.answer(b'{"model": "error-429"}').chunks), "rate_limit")],
}
