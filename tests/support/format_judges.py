"""What a client of each format sees of a streamed response, and whether the stream is well-formed.

A judge is written from the format, not from our renderer. Whatever a provider does, the three of
them must see the same: an HTTP error, or the same content with exactly one end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Document = dict[str, Any]


class Seen(NamedTuple):
    """What a client has of a response."""

    status: int
    end: str
    """`error`, `length`, `stop`, `calls` or `filter`."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments of calls that the client would run."""


def frames(data: bytes) -> list[tuple[str, str]]:
    """Return the events of a stream: their `event:` and their data."""
    assert data.endswith(b"\n\n"), data[-80:]
    found = []
    for frame in data.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if not line.startswith(":"))
        if fields:
            found.append((fields.get("event", ""), fields["data"]))
    return found


_THOUGHTS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")


def see_responses(status: int, data: bytes) -> Seen:
    events = [json.loads(payload) for _, payload in frames(data) if payload != "[DONE]"]
    response = events[-1]["response"]
    text, reasoning = "", ""
    for event in events:
        if event["type"] in ("response.output_text.delta", "response.refusal.delta"):
            text += event["delta"]
        if event["type"] in _THOUGHTS:
            reasoning += event["delta"]
    calls = tuple(
        (item["name"], item.get("arguments") or _wrapped(item["input"]))
        for item in response["output"]
        if item["type"] in ("function_call", "custom_tool_call") and item["status"] == "completed"
    )
    if response["status"] == "failed":
        return Seen(status, "error", text, reasoning)
    if response["status"] == "incomplete":
        reason = response["incomplete_details"]["reason"]
        end = "filter" if reason == "content_filter" else "length"
        return Seen(status, end, text, reasoning)
    return Seen(status, "calls" if calls else "stop", text, reasoning, calls)


_FINISH = {"stop": "stop", "length": "length", "tool_calls": "calls", "content_filter": "filter"}


def see_chat(status: int, data: bytes) -> Seen:
    payloads = [payload for event, payload in frames(data) if not event]
    assert len(payloads) == len(frames(data)), "only data lines"
    is_done = payloads[-1] == "[DONE]"
    chunks = [json.loads(payload) for payload in (payloads[:-1] if is_done else payloads)]
    errors = [chunk for chunk in chunks if "error" in chunk]
    assert is_done != bool(errors), "either an end or an error"
    assert errors in ([], [chunks[-1]]), "nothing follows an error"
    text, reasoning = "", ""
    finishes: list[str] = []
    calls: list[list[str]] = []
    for chunk in chunks[: len(chunks) - len(errors)]:
        assert chunk["object"] == "chat.completion.chunk"
        for choice in chunk["choices"]:
            assert not finishes, "nothing follows the finish reason"
            delta = choice["delta"]
            text += delta.get("content") or ""
            assert delta.get("reasoning") == delta.get("reasoning_content")
            reasoning += delta.get("reasoning") or ""
            for piece in delta.get("tool_calls", ()):
                _add_call(calls, piece)
            finishes += [choice["finish_reason"]] if choice["finish_reason"] else []
    if errors:
        assert finishes == []
        assert errors[0]["error"].keys() == {"message", "type", "param", "code"}
        return Seen(status, "error", text, reasoning)
    [finish] = finishes
    whole = [(name, _wrapped(given) if kind == "custom" else given) for name, given, kind in calls]
    return Seen(
        status, _FINISH[finish], text, reasoning, tuple(whole) if finish == "tool_calls" else ()
    )


def _wrapped(given: str) -> str:
    """Freeform input as the one argument that it is for a client without freeform tools."""
    return json.dumps({"input": given}, ensure_ascii=False, separators=(",", ":"))


def _add_call(calls: list[list[str]], piece: Document) -> None:
    kind = "custom" if "custom" in piece else "function"
    call = piece[kind]
    given = call["input" if kind == "custom" else "arguments"]
    if piece["index"] == len(calls):
        assert piece["id"]
        assert piece["type"] == kind
        assert call["name"]
        calls.append([call["name"], given, kind])
    else:
        assert piece["index"] == len(calls) - 1
        assert "name" not in call
        calls[-1][1] += given


_STOP = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "calls",
    "refusal": "filter",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "compaction": "length",
}


