"""The streaming events of the API. The tag of a struct is the event's `type`; `HostedToolEvent`
alone has its type in a field.

Events have no sequence number: `SSEEncoder` adds it, so that there is one counter per stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from antiphon.core.items import Document, Item, Part, SummaryText
from antiphon.core.response import Response


class Created(Struct, frozen=True, tag_field="type", tag="response.created"):
    response: Response


class Queued(Struct, frozen=True, tag_field="type", tag="response.queued"):
    """The second event of a background response that waits for others."""

    response: Response


class InProgress(Struct, frozen=True, tag_field="type", tag="response.in_progress"):
    response: Response


class Completed(Struct, frozen=True, tag_field="type", tag="response.completed"):
    response: Response


class Incomplete(Struct, frozen=True, tag_field="type", tag="response.incomplete"):
    response: Response


class Failed(Struct, frozen=True, tag_field="type", tag="response.failed"):
    response: Response


class ItemAdded(Struct, frozen=True, tag_field="type", tag="response.output_item.added"):
    output_index: int
    item: Item


class ItemDone(Struct, frozen=True, tag_field="type", tag="response.output_item.done"):
    output_index: int
    item: Item


class PartAdded(Struct, frozen=True, tag_field="type", tag="response.content_part.added"):
    item_id: str
    output_index: int
    content_index: int
    part: Part


class PartDone(Struct, frozen=True, tag_field="type", tag="response.content_part.done"):
    item_id: str
    output_index: int
    content_index: int
    part: Part


class TextDelta(Struct, frozen=True, tag_field="type", tag="response.output_text.delta"):
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: Sequence[Document] = ()


class TextDone(Struct, frozen=True, tag_field="type", tag="response.output_text.done"):
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: Sequence[Document] = ()


class AnnotationAdded(
    Struct, frozen=True, tag_field="type", tag="response.output_text.annotation.added"
):
    item_id: str
    output_index: int
    content_index: int
    annotation_index: int
    annotation: Document


class RefusalDelta(Struct, frozen=True, tag_field="type", tag="response.refusal.delta"):
    item_id: str
    output_index: int
    content_index: int
    delta: str


class RefusalDone(Struct, frozen=True, tag_field="type", tag="response.refusal.done"):
    item_id: str
    output_index: int
    content_index: int
    refusal: str


class ReasoningDelta(Struct, frozen=True, tag_field="type", tag="response.reasoning_text.delta"):
    item_id: str
    output_index: int
    content_index: int
    delta: str


class ReasoningDone(Struct, frozen=True, tag_field="type", tag="response.reasoning_text.done"):
    item_id: str
    output_index: int
    content_index: int
    text: str


class SummaryPartAdded(
    Struct, frozen=True, tag_field="type", tag="response.reasoning_summary_part.added"
):
    item_id: str
    output_index: int
    summary_index: int
    part: SummaryText


class SummaryPartDone(
    Struct, frozen=True, tag_field="type", tag="response.reasoning_summary_part.done"
):
    item_id: str
    output_index: int
    summary_index: int
    part: SummaryText


class SummaryDelta(
    Struct, frozen=True, tag_field="type", tag="response.reasoning_summary_text.delta"
):
    item_id: str
    output_index: int
    summary_index: int
    delta: str


class SummaryDone(
    Struct, frozen=True, tag_field="type", tag="response.reasoning_summary_text.done"
):
    item_id: str
    output_index: int
    summary_index: int
    text: str


class ArgumentsDelta(
    Struct, frozen=True, tag_field="type", tag="response.function_call_arguments.delta"
):
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(
    Struct, frozen=True, tag_field="type", tag="response.function_call_arguments.done"
):
    item_id: str
    output_index: int
    name: str
    arguments: str


class InputDelta(
    Struct, frozen=True, tag_field="type", tag="response.custom_tool_call_input.delta"
):
    item_id: str
    output_index: int
    delta: str


class InputDone(Struct, frozen=True, tag_field="type", tag="response.custom_tool_call_input.done"):
    item_id: str
    output_index: int
    input: str


class MCPArgumentsDelta(
    Struct, frozen=True, tag_field="type", tag="response.mcp_call_arguments.delta"
):
    item_id: str
    output_index: int
    delta: str


class MCPArgumentsDone(
    Struct, frozen=True, tag_field="type", tag="response.mcp_call_arguments.done"
):
    item_id: str
    output_index: int
    arguments: str


class SearchInProgress(
    Struct, frozen=True, tag_field="type", tag="response.web_search_call.in_progress"
):
    item_id: str
    output_index: int


class Searching(Struct, frozen=True, tag_field="type", tag="response.web_search_call.searching"):
    item_id: str
    output_index: int


class SearchCompleted(
    Struct, frozen=True, tag_field="type", tag="response.web_search_call.completed"
):
    item_id: str
    output_index: int


class HostedToolEvent(Struct, frozen=True):
    """An event with its `type` in a field: progress of a tool that the provider runs, passed on
    under the provider's own type; any event that is read from a store; and a delta with padding.

    `fields` are those of the event but `type` and `sequence_number`.
    """

    type: str
    fields: Document


class Keepalive(Struct, frozen=True, tag_field="type", tag="keepalive"):
    """Sent while there is no output; comments would not reset every client's idle timer."""


Terminal: TypeAlias = Completed | Incomplete | Failed
TERMINALS: Mapping[str, type[Terminal]] = {
    "completed": Completed,
    "incomplete": Incomplete,
    "failed": Failed,
}
"""The terminal event for each final status of a response."""
TERMINAL_EVENTS = (Completed, Incomplete, Failed)
TERMINAL_TYPES = frozenset[type](TERMINAL_EVENTS)
"""For tests of `type(event)`: of structs they are much cheaper than `isinstance`."""
Event: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ArgumentsDelta
    | InputDelta
    | SummaryDelta
    | RefusalDelta
    | AnnotationAdded
    | ItemAdded
    | ItemDone
    | PartAdded
    | PartDone
    | TextDone
    | RefusalDone
    | ReasoningDone
    | SummaryPartAdded
    | SummaryPartDone
    | SummaryDone
    | ArgumentsDone
    | InputDone
    | MCPArgumentsDelta
    | MCPArgumentsDone
    | SearchInProgress
    | Searching
    | SearchCompleted
    | HostedToolEvent
    | Created
    | Queued
    | InProgress
    | Keepalive
    | Completed
    | Incomplete
    | Failed
)
