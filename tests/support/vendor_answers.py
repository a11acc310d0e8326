"""Sample answers of each vendor: a stream, a whole body, and its known errors.

Every answer has the reasoning "Let me see.", the text "Rain." and a call of `get_weather` with
{"city": "Ulm"}, where the vendor supports it.
"""

from __future__ import annotations

import json
from typing import Any

from antiphon.providers import echo
from tests.support import native_answers as native

Document = dict[str, Any]

CALL = {"id": "call_1", "type": "function"}
ARGUMENTS = '{"city": "Ulm"}'
WHOLE_CALL = {**CALL, "function": {"name": "get_weather", "arguments": ARGUMENTS}}


def delta(finish: str | None = None, **fields: Any) -> Document:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "x", "model": "m", "object": "chat.completion.chunk", "choices": [choice]}


def build_stream(*chunks: Document) -> bytes:
    frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ("".join(frames) + "data: [DONE]\n\n").encode()


def build_whole_answer(usage: Document, **more: Any) -> bytes:
    message = {
        "role": "assistant",
        "content": "Rain.",
        "reasoning_content": "Let me see.",
        "tool_calls": [WHOLE_CALL],
        **more.pop("message", {}),
    }
    finish = more.pop("finish", "tool_calls")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    document = {"id": "x", "model": "m", "object": "chat.completion", "choices": [choice]}
    return json.dumps({**document, "usage": usage, **more}).encode()


def build_usage(**more: Any) -> Document:
    """Usage: ten input tokens, four of them cached; eight output tokens, five of them reasoning."""
    return {
        "prompt_tokens": 10,
        "completion_tokens": 8,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
        **more,
    }


def call_chunks(*arguments: str) -> list[Document]:
    """The chunks of a call with its arguments in pieces."""
    first = {"index": 0, **CALL, "function": {"name": "get_weather", "arguments": ""}}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in arguments]
    return [delta(tool_calls=[call]) for call in (first, *rest)]


def build_common_stream(field: str) -> bytes:
    """The stream of most servers: reasoning in this field, usage at the end."""
    return build_stream(
        delta(role="assistant", content=""),
        delta(**{field: "Let me see."}),
        delta(content="Rain."),
        *call_chunks(ARGUMENTS),
        delta("tool_calls"),
        {**delta(), "choices": [], "usage": build_usage()},
    )


def finish_chunk(usage: Document) -> Document:
    """A last chunk with the usage in its choice."""
    last = delta("tool_calls")
    last["choices"][0]["usage"] = usage
    return last


DEEPSEEK_USAGE = build_usage(prompt_cache_hit_tokens=4, prompt_cache_miss_tokens=6)
OK = {"status_code": 0, "status_msg": ""}
KIMI_USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 8,
    "total_tokens": 18,
    "cached_tokens": 4,
    "completion_tokens_details": {"reasoning_tokens": 5},
}
XAI_USAGE = build_usage(completion_tokens=3)  # reasoning tokens are not included
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}]}
PIECES = [{"type": "reasoning.text", "index": 0, "text": text} for text in ("Let me ", "see.")]
DETAIL = {"type": "reasoning.text", "id": "r", "index": 0, "text": "Let me see."}

