"""Result of a traced request: the output items of its response, and a check of its tool calls.

Both are read from the events that the trace keeps. A response without an end has what its client
had received: finished items, and the text so far of those that were not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.items import Document
from antiphon.core.structured_output.json_schema import JSONSchema
from antiphon.errors import SchemaTooComplex

CallCheck: TypeAlias = Literal["valid", "invalid", "unknown_tool", "unchecked"]
_MAX_PROBLEMS = 5
_MAX_PROBLEM = 300  # characters: a message of the validator quotes the value
_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
_TEXTS: Mapping[str, str] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "summary",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
"""Events that add to an item, and the part that they add to."""


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of a client's tool, and whether its arguments fit the schema of the tool."""

    index: int
    """The place of its item in the output."""
    name: str
    arguments: str
    check: CallCheck
    problems: Sequence[str] = ()
    """Why the arguments do not fit."""


class Result(Struct, frozen=True, kw_only=True):
    """What the client of a request has received."""

    status: str | None = None
    """The status of the response; None if its stream has no end."""
    items: Sequence[Document] = ()
    calls: Sequence[ToolCall] = ()
    incomplete_reason: str | None = None


def read_result(events: bytes) -> Result | None:
    """Read the result from the events of a trace; None if there are none."""
    reader = _OutputReader()
    for event in _read_events(events):
        reader.feed(event)
    if reader.response is None and not reader.items:
        return None
    response = {**(reader.response or {}), "output": reader.output()}
    return make_result(response if reader.has_ended else {**response, "status": None})


def make_result(response: Document) -> Result:
    """Make the result of a whole response."""
    items = list(response.get("output") or ())
    return Result(
        status=response.get("status"),
        items=items,
        calls=list(_check_calls(items, response.get("tools") or ())),
        incomplete_reason=(response.get("incomplete_details") or {}).get("reason"),
    )


def _read_events(blob: bytes) -> Iterator[Document]:
    if blob.startswith(b"{"):  # a whole response
        yield from _read_whole(blob)
    for line in blob.splitlines():
        if line.startswith(b"data: {"):
            try:
                yield msgspec.json.decode(line[6:])
            except (ValueError, RecursionError):  # cut at the limit of the trace
                return


def _read_whole(blob: bytes) -> Iterator[Document]:
    try:
        response = msgspec.json.decode(blob)
    except (ValueError, RecursionError):  # cut at the limit of the trace
        return
    yield {"type": "response.completed", "response": response}


class _OutputReader:
    """Collects the output items of a stream of events."""

    def __init__(self) -> None:
        self.response: Document | None = None
        self.has_ended = False
        self.items: dict[int, Document] = {}
        self._open: dict[int, dict[str, str]] = {}  # texts of items that are not finished

    def feed(self, event: Document) -> None:
        kind = event.get("type", "")
        if "response" in event:
            self.response = event["response"]
            self.has_ended = kind in _TERMINAL
        elif kind == "response.output_item.added":
            self.items[event["output_index"]] = event["item"]
            self._open[event["output_index"]] = {}
        elif kind == "response.output_item.done":
            self.items[event["output_index"]] = event["item"]
            self._open.pop(event["output_index"], None)
        elif (part := _TEXTS.get(kind)) is not None:
            texts = self._open.setdefault(event["output_index"], {})
            texts[part] = texts.get(part, "") + event["delta"]

    def output(self) -> list[Document]:
        if self.has_ended and self.response is not None:
            return list(self.response.get("output") or ())
        return [self._with_text(index, item) for index, item in sorted(self.items.items())]

    def _with_text(self, index: int, item: Document) -> Document:
        """Return an item with the text that had arrived, if it is not finished."""
        texts = self._open.get(index)
        if texts is None:
            return item
        made = {**item, "status": "incomplete"}
        for part, text in texts.items():
            if part in ("arguments", "input"):
                made[part] = text
            elif part == "summary":
                made["summary"] = [{"type": "summary_text", "text": text}]
            else:
                kind, name = ("refusal", part) if part == "refusal" else ("output_text", "text")
                made["content"] = [*made.get("content", ()), {"type": kind, name: text}]
        return made


def _check_calls(items: Sequence[Document], tools: Sequence[Document]) -> Iterator[ToolCall]:
    offered = dict(_list_tools(tools))
    for index, item in enumerate(items):
        kind = item.get("type")
        if kind == "custom_tool_call":
            yield _make_call(index, item, item.get("input", ""), "unchecked")
        elif kind == "function_call":
            arguments = item.get("arguments", "")
            name = item.get("name", "")
            if name not in offered:
                yield _make_call(index, item, arguments, "unknown_tool")
                continue
            problems = find_problems(arguments, offered[name])
            check: CallCheck = "invalid" if problems else "valid"
            if problems is None:
                check = "unchecked"
            yield _make_call(index, item, arguments, check, problems or ())


def _make_call(
    index: int, item: Document, arguments: Any, check: CallCheck, problems: Sequence[str] = ()
) -> ToolCall:
    name = str(item.get("name", ""))
    return ToolCall(
        index=index, name=name, arguments=str(arguments), check=check, problems=problems
    )


def _list_tools(tools: Sequence[Document]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the schema of every function, those of namespaces included."""
    for tool in tools:
        if tool.get("type") == "function":
            yield tool.get("name", ""), tool.get("parameters")
        elif isinstance(tool.get("tools"), list):
            yield from _list_tools(tool["tools"])


def find_problems(arguments: str, schema: Any) -> list[str] | None:
    """List why arguments do not fit a schema; None if that cannot be checked."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return ["the arguments are not valid JSON"]
    if not isinstance(schema, dict):
        return None
    try:
        errors = JSONSchema(msgspec.json.encode(schema)).errors(value)
        return [_describe(error) for error, _ in zip(errors, range(_MAX_PROBLEMS), strict=False)]
    except (SchemaTooComplex, ValueError):  # also of the validator
        return None


def _describe(error: Any) -> str:
    path = ".".join(str(step) for step in error.instance_path)
    message = str(error.message)[:_MAX_PROBLEM]
    return f"{path}: {message}" if path else message
