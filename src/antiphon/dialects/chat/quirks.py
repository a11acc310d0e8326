"""Differences between providers of Chat Completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from antiphon.core.items import Document
from antiphon.core.plan.plan import Plan
from antiphon.dialects.call_ids import CallIdFormat


class ChatQuirks(Struct, frozen=True, kw_only=True):
    """How one provider's requests differ from the common form: data, and a function at most."""

    fields: Mapping[str, Any] = {}
    """Fields of every request."""
    max_tokens_field: str = "max_tokens"
    effort_field: str | None = "reasoning_effort"
    """Field of the reasoning effort; a dot leads into an object. None: `patch` sets it."""
    thinking_on: Mapping[str, Any] = {}
    """Fields that accompany an effort."""
    thinking_off: Mapping[str, Any] | None = None
    """Fields that replace the effort `none`; None: it is a level like the others."""
    user_field: str | None = "user"
    """Field of the user's identifier; None leaves it out."""
    seed_field: str = "seed"
    reasoning_field: str = "reasoning_content"
    reasoning_required: bool = False
    """A turn that called tools must carry its reasoning, even if that was lost."""
    lost_reasoning: str = ""
    """Placeholder for lost reasoning."""
    replay_details: bool = False
    """`reasoning_details` are sent back as they came, instead of the reasoning text."""
    replay_signatures: bool = False
    """Gemini's signatures are sent back with the calls, or the text, that they came with."""
    call_ids: CallIdFormat | None = None
    """Accepted call ids; None: any."""
    required_choice: str = "required"
    """`tool_choice` that forces a call."""
    free_choice: str | None = "auto"
    """`tool_choice` that allows a call; None leaves it out."""
    schema_drops: frozenset[str] = frozenset()
    """Top-level keywords of tool schemas that are refused, such as `$schema`."""
    content_beside_calls: bool = False
    """A turn that only calls tools has `content: null`: the server may require the field. Where it
    does not, the field is left out: llama-cpp-python 0.3.36 and LM Studio reject null."""
    plain_dialogue: bool = False
    """The provider supports neither tools nor consecutive messages of one role."""
    only_streams: bool = False
    """Whole responses are refused or truncated: a stream is read to its end instead."""
    stream_usage: bool = True
    """False: `stream_options.include_usage` is refused, or usage is always sent."""
    patch: Callable[[Document, Plan], Document] | None = None
    """Last change to the request body."""


PLAIN = ChatQuirks()