STREAMED: dict[str, bytes] = {
    "deepseek": build_stream(
        {**delta(role="assistant", content=None, reasoning_content=""), "usage": None},
        delta(content=None, reasoning_content="Let me "),
        delta(content=None, reasoning_content="see."),
        delta(content="Rain.", reasoning_content=None),
        *call_chunks('{"city"', ': "Ulm"}'),
        {**delta("tool_calls", content="", reasoning_content=None), "usage": DEEPSEEK_USAGE},
    ),
    "zhipu": build_stream(
        delta(role="assistant", reasoning_content="Let me "),
        delta(role="assistant", reasoning_content="see."),
        delta(role="assistant", content="Rain."),
        delta(tool_calls=[{**WHOLE_CALL, "index": 0}]),
        {**delta("tool_calls", role="assistant", content=""), "usage": build_usage()},
    ),
    "minimax": build_stream(
        delta(role="assistant", reasoning_content="Let me see.", reasoning_details=[DETAIL]),
        delta(content="Rain."),
        *call_chunks(ARGUMENTS),
        delta("tool_calls"),
        {**delta(), "choices": [], "usage": build_usage(), "base_resp": OK},
    ),
    "xiaomi": build_stream(
        delta(role="assistant", content=""),
        delta(reasoning_content="Let me see.", content=None),
        delta(content="Rain.", reasoning_content=None),
        *call_chunks(ARGUMENTS),
        delta("tool_calls", content=None),
        {**delta(), "choices": [], "usage": build_usage()},
    ),
    "moonshot": build_stream(
        delta(role="assistant", content=""),
        delta(reasoning_content="Let me see."),
        delta(content="Rain."),
        *call_chunks(ARGUMENTS),
        finish_chunk(usage=KIMI_USAGE),
    ),
    "xai": build_stream(
        delta(role="assistant", reasoning_content="Let me see."),
        delta(content="Rain."),
        delta("tool_calls", tool_calls=[{**WHOLE_CALL, "index": 0}]),
        {**delta(), "choices": [], "usage": XAI_USAGE},
    ),
    "groq": build_stream(
        delta(role="assistant", reasoning="Let me see.", channel="analysis"),
        delta(content="Rain."),
        delta(tool_calls=[{**WHOLE_CALL, "index": 0}]),
        {**delta("tool_calls"), "x_groq": {"id": "x", "usage": build_usage()}},
    ),
    "mistral": build_stream(
        delta(role="assistant", content=""),
        delta(content=[THINKING]),
        delta(content="Rain."),
        {**delta("tool_calls", tool_calls=[{**WHOLE_CALL, "index": 0}]), "usage": build_usage()},
    ),
    "openrouter": b": OPENROUTER PROCESSING\n\n"
    + build_stream(
        delta(role="assistant", content="", reasoning="Let me ", reasoning_details=[PIECES[0]]),
        delta(content="", reasoning="see.", reasoning_details=[PIECES[1]]),
        delta(content="Rain."),
        *call_chunks(ARGUMENTS),
        delta("tool_calls", content=""),
        {**delta(content=""), "usage": build_usage(cost=0.1)},
    ),
    "perplexity": build_stream(
        {**delta(role="assistant", content="Rain."), "citations": []},
        {**delta("stop", content=""), "usage": build_usage()},
    ),
}
for _name in "chat qwen together fireworks vllm sglang llamacpp lmstudio nvidia".split():
    STREAMED[_name] = build_common_stream("reasoning_content")
for _name in "huggingface cerebras github azure".split():
    STREAMED[_name] = build_common_stream("reasoning")
WHOLE: dict[str, bytes] = dict.fromkeys(STREAMED, build_whole_answer(build_usage())) | {
    "deepseek": build_whole_answer(DEEPSEEK_USAGE),
    "zhipu": build_whole_answer(build_usage(), request_id="x"),
    "minimax": build_whole_answer(
        build_usage(), base_resp=OK, message={"reasoning_details": [DETAIL]}
    ),
    "moonshot": build_whole_answer(KIMI_USAGE),
    "xai": build_whole_answer(XAI_USAGE),
    "mistral": build_whole_answer(
        build_usage(),
        message={"content": [THINKING, {"type": "text", "text": "Rain."}], "reasoning_content": ""},
    ),
    "openrouter": build_whole_answer(
        build_usage(cost=0.1), message={"reasoning_details": [DETAIL]}
    ),
    "perplexity": build_whole_answer(
        build_usage(), message={"reasoning_content": "", "tool_calls": None}, finish="stop"
    ),
}


def _echo_answer(stream: bool) -> bytes:
    request = {
        "model": "reasoner",
        "messages": [{"role": "user", "content": "What is the weather?"}],
        "tools": [{"function": {"name": "get_weather", "parameters": {"required": ["city"]}}}],
        "stream": stream,
    }
    return b"".join(echo.respond(json.dumps(request).encode()).chunks)


