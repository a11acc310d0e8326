"""Anthropic stream events for tests, and helpers to decode them."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Delta, Start
from antiphon.dialects.anthropic.decode import AnthropicDecoder, decode
from antiphon.framing.sse import Frame

Document = dict[str, Any]


def fed(*events: Any, decoder: AnthropicDecoder | None = None) -> list[Delta]:
    decoder = decoder or AnthropicDecoder()
    frames = [Frame(e if isinstance(e, bytes) else json.dumps(e).encode()) for e in events]
    return [delta for frame in frames for delta in decoder.feed(frame)]


def begin(block: Any, index: Any = 0) -> Document:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grow(index: Any = 0, /, **delta: Any) -> Document:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def end(index: Any = 0) -> Document:
    return {"type": "content_block_stop", "index": index}


def text(fragment: Any, index: Any = 0) -> Document:
    return grow(index, type="text_delta", text=fragment)


def stop(reason: Any, /, usage: Any = None, **more: Any) -> Document:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


def whole(*content: Any, **fields: Any) -> list[Delta]:
    body = {"type": "message", "id": "x", "model": "m", "content": content, **fields}
    start, *deltas = decode(json.dumps(body).encode())
    assert start == Start("m", "x")
    return deltas
