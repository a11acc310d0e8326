"""The response of `POST /v1/responses/compact`: the messages of the user, and a compaction item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from antiphon.core.items import Document
from antiphon.core.response import Response
from antiphon.core.stream.compaction_item import COMPACTION


def find_compaction(response: Response) -> Document | None:
    """Return the compaction item of a response; None if there is none."""
    for item in response.output:
        if isinstance(item, dict) and item.get("type") == COMPACTION:
            return item
    return None


def compacted_response(
    items: Iterable[Mapping[str, Any]],
    compaction: Document,
    response: Response,
    new_id: Callable[[str], str],
) -> Document:
    """Build the response. Its `output` is accepted as the `input` of a new thread, as it is."""
    messages = [_message(item, new_id) for item in items if _is_user_message(item)]
    return {
        "id": response.id,
        "object": "response.compaction",
        "created_at": response.created_at,
        "output": [*messages, compaction],
        "usage": response.usage,
    }


def _is_user_message(item: Mapping[str, Any]) -> bool:
    return item.get("type") in (None, "message") and item.get("role") == "user"


def _message(item: Mapping[str, Any], new_id: Callable[[str], str]) -> Document:
    content = item.get("content") or []
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {
        "id": item.get("id") or new_id("msg"),
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": parts,
    }
