"""Items as lists of stored items show them: each with an id, messages with parts and a status."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from antiphon.core.items import Document

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
_DERIVED_ID = re.compile(r"[a-z]+_(\w+)[0-9a-f]{4}", re.ASCII)


def without_excluded(item: Document, include: Collection[str]) -> Document:
    """Leave out what lists show only if `include` names it: encrypted reasoning."""
    if item.get("type") == "reasoning" and _ENCRYPTED not in include:
        return {name: value for name, value in item.items() if name != "encrypted_content"}
    return item


def without_blocks(response: Document) -> Document:
    """A stored response as the API has it, also if its client has another format: without content
    blocks and members that only that format has."""
    output = [
        _without_extra(item) for item in response["output"] if item.get("type") != "client_block"
    ]
    return {**_without_extra(response), "output": output}


def _without_extra(document: Document) -> Document:
    plain = {name: value for name, value in document.items() if name != "extra"}
    if plain.get("type") == "message":
        plain["content"] = [_without_extra(part) for part in plain["content"]]
    return plain


def list_items(items: Iterable[Document], source_id: str) -> list[Document]:
    """Return items in the shape of a list. An item without an id gets one that is derived from the
    id of what it came with, such as its response: it is the same each time. The trigger of a
    compaction is left out: it is a request, and no part of the history."""
    suffix = source_id.partition("_")[2] or source_id
    return [
        list_item(item, f"{suffix}{index:04x}")
        for index, item in enumerate(items)
        if item.get("type") != "compaction_trigger"
    ]


def source_of_listed(id: str) -> str | None:
    """Return the id of the response that an item came with, if `list_items` may have made its id of
    that."""
    found = _DERIVED_ID.fullmatch(id)
    return None if found is None else f"resp_{found[1]}"


def list_item(item: Document, suffix: str) -> Document:
    """Return one item in the shape of a list; `suffix` ends its id, if it has none."""
    kind = item.get("type") or "message"
    id = item.get("id") or f"{_PREFIXES.get(kind, 'item')}_{suffix}"
    listed: Document = {**item, "type": kind, "id": id}
    if kind == "message":
        listed["content"] = _list_content(item.get("content"), item.get("role"))
    if isinstance(output := item.get("output"), list | tuple):
        listed["output"] = _list_parts(output)
    if kind == "reasoning":
        listed["summary"] = item.get("summary") or []
    if kind in ("tool_search_call", "tool_search_output"):
        listed["execution"] = item.get("execution") or "client"  # which has sent it
    if kind == "message" or kind.endswith(("_call", "_output")):
        listed["status"] = item.get("status") or "completed"
    return listed


def _list_content(content: Any, role: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return _list_parts(content)
    kind = "output_text" if role == "assistant" else "input_text"
    return _list_parts([{"type": kind, "text": content or ""}])


_PART_DEFAULTS: Mapping[str, Document] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
}
"""Fields of parts that clients may omit, and that lists always have."""


def _list_parts(parts: Iterable[Any]) -> list[Any]:
    return [_list_part(part) if isinstance(part, dict) else part for part in parts]


def _list_part(part: Document) -> Document:
    kind = part.get("type")
    defaults = _PART_DEFAULTS.get(kind, {}) if isinstance(kind, str) else {}
    missing = {name: value for name, value in defaults.items() if part.get(name) is None}
    return {**part, **missing} if missing else part