STREAMED["echo"] = _echo_answer(True)
WHOLE["echo"] = _echo_answer(False)

_NATIVE = {
    "openai": (native.RESPONSES_STREAM, native.RESPONSES_WHOLE),
    "responses": (native.RESPONSES_STREAM, native.RESPONSES_WHOLE),
    "anthropic": (native.ANTHROPIC_STREAM, native.ANTHROPIC_WHOLE),
    "gemini": (native.GEMINI_STREAM, native.GEMINI_WHOLE),
    "vertex": (native.GEMINI_STREAM, native.GEMINI_WHOLE),
    "bedrock": (native.BEDROCK_STREAM, native.BEDROCK_WHOLE),
    "cohere": (native.COHERE_STREAM, native.COHERE_WHOLE),
    "ollama": (native.OLLAMA_STREAM, native.OLLAMA_WHOLE),
}
for _name, (_stream, _whole) in _NATIVE.items():
    STREAMED[_name], WHOLE[_name] = _stream, _whole

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
    "moonshot": [
        (429, b'{"error": {"message": "x", "type": "rate_limit_reached_error"}}', "rate_limit"),
        (400, b'{"error": {"message": "exceeded model token limit"}}', "context_length"),
    ],
    "qwen": [
        (
            400,
            b'{"error": {"message": "Range of input length should be [1, 9]"}}',
            "context_length",
        ),
        (401, b'{"error": {"code": "invalid_api_key", "message": "x"}}', "auth"),
    ],
    "xai": [(400, b'{"code": "x", "error": "Incorrect API key provided"}', "auth")],
    "groq": [
        (413, b'{"error": {"message": "Request too large", "code": "x"}}', "context_length"),
        (400, b'{"error": {"message": "x", "code": "tool_use_failed"}}', "api_error"),
    ],
    "mistral": [
        (422, b'{"object": "error", "message": {"detail": []}, "type": "x"}', "invalid_request"),
        (429, b'{"object": "error", "message": "x", "type": "rate_limited"}', "rate_limit"),
    ],
    "openrouter": [
        (402, b'{"error": {"code": 402, "message": "Insufficient credits"}}', "billing"),
        (200, b'{"error": {"code": 502, "message": "Provider returned error"}}', "overloaded"),
    ],
    "perplexity": [(401, b"<html>401 Authorization Required</html>", "auth")],
    "nvidia": [(422, b'{"detail": [{"loc": ["body", "user"], "msg": "x"}]}', "invalid_request")],
    "github": [(401, b'{"error": {"code": "unauthorized", "message": "x"}}', "auth")],
    "azure": [
        (404, b'{"error": {"code": "DeploymentNotFound", "message": "x"}}', "model_error"),
        (400, b'{"error": {"code": "content_filter", "message": "x"}}', "content_blocked"),
    ],
    "openai": [(429, b'{"error": {"code": "insufficient_quota", "message": "x"}}', "billing")],
    "anthropic": [
        (529, b'{"type": "error", "error": {"type": "overloaded_error"}}', "overloaded"),
        (400, b'{"type": "error", "error": {"message": "prompt is too long"}}', "context_length"),
    ],
    "gemini": [
        (429, b'[{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}]', "rate_limit"),
        (400, b'{"error": {"code": 400, "message": "API key not valid"}}', "auth"),
    ],
    "vertex": [(403, b'{"error": {"code": 403, "status": "PERMISSION_DENIED"}}', "permission")],
    "bedrock": [
        (429, b'{"message": "Too many requests"}', "rate_limit"),
        (403, b'{"message": "The security token is invalid"}', "permission"),
    ],
    "cohere": [(429, b'{"id": "x", "message": "trial limit"}', "rate_limit")],
    "ollama": [(404, b'{"error": "model \'m\' not found"}', "model_error")],
    "chat": [(500, b"Internal Server Error", "api_error")],
    "echo": [(429, b"".join(echo.respond(b'{"model": "error-429"}').chunks), "rate_limit")],
}
for _name in STREAMED:
    ERRORS.setdefault(_name, [(503, b'{"error": {"message": "x"}}', "overloaded")])
