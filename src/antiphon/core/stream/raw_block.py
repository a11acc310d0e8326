"""Raw block: an output item that is passed on as the provider made it, with its progress events.

1. Its events get the id and the output index of our item; what they say is not changed.
2. The stages of a hosted tool come once each and in order (in progress, working, completed or
   failed), whatever the provider repeats or leaves out. Progress of another tool is dropped.
   Only MCP has an event for a failed stage; for other tools the status of the item says it.
3. Only an invalid id, a status that is not final, and fields that contradict what was announced
   or streamed are changed in the item.
4. An MCP call or list that is never ended gets an error: it would look like an empty result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from antiphon.core.events import (
    Event,
    HostedToolEvent,
    ItemAdded,
    ItemDone,
    MCPArgumentsDelta,
    MCPArgumentsDone,
)
from antiphon.core.items import Document, Item, Status

_MCP_ARGUMENTS = "response.mcp_call_arguments."
_LAST_STAGE = 2
_STAGES: Mapping[str, int] = {
    "in_progress": 0,
    "searching": 1,
    "interpreting": 1,
    "generating": 1,
    "completed": _LAST_STAGE,
    "failed": _LAST_STAGE,
}
_HAVE_FAILED_EVENT = frozenset({"mcp_call", "mcp_list_tools"})
_CAN_FAIL = frozenset(
    "web_search_call file_search_call code_interpreter_call image_generation_call mcp_call".split()
)
# A field that clients require, and that providers send only with the finished item.
_MISSING_AT_START: Mapping[str, Document] = {
    "web_search_call": {"action": {"type": "search", "query": ""}},
}
_IDENTITY = ("type", "id", "call_id", "name", "namespace", "role")


class RawBlock:
    """An item that arrived whole, or one that the provider has started and will end."""

    def __init__(
        self,
        document: Document,
        new_id: Callable[[str], str],
        *,
        is_complete: bool = True,
        is_held: bool = False,
    ) -> None:
        """`is_held`: the gateway ends it, and not the round that it began in."""
        self.output_index = -1
        self.announced = False
        self.is_complete = is_complete
        self.is_held = is_held
        self._kind = str(document.get("type"))
        document = _repair_id(document, new_id)
        missing = {} if is_complete else _MISSING_AT_START.get(self._kind, {})
        self._document = _finish_status(document) if is_complete else {**missing, **document}
        self.id: str = self._document["id"]
        self._events: list[tuple[str, Document]] = []
        self._stage = -1
        self._arguments: list[str] = []
        self._arguments_done = False

    # The provider's input

    def append(self, kind: str, fields: Document) -> list[Event]:
        """Pass on an event of the item; one that comes before its turn waits."""
        if not self.announced:
            self._events.append((kind, fields))
            return []
        if self._kind == "mcp_call" and kind.startswith(_MCP_ARGUMENTS):
            return self._append_arguments(kind, fields)
        stage = self._stage_of(kind)
        if stage is None:
            return [] if self._is_of_another_tool(kind) else [self._event(kind, fields)]
        if stage <= self._stage or not self._has_event_for(kind):
            return []
        begun = [self._stage_event("in_progress")] if self._stage < 0 < stage else []
        self._stage = stage
        return [*begun, self._event(kind, fields)]

    def end(self, document: Document) -> None:
        """Take the finished item. What identifies it stays as it was announced."""
        announced = self._document
        identity = {name: announced[name] for name in _IDENTITY if announced.get(name) is not None}
        self._document = _finish_status({**document, **identity})
        self.is_complete = True

    def abandon(self) -> None:
        """Note that the provider will not end the item any more."""
        self._document = _add_error(_fail_status(self._document))
        self.is_complete = True

    # Events

    def start_streaming(self, output_index: int) -> list[Event]:
        self.announced = True
        self.output_index = output_index
        announced = _announced_document(self._document, is_complete=self.is_complete)
        events: list[Event] = [ItemAdded(output_index, announced)]
        waiting, self._events = self._events, []
        for kind, fields in waiting:
            events += self.append(kind, fields)
        return events

    def item(self) -> Item:
        return self._document

    def close(self, status: Status) -> tuple[list[Event], Item]:
        """Close the item with its own status, whatever the status of the response is."""
        if not self.is_complete:
            self.abandon()
        events: list[Event] = []
        if self._kind == "mcp_call":
            events = self._end_arguments(self._document.get("arguments"))
            if self._arguments_done:
                self._document = {**self._document, "arguments": "".join(self._arguments)}
        if 0 <= self._stage < _LAST_STAGE:
            events += self._last_stage_events()
        item = self.item()
        return [*events, ItemDone(self.output_index, item)], item

    def _last_stage_events(self) -> list[Event]:
        """The last stage that the provider left out: an item that did not succeed is never
        announced as completed."""
        document = self._document
        if document.get("status", "completed") == "completed" and not document.get("error"):
            return [self._stage_event("completed")]
        return [self._stage_event("failed")] if self._kind in _HAVE_FAILED_EVENT else []

    def _has_event_for(self, kind: str) -> bool:
        """Whether the API has this stage for the item's tool; strict clients reject any other."""
        return self._kind in _HAVE_FAILED_EVENT or not kind.endswith(".failed")

    def _stage_of(self, kind: str) -> int | None:
        tool, _, stage = kind.removeprefix("response.").rpartition(".")
        return _STAGES.get(stage) if tool == self._kind else None

    def _is_of_another_tool(self, kind: str) -> bool:
        """Whether an event can only belong to an item of another type: the provider confuses them,
        or its bytes were damaged."""
        tool = kind.removeprefix("response.").rpartition(".")[0]
        return not _is_part_of(tool, self._kind) and any(_is_part_of(tool, k) for k in _PREFIXES)

    def _stage_event(self, stage: str) -> Event:
        return self._event(f"response.{self._kind}.{stage}", {"item_id": self.id})

    def _event(self, kind: str, fields: Document) -> Event:
        place: Document = {"output_index": self.output_index}
        if "item_id" in fields:  # the events of a shell command have none
            place = {"item_id": self.id, **place}
        return HostedToolEvent(kind, {**fields, **place})

    # The arguments of an MCP call: their deltas together are what the item has

    def _append_arguments(self, kind: str, fields: Document) -> list[Event]:
        text = fields.get("delta")
        if kind.endswith(".done"):
            return self._end_arguments(fields.get("arguments"))
        if not isinstance(text, str) or self._arguments_done:
            return []
        self._arguments.append(text)
        return [MCPArgumentsDelta(self.id, self.output_index, text)]

    def _end_arguments(self, whole: object) -> list[Event]:
        """Send what the deltas left out, and the end. A text that contradicts them is not used."""
        streamed = "".join(self._arguments)
        if self._arguments_done or not (streamed or isinstance(whole, str)):
            return []
        self._arguments_done = True
        events: list[Event] = []
        if isinstance(whole, str) and whole.startswith(streamed) and whole != streamed:
            events.append(MCPArgumentsDelta(self.id, self.output_index, whole[len(streamed) :]))
            streamed = whole
        self._arguments = [streamed]
        return [*events, MCPArgumentsDone(self.id, self.output_index, streamed)]


