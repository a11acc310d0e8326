"""Events of a Responses server for tests, and a helper to decode them."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.deltas import Delta
from antiphon.dialects.responses.decode import ResponsesDecoder
from antiphon.framing.sse import Frame

Document = dict[str, Any]


def feed(*events: Document | bytes, server_tools: frozenset[str] = frozenset()) -> list[Delta]:
    decoder = ResponsesDecoder(server_tools=server_tools)
    decoded: list[Delta] = []
    for event in events:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        decoded += decoder.feed(Frame(data))
    return decoded + decoder.close()


def event(kind: str, **fields: Any) -> Document:
    return {"type": f"response.{kind}", **fields}


def added(index: int, **item: Any) -> Document:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, **item: Any) -> Document:
    return event("output_item.done", output_index=index, item=item)


def ended(status: str = "completed", **fields: Any) -> Document:
    return event(status, response={"status": status, **fields})


def text(delta: str, index: int = 0, item_id: str = "msg_1", **fields: Any) -> Document:
    return event(
        "output_text.delta",
        output_index=index,
        item_id=item_id,
        content_index=0,
        delta=delta,
        **fields,
    )


def message(*texts: str, **fields: Any) -> Document:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": parts, **fields}


def reasoning(**fields: Any) -> Document:
    return {"type": "reasoning", "summary": [], **fields}
