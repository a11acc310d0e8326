"""What another Responses server may send, event by event, and the deltas it is read into."""

from __future__ import annotations

import json
from typing import Any

from antiphon.core.stream.deltas import Delta
from antiphon.dialects.responses.decode import ResponsesDecoder
from antiphon.wire.sse import Frame

Document = dict[str, Any]


def feed(*events: Document | bytes, server_tools: frozenset[str] = frozenset()) -> list[Delta]:
    decoder = ResponsesDecoder(server_tools=server_tools)
    said: list[Delta] = []
    for event in events:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        said += decoder.feed(Frame(data))
    return said + decoder.close()


def event(kind: str, **fields: Any) -> Document:
    return {"type": f"response.{kind}", **fields}


def added(place: int, **item: Any) -> Document:
    return event("output_item.added", output_index=place, item=item)


def done(place: int, **item: Any) -> Document:
    return event("output_item.done", output_index=place, item=item)


def ended(status: str = "completed", **fields: Any) -> Document:
    return event(status, response={"status": status, **fields})


def text(delta: str, place: int = 0, item_id: str = "msg_1", **fields: Any) -> Document:
    return event(
        "output_text.delta",
        output_index=place,
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
