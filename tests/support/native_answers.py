"""Sample answers of vendors with their own dialect: a stream, a whole body, errors.

Every answer has the reasoning "Let me see.", the text "Rain." and a call of `get_weather` with
{"city": "Ulm"}, where the dialect supports it;
ten input tokens, four of them cached.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.dialect_samples.aws_event_stream import event

Document = dict[str, Any]

ARGUMENTS = '{"city": "Ulm"}'
INPUT = {"city": "Ulm"}


def encode_events(*documents: Document) -> bytes:
    """Encode SSE whose `event` field repeats the type."""
    frames = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in documents]
    return "".join(frames).encode()


# --- Anthropic ------------------------------------------------------------------------------------

_CLAUDE_USAGE = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 8}
_CLAUDE_BLOCKS: list[Document] = [
    {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
    {"type": "text", "text": "Rain."},
    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": INPUT},
]
_CLAUDE_DELTAS: list[list[Document]] = [
    [
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see."},
        {"type": "signature_delta", "signature": "c2ln"},
    ],
    [{"type": "text_delta", "text": "Rain."}],
    [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"city"', ': "Ulm"}')],
]
_CLAUDE_EMPTY: list[Document] = [
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "text", "text": ""},
    {**_CLAUDE_BLOCKS[2], "input": {}},
]


def _claude_blocks() -> list[Document]:
    found: list[Document] = []
    for index, deltas in enumerate(_CLAUDE_DELTAS):
        begin = {"type": "content_block_start", "content_block": _CLAUDE_EMPTY[index]}
        going = [{"type": "content_block_delta", "delta": delta} for delta in deltas]
        found += [{**each, "index": index} for each in (begin, *going)]
        found.append({"type": "content_block_stop", "index": index})
    return found


_CLAUDE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
ANTHROPIC_STREAM = encode_events(
    {
        "type": "message_start",
        "message": {**_CLAUDE, "content": [], "usage": {**_CLAUDE_USAGE, "output_tokens": 1}},
    },
    *_claude_blocks(),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": _CLAUDE_USAGE,
    },
    {"type": "message_stop"},
)
ANTHROPIC_WHOLE = json.dumps(
    {**_CLAUDE, "content": _CLAUDE_BLOCKS, "stop_reason": "tool_use", "usage": _CLAUDE_USAGE}
).encode()

# --- Gemini ---------------------------------------------------------------------------------------

_GEMINI_PARTS: list[Document] = [
    {"text": "Let me see.", "thought": True},
    {"text": "Rain."},
    {"functionCall": {"name": "get_weather", "args": INPUT}, "thoughtSignature": "c2ln"},
]
_GEMINI_USAGE = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 18,
}


def _gemini_chunk(parts: list[Document], finish: str | None = None) -> Document:
    candidate: Document = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": _GEMINI_USAGE, "modelVersion": "m"}


GEMINI_STREAM = b"".join(
    f"data: {json.dumps(_gemini_chunk([part], finish))}\r\n\r\n".encode()
    for part, finish in zip(_GEMINI_PARTS, (None, None, "STOP"), strict=True)
)
GEMINI_WHOLE = json.dumps(_gemini_chunk(_GEMINI_PARTS, "STOP")).encode()

# --- Responses ------------------------------------------------------------------------------------

_ITEMS: list[Document] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Let me see."}],
        "encrypted_content": "c2ln",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Rain.", "annotations": [], "logprobs": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": ARGUMENTS,
        "status": "completed",
    },
]
_RESPONSE: Document = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": _ITEMS,
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 18,
    },
}
_BEGUN = {**_RESPONSE, "status": "in_progress", "output": [], "usage": None}


def _item_events() -> list[Document]:
    reasoning, message, call = _ITEMS
    text = {"type": "response.output_text.delta", "content_index": 0, "delta": "Rain."}
    thought = {"type": "response.reasoning_summary_text.delta", "summary_index": 0}
    arguments = {"type": "response.function_call_arguments.delta", "delta": ARGUMENTS}
    grown: list[tuple[Document, Document, Document]] = [
        (
            reasoning,
            {"summary": [], "encrypted_content": None},
            {**thought, "delta": "Let me see."},
        ),
        (message, {"content": [], "status": "in_progress"}, text),
        (call, {"arguments": "", "status": "in_progress"}, arguments),
    ]
    found: list[Document] = []
    for index, (item, empty, delta) in enumerate(grown):
        location = {"output_index": index}
        added = {"type": "response.output_item.added", "item": {**item, **empty}}
        done = {"type": "response.output_item.done", "item": item}
        found += [
            {**added, **location},
            {**delta, **location, "item_id": item["id"]},
            {**done, **location},
        ]
    return found


RESPONSES_STREAM = encode_events(
    {"type": "response.created", "response": _BEGUN},
    *_item_events(),
    {"type": "response.completed", "response": _RESPONSE},
)
RESPONSES_WHOLE = json.dumps(_RESPONSE).encode()

# --- Bedrock --------------------------------------------------------------------------------------

_CONVERSE_USAGE = {
    "inputTokens": 6,
    "outputTokens": 8,
    "totalTokens": 18,
    "cacheReadInputTokens": 4,
}
BEDROCK_STREAM = b"".join(
    event(name, payload)
    for name, payload in (
        ("messageStart", {"role": "assistant"}),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Let me see."}}},
        ),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln"}}},
        ),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Rain."}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        (
            "contentBlockStart",
            {
                "contentBlockIndex": 2,
                "start": {"toolUse": {"toolUseId": "t1", "name": "get_weather"}},
            },
        ),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 2, "delta": {"toolUse": {"input": ARGUMENTS}}},
        ),
        ("contentBlockStop", {"contentBlockIndex": 2}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": _CONVERSE_USAGE}),
    )
)
_SIGNED = {"text": "Let me see.", "signature": "c2ln"}
BEDROCK_WHOLE = json.dumps(
    {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": _SIGNED}},
                    {"text": "Rain."},
                    {"toolUse": {"toolUseId": "t1", "name": "get_weather", "input": INPUT}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": _CONVERSE_USAGE,
    }
).encode()

# --- Cohere ---------------------------------------------------------------------------------------

_COMMAND_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": ARGUMENTS},
}
_COMMAND_USAGE = {"tokens": {"input_tokens": 10, "output_tokens": 8}, "cached_tokens": 4}


def _cohere_event(kind: str, index: int | None = None, **message: Any) -> Document:
    location = {} if index is None else {"index": index}
    return {"type": kind, **location, "delta": {"message": message}}


_BEGUN_CALL = {**_COMMAND_CALL, "function": {"name": "get_weather", "arguments": ""}}
COHERE_STREAM = encode_events(
    {"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant"}}},
    _cohere_event("content-start", 0, content={"type": "thinking", "thinking": ""}),
    _cohere_event("content-delta", 0, content={"thinking": "Let me see."}),
    {"type": "content-end", "index": 0},
    _cohere_event("content-start", 1, content={"type": "text", "text": ""}),
    _cohere_event("content-delta", 1, content={"text": "Rain."}),
    {"type": "content-end", "index": 1},
    _cohere_event("tool-call-start", 0, tool_calls=_BEGUN_CALL),
    _cohere_event("tool-call-delta", 0, tool_calls={"function": {"arguments": ARGUMENTS}}),
    {"type": "tool-call-end", "index": 0},
    {
        "type": "message-end",
        "delta": {"finish_reason": "TOOL_CALL", "usage": _COMMAND_USAGE},
    },
)
COHERE_WHOLE = json.dumps(
    {
        "id": "x",
        "message": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me see."},
                {"type": "text", "text": "Rain."},
            ],
            "tool_calls": [_COMMAND_CALL],
        },
        "finish_reason": "TOOL_CALL",
        "usage": _COMMAND_USAGE,
    }
).encode()

# --- Ollama ---------------------------------------------------------------------------------------

_LLAMA_CALL = {"function": {"name": "get_weather", "arguments": INPUT}}
_LLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 8}


def _ollama_chunk(**message: Any) -> Document:
    full_message = {"role": "assistant", "content": "", **message}
    return {"model": "m", "message": full_message, "done": False}


OLLAMA_STREAM = b"".join(
    json.dumps(line).encode() + b"\n"
    for line in (
        _ollama_chunk(thinking="Let me see."),
        _ollama_chunk(content="Rain."),
        _ollama_chunk(tool_calls=[_LLAMA_CALL]),
        {**_ollama_chunk(), **_LLAMA_END},
    )
)
OLLAMA_WHOLE = json.dumps(
    {
        **_ollama_chunk(content="Rain.", thinking="Let me see.", tool_calls=[_LLAMA_CALL]),
        **_LLAMA_END,
    }
).encode()