def see_messages(status: int, data: bytes) -> Seen:
    events = []
    for name, payload in frames(data):
        event = json.loads(payload)
        assert event["type"] == name
        events.append(event)
    events = [event for event in events if event["type"] != "ping"]
    assert [event["type"] for event in events].count("message_start") == 1
    assert events[0]["type"] == "message_start"
    end = events[-1]["type"]
    assert end in ("message_stop", "error")
    blocks: list[Document] = []
    open_block: int | None = None
    for event in events[1:-1]:
        if event["type"] == "content_block_start":
            assert open_block is None, "blocks come one after another"
            open_block = event["index"]
            assert open_block == len(blocks)
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_block
            _extend_block(blocks[-1], event["delta"])
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_block
            blocks[-1]["is_closed"] = True
            open_block = None
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    reasoning = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    if end == "error":
        assert all(event["type"] != "message_delta" for event in events)
        return Seen(status, "error", text, reasoning)
    [delta] = [event for event in events if event["type"] == "message_delta"]
    assert events[-2] is delta
    assert open_block is None or delta["delta"]["stop_reason"] != "tool_use"
    calls = tuple(
        (block["name"], block["json"])
        for block in blocks
        if block["type"] == "tool_use" and block.get("is_closed")
    )
    found, explanation = _read_end(delta["delta"])
    text += explanation
    return Seen(status, found, text, reasoning, calls if found == "calls" else ())


def _read_end(ended: Document) -> tuple[str, str]:
    """How a message has ended, and what the model has said if it has refused."""
    details = ended.get("stop_details") or {}
    if details.get("explanation"):
        end = "filter" if details.get("reason") == "content_filter" else "stop"
        return end, details["explanation"]
    return _STOP[ended["stop_reason"]], ""


def _extend_block(block: Document, delta: Document) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            assert block["signature"] == ""
            block["signature"] = delta["signature"]
        case "input_json_delta":
            block["json"] += delta["partial_json"]


# --- responses that are not streamed --------------------------------------------------------------


def see_whole_response(document: Document) -> Seen:
    parts = [
        part for item in document["output"] if item["type"] == "message" for part in item["content"]
    ]
    text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
    calls = tuple(
        (item["name"], _compact(item["arguments"]))
        for item in document["output"]
        if item["type"] == "function_call" and item["status"] == "completed"
    )
    if document["status"] == "failed":
        return Seen(0, "error")
    if document["status"] == "incomplete":
        reason = document["incomplete_details"]["reason"]
        return Seen(200, "filter" if reason == "content_filter" else "length", text)
    return Seen(200, "calls" if calls else "stop", text, calls=calls)


def see_whole_completion(document: Document) -> Seen:
    [choice] = document["choices"]
    message = choice["message"]
    end = _FINISH[choice["finish_reason"]]
    calls = tuple(
        (call["function"]["name"], _compact(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
        if end == "calls"
    )
    return Seen(200, end, message["content"] or "", calls=calls)


def see_whole_message(document: Document) -> Seen:
    blocks = document["content"]
    end, explanation = _read_end(document)
    text = "".join(block["text"] for block in blocks if block["type"] == "text") + explanation
    calls = tuple(
        (block["name"], _compact(json.dumps(block["input"])))
        for block in blocks
        if block["type"] == "tool_use" and end == "calls"
    )
    return Seen(200, end, text, calls=calls)


def _compact(arguments: str) -> str:
    return json.dumps(json.loads(arguments), sort_keys=True)


class Format(NamedTuple):
    """A client format: its path, the body of a question, and what its client sees."""

    path: str
    body: Mapping[str, Any]
    see: Callable[[int, bytes], Seen]
    see_whole: Callable[[Document], Seen]


_TOOLS: dict[str, list[Document]] = {
    "responses": [{"type": "function", "name": "look_up", "parameters": {"type": "object"}}],
    "chat": [
        {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    ],
    "messages": [{"name": "look_up", "input_schema": {"type": "object"}}],
}
_SAID = [{"role": "user", "content": "Hello?"}]
FORMATS: Mapping[str, Format] = {
    "responses": Format(
        "/responses",
        {"input": "Hello?", "store": False, "tools": _TOOLS["responses"]},
        see_responses,
        see_whole_response,
    ),
    "chat": Format(
        "/chat/completions",
        {"messages": _SAID, "tools": _TOOLS["chat"]},
        see_chat,
        see_whole_completion,
    ),
    "messages": Format(
        "/messages",
        {"messages": _SAID, "max_tokens": 100, "tools": _TOOLS["messages"]},
        see_messages,
        see_whole_message,
    ),
}
