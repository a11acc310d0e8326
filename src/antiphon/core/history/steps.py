"""Steps: the canonical history, a flat list that every dialect can encode.

There are four kinds: messages, reasoning, tool calls and tool results. `core.history.read_items`
reads items into steps, `core.history.pairing` pairs calls with their results, and the dialects
encode them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from antiphon.core.deltas import ReasoningState
from antiphon.core.items import CacheBreakpoint

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]
PHASES = frozenset({"commentary", "partial_answer", "final_answer"})


class HistoryCode(StrEnum):
    """Codes of the diagnostics about the history."""

    ITEM_IGNORED = "history.item.ignored"
    ITEM_DEGRADED = "history.item.degraded"
    REFERENCE_UNRESOLVED = "history.reference.unresolved"
    COMPACTION_IGNORED = "history.compaction.ignored"
    COMPACTION_APPLIED = "history.compaction.applied"
    ROLE_REPLACED = "history.role.replaced"
    PART_IGNORED = "history.part.ignored"
    IMAGE_REPLACED = "history.image.replaced"
    IMAGE_DESCRIBED = "history.image.described"
    IMAGE_MOVED = "history.image.moved"
    FILE_REPLACED = "history.file.replaced"
    FILE_INLINED = "history.file.inlined"
    FILE_MOVED = "history.file.moved"
    AUDIO_REPLACED = "history.audio.replaced"
    AUDIO_MOVED = "history.audio.moved"
    VIDEO_REPLACED = "history.video.replaced"
    ARGUMENTS_MALFORMED = "history.arguments.malformed"
    CALL_UNANSWERED = "history.call.unanswered"
    ANSWER_ORPHANED = "history.answer.orphaned"
    ANSWER_REPEATED = "history.answer.repeated"
    ERROR_UNMARKED = "history.error.unmarked"
    REASONING_ORPHANED = "history.reasoning.orphaned"
    TRUNCATED = "history.truncated"


class BlockPlace(Struct, frozen=True, order=True):
    """Where a step stood in a client format that groups content blocks in messages."""

    message: int
    block: int


class TextPart(Struct, frozen=True, tag=True):
    text: str
    cache: CacheBreakpoint | None = None
    tool: str | None = None
    """The deferred tool that this text names as found: a provider that knows deferred tools gets a
    reference instead of the text."""
    extra: Mapping[str, Any] | None = None
    """Members of the client's own content block that have no name here. They are set only if the
    provider has the same format (`Capabilities.client_blocks`). With a `type` they are a whole
    block, for which this text stands."""


class ImagePart(Struct, frozen=True, tag=True):
    """An image by its URL; a `data:` URL contains the image itself."""

    url: str
    detail: str | None = None
    cache: CacheBreakpoint | None = None
    extra: Mapping[str, Any] | None = None


class FilePart(Struct, frozen=True, tag=True):
    """A file by its URL, its content or its id; `data` is a `data:` URL."""

    filename: str | None = None
    url: str | None = None
    data: str | None = None
    file_id: str | None = None
    context: str | None = None
    """What the model should know of the file, and not cite."""
    citations: bool | None = None
    """Whether the response is to cite the file."""
    cache: CacheBreakpoint | None = None
    extra: Mapping[str, Any] | None = None


class AudioPart(Struct, frozen=True, tag=True):
    data: str
    format: str


class RefusalPart(Struct, frozen=True, tag=True):
    text: str


Part: TypeAlias = TextPart | ImagePart | FilePart | AudioPart | RefusalPart


class MessageStep(Struct, frozen=True, tag=True):
    """A message. Only a user's may contain media: for other roles providers support only text."""

    role: Role
    parts: tuple[Part, ...]
    phase: str | None = None
    """The `phase` of an assistant's message (`PHASES`), for providers that have one."""
    native: Mapping[str, Any] | None = None
    """An item of the provider that gets this request, for which this message stands: its own
    compaction. Other providers would get the message."""
    place: BlockPlace | None = None
    extra: Mapping[str, Any] | None = None
    """Members of the client's own message, as those of a content block (`TextPart.extra`)."""


class ReasoningStep(Struct, frozen=True, tag=True):
    """Reasoning of an earlier turn: its text, its summary, and the state that its provider needs.

    `encrypted` is the item's `encrypted_content`; `states` is what a capsule in it holds, if it is
    from the provider and model that get this request (`core.history.capsule`).
    """

    text: str = ""
    summary: str = ""
    encrypted: str | None = None
    states: tuple[ReasoningState, ...] = ()
    place: BlockPlace | None = None


class ToolCallStep(Struct, frozen=True, tag=True):
    """A tool call of an earlier turn; calls of every tool type are function calls here."""

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
    place: BlockPlace | None = None
    cache: CacheBreakpoint | None = None
    extra: Mapping[str, Any] | None = None


class ToolResultStep(Struct, frozen=True, tag=True):
    """The result of a tool call. `core.history.pairing` sets the name of the tool."""

    call_id: str
    parts: tuple[Part, ...]
    name: str | None = None
    is_error: bool | None = None
    """Whether the call failed, where the client has said so."""
    place: BlockPlace | None = None
    cache: CacheBreakpoint | None = None
    extra: Mapping[str, Any] | None = None


Step: TypeAlias = MessageStep | ReasoningStep | ToolCallStep | ToolResultStep


def is_own(step: Step) -> bool:
    """Whether a step is part of an assistant's turn."""
    return isinstance(step, (ReasoningStep, ToolCallStep)) or (
        isinstance(step, MessageStep) and step.role == "assistant"
    )
