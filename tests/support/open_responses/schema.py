"""The closed schema of Open Responses (2026-04-24): a response, a compaction, and 24 event types.

Stricter than OpenAI's types: fields may not be missing, most may not be null, and an item or event
of another type is an error. `check_response` and the others raise `msgspec.ValidationError`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Document = dict[str, Any]
Count = Annotated[int, Meta(ge=0)]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class Part(Struct, tag_field="type"):
    """Content of a message or of reasoning."""


class Logprob(Struct):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[Document]


class Citation(Struct, tag_field="type", tag="url_citation"):
    url: str
    title: str
    start_index: int
    end_index: int


class OutputTextPart(Part, tag="output_text"):
    text: str
    annotations: list[Citation]
    logprobs: list[Logprob] | UnsetType = UNSET


class RefusalPart(Part, tag="refusal"):
    refusal: str


class ReasoningTextPart(Part, tag="reasoning_text"):
    text: str


class SummaryTextPart(Part, tag="summary_text"):
    text: str


class InputTextPart(Part, tag="input_text"):
    text: str


class InputImagePart(Part, tag="input_image"):
    image_url: str | None = None


class InputFilePart(Part, tag="input_file"):
    filename: str | None = None


AnyPart = (
    OutputTextPart
    | RefusalPart
    | ReasoningTextPart
    | SummaryTextPart
    | InputTextPart
    | InputImagePart
    | InputFilePart
)


class MessageItem(Struct, tag_field="type", tag="message"):
    id: str
    status: ItemStatus
    role: Literal["user", "assistant", "system", "developer"]
    content: list[AnyPart]
    phase: Literal["commentary", "final_answer"] | UnsetType = UNSET


class FunctionCallItem(Struct, tag_field="type", tag="function_call"):
    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus


class FunctionCallOutputItem(Struct, tag_field="type", tag="function_call_output"):
    id: str
    call_id: str
    output: str | list[AnyPart]
    status: ItemStatus


class ReasoningOutputItem(Struct, tag_field="type", tag="reasoning"):
    id: str
    summary: list[AnyPart]
    content: list[AnyPart] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET


class CompactionItem(Struct, tag_field="type", tag="compaction"):
    id: str
    encrypted_content: str


AnyItem = (
    MessageItem | FunctionCallItem | FunctionCallOutputItem | ReasoningOutputItem | CompactionItem
)


class FunctionTool(Struct, tag_field="type", tag="function"):
    name: str
    description: str | None
    parameters: Document | None
    strict: bool | None


class TextSettings(Struct):
    format: Document
    verbosity: Literal["low", "medium", "high"] | UnsetType = UNSET


class ReasoningSettings(Struct):
    effort: Literal["none", "low", "medium", "high", "xhigh"] | None
    summary: Literal["auto", "concise", "detailed"] | None


class CachedTokens(Struct):
    cached_tokens: Count


class ReasoningTokens(Struct):
    reasoning_tokens: Count


class TokenUsage(Struct):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_details: CachedTokens
    output_tokens_details: ReasoningTokens


class ErrorDetails(Struct):
    code: str
    message: str


class Incompleteness(Struct):
    reason: str


class ResponseResource(Struct):
    """All 31 required fields."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: str
    incomplete_details: Incompleteness | None
    model: str
    previous_response_id: str | None
    instructions: str | None
    output: list[AnyItem]
    error: ErrorDetails | None
    tools: list[FunctionTool]
    tool_choice: str | Document
    truncation: Literal["auto", "disabled"]
    parallel_tool_calls: bool
    text: TextSettings
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    temperature: float
    reasoning: ReasoningSettings | None
    usage: TokenUsage | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    store: bool
    background: bool
    service_tier: str
    metadata: Any
    safety_identifier: str | None
    prompt_cache_key: str | None


class CompactResource(Struct, tag_field="object", tag="response.compaction"):
    id: str
    created_at: int
    output: list[AnyItem]
    usage: TokenUsage


class StreamEvent(Struct, tag_field="type"):
    sequence_number: Count


_LIFECYCLE = "created queued in_progress completed failed incomplete".split()
_PLACE = [("item_id", str), ("output_index", Count)]
_PART = [*_PLACE, ("content_index", Count)]
_SUMMARY = [*_PLACE, ("summary_index", Count)]
_ITEM = [("output_index", Count), ("item", AnyItem | None)]
_FIELDS: dict[str, list[tuple[str, Any]]] = {
    **{f"response.{name}": [("response", ResponseResource)] for name in _LIFECYCLE},
    "response.output_item.added": _ITEM,
    "response.output_item.done": _ITEM,
    "response.content_part.added": [*_PART, ("part", AnyPart)],
    "response.content_part.done": [*_PART, ("part", AnyPart)],
    "response.output_text.delta": [*_PART, ("delta", str)],
    "response.output_text.done": [*_PART, ("text", str)],
    "response.output_text.annotation.added": [
        *_PART,
        ("annotation_index", Count),
        ("annotation", Citation),
    ],
    "response.refusal.delta": [*_PART, ("delta", str)],
    "response.refusal.done": [*_PART, ("refusal", str)],
    "response.reasoning.delta": [*_PART, ("delta", str)],
    "response.reasoning.done": [*_PART, ("text", str)],
    "response.reasoning_summary_part.added": [*_SUMMARY, ("part", AnyPart)],
    "response.reasoning_summary_part.done": [*_SUMMARY, ("part", AnyPart)],
    "response.reasoning_summary_text.delta": [*_SUMMARY, ("delta", str)],
    "response.reasoning_summary_text.done": [*_SUMMARY, ("text", str)],
    "response.function_call_arguments.delta": [*_PLACE, ("delta", str)],
    "response.function_call_arguments.done": [*_PLACE, ("arguments", str)],
    "error": [("error", Document)],
}
_EVENTS = {
    kind: msgspec.defstruct("Event", fields, bases=(StreamEvent,), tag=kind)
    for kind, fields in _FIELDS.items()
}


def check_response(document: Any) -> ResponseResource:
    return msgspec.convert(document, ResponseResource, strict=True)


def check_compaction(document: Any) -> CompactResource:
    return msgspec.convert(document, CompactResource, strict=True)


def check_event(document: Any) -> None:
    """Check an event of a stream; a type outside of the union is an error."""
    kind = document.get("type")
    if kind not in _EVENTS:
        raise msgspec.ValidationError(f"{kind!r} is not an event of Open Responses")
    msgspec.convert(document, _EVENTS[kind], strict=True)
