"""Reference reader of Responses recordings: reads the items that the server reported as done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.reference_readers.recorded_response import Document, count_tokens, sse_payloads

OUR_DETAILS = {"cached_tokens", "cache_write_tokens", "reasoning_tokens"}


@dataclass
class RecordedResponse:
    """The items of a recording, its usage and status."""

    items: list[Document] = field(default_factory=list)
    usage: Document = field(default_factory=dict)
    status: str | None = None
    reason: str | None = None
    """Why it is incomplete."""
    deltas: dict[str, str] = field(default_factory=dict)
    """All text that came in deltas, by the type of the event."""

    @property
    def counts(self) -> dict[str, int]:
        """The counts that are present; one provider sends negative numbers."""
        input_tokens, output_tokens, total = (
            max(0, self.usage.get(name, 0))
            for name in ("input_tokens", "output_tokens", "total_tokens")
        )
        details = (self.usage.get(f"{name}_tokens_details") or {} for name in ("input", "output"))
        inside = {name: number for each in details for name, number in each.items()}
        known = {name: inside[name] for name in OUR_DETAILS & inside.keys()}
        return count_tokens(input_tokens, output_tokens, total_tokens=total, **known)

    @property
    def sealed(self) -> list[Document]:
        return [
            item for item in self.items if item.get("encrypted_content") and _is_reasoning(item)
        ]

    @property
    def simplified_items(self) -> list[Document]:
        """The items with content for a client, in the form that tests compare."""
        return [simple for item in self.items for simple in simplify_item(item)]


def _is_reasoning(item: Document) -> bool:
    return bool(item["type"] == "reasoning")


def read(data: bytes) -> RecordedResponse:
    """Read a stream or a whole body."""
    if data.lstrip()[:1] == b"{":
        return _read_response(json.loads(data))
    recorded = RecordedResponse()
    done: dict[int, Document] = {}
    for event in sse_payloads(data):
        kind = event["type"]
        if kind == "response.output_item.done":
            done[event["output_index"]] = event["item"]
        elif kind.endswith(".delta") and isinstance(event["delta"], str):
            recorded.deltas[kind] = recorded.deltas.get(kind, "") + event["delta"]
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            final = _read_response(event["response"])
            recorded.status, recorded.reason, recorded.usage = (
                final.status,
                final.reason,
                final.usage,
            )
    recorded.items = [item for _, item in sorted(done.items())]
    return recorded


def _read_response(response: Document) -> RecordedResponse:
    if response.get("object") != "response":
        return RecordedResponse(status="failed")
    details = response.get("incomplete_details") or {}
    return RecordedResponse(
        items=response["output"],
        usage=response.get("usage") or {},
        status=response["status"],
        reason=details.get("reason"),
    )


def simplify_item(item: Document) -> Iterator[Document]:
    """An item without what may differ, such as ids."""
    kind = item["type"]
    if kind == "message":
        yield from (
            {"type": part["type"], "text": part.get("text", part.get("refusal"))}
            for part in item["content"]
        )
    elif kind == "reasoning":
        summary = [part["text"] for part in item.get("summary") or []]
        content = [part["text"] for part in item.get("content") or []]
        if summary or content:
            yield {"type": kind, "summary": summary, "content": content}
    elif kind == "function_call":
        yield {name: item[name] for name in ("type", "call_id", "name", "arguments")}
    elif kind == "custom_tool_call":
        yield {name: item[name] for name in ("type", "call_id", "name", "input")}
    else:
        yield item


def citations(items: list[Document]) -> list[Any]:
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return [each for part in parts for each in part.get("annotations") or []]


def logprobs(items: list[Document]) -> list[str]:
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return [each["token"] for part in parts for each in part.get("logprobs") or []]
