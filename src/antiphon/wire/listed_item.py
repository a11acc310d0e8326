"""Items as lists of stored items show them: each with an id, messages with parts and a status."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from antiphon.wire.items import Document

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "function_call_output": "fco",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}


_ENCRYPTED = "reasoning.encrypted_content"


def without_excluded(item: Document, include: Collection[str]) -> Document:
    """Leave out what lists show only if `include` names it: encrypted reasoning."""
    if item.get("type") == "reasoning" and _ENCRYPTED not in include:
        return {name: value for name, value in item.items() if name != "encrypted_content"}
    return item


def list_items(items: Iterable[Document], source_id: str) -> list[Document]:
    """Return items in the shape of a list. An item without an id gets one that is derived from the
    id of what it came with, such as its response: it is the same each time."""
    suffix = source_id.partition("_")[2] or source_id
    return [list_item(item, f"{suffix}{index:04x}") for index, item in enumerate(items)]


def list_item(item: Document, suffix: str) -> Document:
    """Return one item in the shape of a list; `suffix` ends its id, if it has none."""
    kind = item.get("type") or "message"
    id = item.get("id") or f"{_PREFIXES.get(kind, 'item')}_{suffix}"
    listed: Document = {**item, "type": kind, "id": id}
    if kind == "message":
        listed["content"] = _list_parts(item.get("content"), item.get("role"))
    if kind == "message" or kind.endswith(("_call", "_call_output")):
        listed["status"] = item.get("status") or "completed"
    return listed


def _list_parts(content: Any, role: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)
    if role == "assistant":
        return [{"type": "output_text", "text": content or "", "annotations": [], "logprobs": []}]
    return [{"type": "input_text", "text": content or ""}]
