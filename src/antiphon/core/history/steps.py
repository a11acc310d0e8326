"""Canonical history: whatever a client or a store hands us becomes a flat list of steps.

Four kinds of step are enough for every dialect: somebody said something, the model thought, the
model called a tool, a tool answered. `core.canonical` reads items into steps, `core.pairing` puts
calls and answers together; rendering the steps is the dialect's business.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.core.stream.deltas import ReasoningState

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]
PHASES = frozenset({"commentary", "partial_answer", "final_answer"})


class HistoryCode(StrEnum):
    """Every code that reading a history gives to a diagnostic."""

    ITEM_IGNORED = "history.item.ignored"
    ITEM_DEGRADED = "history.item.degraded"
    REFERENCE_UNRESOLVED = "history.reference.unresolved"
    COMPACTION_IGNORED = "history.compaction.ignored"
    ROLE_REPLACED = "history.role.replaced"
    PART_IGNORED = "history.part.ignored"
    IMAGE_REPLACED = "history.image.replaced"
    IMAGE_DESCRIBED = "history.image.described"
    IMAGE_MOVED = "history.image.moved"
    FILE_REPLACED = "history.file.replaced"
    FILE_MOVED = "history.file.moved"
    AUDIO_REPLACED = "history.audio.replaced"
    AUDIO_MOVED = "history.audio.moved"
    VIDEO_REPLACED = "history.video.replaced"
    ARGUMENTS_MALFORMED = "history.arguments.malformed"
    CALL_UNANSWERED = "history.call.unanswered"
    ANSWER_ORPHANED = "history.answer.orphaned"
    ANSWER_REPEATED = "history.answer.repeated"
    REASONING_ORPHANED = "history.reasoning.orphaned"


class TextPart(Struct, frozen=True, tag=True):
    text: str


class ImagePart(Struct, frozen=True, tag=True):
    """An image, by address; a `data:` URL carries the image itself."""

    url: str
    detail: str | None = None


class FilePart(Struct, frozen=True, tag=True):
    """A file, by address or by content; `data` is a `data:` URL."""

    filename: str | None = None
    url: str | None = None
    data: str | None = None
    file_id: str | None = None


class AudioPart(Struct, frozen=True, tag=True):
    data: str
    format: str


class RefusalPart(Struct, frozen=True, tag=True):
    text: str


Part: TypeAlias = TextPart | ImagePart | FilePart | AudioPart | RefusalPart


class MessageStep(Struct, frozen=True, tag=True):
    """Somebody's words. Only a user's may hold media: other roles take text everywhere."""

    role: Role
    parts: tuple[Part, ...]
    phase: str | None = None
    """What an assistant's words were labelled as (`PHASES`), for providers that label them."""


class ReasoningStep(Struct, frozen=True, tag=True):
    """Reasoning of an earlier turn: its text, its summary, and what its provider wants back.

    `encrypted` is what the client carried; `states` is what came out of it, if it was sealed by us
    for the provider and model that are asked now (`core.capsule`).
    """

    text: str = ""
    summary: str = ""
    encrypted: str | None = None
    states: tuple[ReasoningState, ...] = ()


class ToolCallStep(Struct, frozen=True, tag=True):
    """A call of an earlier turn. Every tool type has become a function with JSON arguments."""

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class ToolResultStep(Struct, frozen=True, tag=True):
    """What a tool answered. Pairing gives it the name of its call."""

    call_id: str
    parts: tuple[Part, ...]
    name: str | None = None


Step: TypeAlias = MessageStep | ReasoningStep | ToolCallStep | ToolResultStep


def is_own(step: Step) -> bool:
    """Whether a step is part of an assistant's turn."""
    return isinstance(step, ReasoningStep | ToolCallStep) or (
        isinstance(step, MessageStep) and step.role == "assistant"
    )