def _is_part_of(progress: str, item_type: str) -> bool:
    """`code_interpreter_call_code` is progress of a `code_interpreter_call`."""
    return progress == item_type or progress.startswith(f"{item_type}_")


_ID = re.compile(r"[a-z]+_\S+")
_PREFIXES: Mapping[str, str] = {
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "tool_search_call": "tsc",
    "compaction": "cmp",
    "client_block": "cb",
}
_FINAL_STATUSES = ("completed", "incomplete", "failed")
_IN_PROGRESS_STATUSES = frozenset(
    "in_progress searching interpreting generating calling queued".split()
)


def _repair_id(document: Document, new_id: Callable[[str], str]) -> Document:
    """Give an item an id that clients accept."""
    item_id = document.get("id")
    if isinstance(item_id, str) and _ID.fullmatch(item_id):
        return document
    return {**document, "id": new_id(_PREFIXES.get(str(document.get("type")), "item"))}


def _finish_status(document: Document) -> Document:
    """Give an item that arrived as finished a final status; an unknown one is no success."""
    status = document.get("status", "completed")
    if status in _FINAL_STATUSES:
        return document
    if isinstance(status, str) and status not in _IN_PROGRESS_STATUSES:
        return _fail_status(document)
    return {**document, "status": "completed"}


def _fail_status(document: Document) -> Document:
    """Give an item that the provider never ended the status of one that did not succeed: `failed`,
    unless the API has only `incomplete` for its type."""
    if "status" not in document:
        return document
    kind = str(document.get("type"))
    can_fail = kind in _CAN_FAIL or not (kind in _PREFIXES or kind.endswith("_output"))
    return {**document, "status": "failed" if can_fail else "incomplete"}


_NEVER_ENDED = "The response ended before the server had sent its result."
_INTERNAL_ERROR = -32603


def _add_error(document: Document) -> Document:
    """Say in a call or list of an MCP server that it was never ended."""
    if document.get("error") or document.get("output") is not None:
        return document
    match document.get("type"):
        case "mcp_list_tools":
            return {**document, "error": _NEVER_ENDED}
        case "mcp_call":
            error = {"type": "mcp_protocol_error", "code": _INTERNAL_ERROR}
            return {**document, "error": {**error, "message": _NEVER_ENDED}}
    return document


def _announced_document(document: Document, *, is_complete: bool) -> Document:
    """The item as `output_item.added` has it. Output items of a server were never in progress."""
    kind = str(document.get("type"))
    announced = dict(document)
    if "status" in announced and not kind.endswith("_output"):
        announced["status"] = "in_progress"
    if kind == "image_generation_call":  # send the image once, with `done`
        announced["result"] = None
    if kind == "mcp_call":
        announced["arguments"] = ""
    if kind == "compaction" and not is_complete:  # sealed when it is complete
        announced["encrypted_content"] = ""
    return announced
