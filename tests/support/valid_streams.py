"""Handmade valid event streams, built from the API's rules alone.

An item is a function from its place in the output to its events and its final form; `stream` puts
items between a beginning and an end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
BuiltItem = tuple[list[Document], Document | None]
Item = Callable[[int], BuiltItem]

USAGE: Document = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}
LOGPROB: Document = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}


def response(status: str = "in_progress", **changes: Any) -> Document:
    ended = status in ("completed", "incomplete", "failed")
    reason = {"reason": "max_output_tokens"}
    return (
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 7,
            "completed_at": 8 if status == "completed" else None,
            "status": status,
            "model": "m",
            "output": [],
            "error": {"code": "server_error", "message": "No."} if status == "failed" else None,
            "incomplete_details": reason if status == "incomplete" else None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "top_p": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "top_logprobs": 0,
            "previous_response_id": None,
            "background": False,
            "store": True,
            "max_output_tokens": None,
            "max_tool_calls": None,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "reasoning": {"effort": None, "summary": None},
            "truncation": "disabled",
            "service_tier": "default",
            "usage": USAGE if ended else None,
            "safety_identifier": None,
            "prompt_cache_key": None,
        }
        | changes
        | ({"output_text": _all_text(changes.get("output", []))} if ended else {})
    )


def _all_text(output: list[Document]) -> str:
    parts = [part for item in output for part in item.get("content") or []]
    return "".join(part["text"] for part in parts if part["type"] == "output_text")


def stream(*items: Item, end: str = "completed", queued: bool = False) -> list[Document]:
    events: list[Document] = [
        {"type": "response.created", "response": response("queued" if queued else "in_progress")}
    ]
    if queued:
        events.append({"type": "response.queued", "response": response("queued")})
    events.append({"type": "response.in_progress", "response": response()})
    output: list[Document] = []
    for item in items:
        item_events, final = item(len(output))
        events += item_events
        if final is not None:
            output.append(copy.deepcopy(final))
    events.append({"type": f"response.{end}", "response": response(end, output=output)})
    return numbered(events)


def numbered(events: list[Document]) -> list[Document]:
    """Number the events; a keep-alive repeats the last number."""
    following, result = 0, []
    for event in events:
        following += event.get("type") != "keepalive"
        result.append(event | {"sequence_number": following - 1})
    return result


def _item(index: int, blank: Document, inner: list[Document], final: Document) -> BuiltItem:
    added = {"type": "response.output_item.added", "output_index": index, "item": blank}
    done = {"type": "response.output_item.done", "output_index": index, "item": final}
    inner = [event | {"item_id": blank["id"], "output_index": index} for event in inner]
    return [added, *inner, done], final


def message(*deltas: str, cited: tuple[Document, ...] = (), status: str = "completed") -> Item:
    logprobs = [LOGPROB] * len(deltas)
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    full = part | {"text": "".join(deltas), "annotations": list(cited), "logprobs": logprobs}
    inner: list[Document] = [
        {"type": "response.content_part.added", "part": part},
        *(
            {"type": "response.output_text.delta", "delta": delta, "logprobs": [LOGPROB]}
            for delta in deltas
        ),
        *(
            {
                "type": "response.output_text.annotation.added",
                "annotation_index": number,
                "annotation": annotation,
            }
            for number, annotation in enumerate(cited)
        ),
        {"type": "response.output_text.done", "text": full["text"], "logprobs": logprobs},
        {"type": "response.content_part.done", "part": full},
    ]
    return _message(inner, full, status)


def refusal(*deltas: str) -> Item:
    text = "".join(deltas)
    part = {"type": "refusal", "refusal": text}
    inner: list[Document] = [
        {"type": "response.content_part.added", "part": {"type": "refusal", "refusal": ""}},
        *({"type": "response.refusal.delta", "delta": delta} for delta in deltas),
        {"type": "response.refusal.done", "refusal": text},
        {"type": "response.content_part.done", "part": part},
    ]
    return _message(inner, part, "completed")


def _message(inner: list[Document], part: Document, status: str) -> Item:
    inner = [event | {"content_index": 0} for event in inner]

    def build(index: int) -> BuiltItem:
        blank = {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": []}
        full = blank | {"status": status, "content": [part]}
        return _item(index, blank | {"status": "in_progress"}, inner, full)

    return build


def reasoning(raw: tuple[str, ...] = (), summary: tuple[str, ...] = ()) -> Item:
    inner: list[Document] = []
    for number, text in enumerate(summary):
        inner += _reasoning("reasoning_summary", "summary", number, text)
    for number, text in enumerate(raw):
        inner += _reasoning("content", "content", number, text)

    def build(index: int) -> BuiltItem:
        blank = {"type": "reasoning", "id": f"rs_{index}", "status": "in_progress", "summary": []}
        full = blank | {
            "status": "completed",
            "summary": [{"type": "summary_text", "text": text} for text in summary],
            "content": [{"type": "reasoning_text", "text": text} for text in raw],
        }
        return _item(index, blank, inner, full)

    return build


def _reasoning(part_name: str, index: str, number: int, text: str) -> list[Document]:
    is_raw = index == "content"
    name = "reasoning_text" if is_raw else "reasoning_summary_text"
    part = {"type": "reasoning_text" if is_raw else "summary_text", "text": ""}
    events: list[Document] = [
        {"type": f"response.{part_name}_part.added", "part": part},
        {"type": f"response.{name}.delta", "delta": text},
        {"type": f"response.{name}.done", "text": text},
        {"type": f"response.{part_name}_part.done", "part": part | {"text": text}},
    ]
    return [event | {f"{index}_index": number} for event in events]


def call(*deltas: str, kind: str = "function_call", status: str = "completed") -> Item:
    prefix, stem, field = {
        "function_call": ("fc", "function_call_arguments", "arguments"),
        "custom_tool_call": ("ctc", "custom_tool_call_input", "input"),
        "mcp_call": ("mcp", "mcp_call_arguments", "arguments"),
    }[kind]
    text = "".join(deltas)
    inner: list[Document] = [
        *({"type": f"response.{stem}.delta", "delta": delta} for delta in deltas),
        {"type": f"response.{stem}.done", field: text, "name": "tool"},
    ]

    def build(index: int) -> BuiltItem:
        blank = {"type": kind, "id": f"{prefix}_{index}", "call_id": f"call_{index}"}
        blank |= {"name": "tool", field: "", "status": "in_progress"}
        return _item(index, blank, inner, blank | {field: text, "status": status})

    return build


def cut_call(*deltas: str) -> Item:
    """A call that a failure leaves behind: in the output, but never done."""

    def build(index: int) -> BuiltItem:
        events, final = call(*deltas, status="incomplete")(index)
        return events[:-2], final

    return build


def search(*stages: str) -> Item:
    def build(index: int) -> BuiltItem:
        blank = {"type": "web_search_call", "id": f"ws_{index}", "status": "in_progress"}
        inner: list[Document] = [{"type": f"response.web_search_call.{setup}"} for setup in stages]
        return _item(index, blank, inner, blank | {"status": "completed"})

    return build


def code_run(*pieces: str) -> Item:
    """Code that the server wrote and ran."""

    def build(index: int) -> BuiltItem:
        code, name = "".join(pieces), "response.code_interpreter_call"
        blank = {"type": "code_interpreter_call", "id": f"ci_{index}", "status": "in_progress"}
        inner: list[Document] = [
            {"type": f"{name}.in_progress"},
            *({"type": f"{name}_code.delta", "delta": piece} for piece in pieces),
            {"type": f"{name}_code.done", "code": code},
            {"type": f"{name}.interpreting"},
            {"type": f"{name}.completed"},
        ]
        return _item(index, blank, inner, blank | {"status": "completed", "code": code})

    return build


def hosted(kind: str, *, status: str = "completed", **fields: Any) -> Item:
    """An item that came whole: a call that the server ran, or what came of it, in one exchange."""

    def build(index: int) -> BuiltItem:
        item = {"type": kind, "id": f"hosted_{index}", "call_id": "call_x", "status": status}
        item |= {"action": {}, "output": []} | fields
        begun = item if kind.endswith("_output") else item | {"status": "in_progress"}
        return _item(index, begun, [], item)

    return build


def keepalive(index: int) -> BuiltItem:
    return [{"type": "keepalive"}], None


def error(index: int) -> BuiltItem:
    """The event that may stand before `response.failed`, in both of its shapes."""
    error_body = {"code": "server_error", "message": "No.", "param": None}
    return [error_body | {"type": "error", "error": error_body | {"type": "server_error"}}], None
