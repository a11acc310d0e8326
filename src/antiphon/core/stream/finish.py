"""Finish reasons: the table from a provider's finish reason to the status of the response.

No other module interprets a finish reason. The first rows are those of the Chat Completions API and
the original design; the rest are vendors' own names for the same outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

TerminalStatus: TypeAlias = Literal["completed", "incomplete", "failed", "cancelled"]


class Outcome(Struct, frozen=True):
    """How a response ends; `whole` unless its last item is known to be cut off."""

    status: TerminalStatus
    incomplete_reason: str | None = None
    error_code: str | None = None
    message: str | None = None
    whole: bool = False


COMPLETED = Outcome("completed", whole=True)
TRUNCATED = Outcome("incomplete", incomplete_reason="max_output_tokens")
FILTERED = Outcome("incomplete", incomplete_reason="content_filter")
CANCELLED = Outcome("cancelled")
"""Not a reason of a provider: the client has cancelled the response."""


def _failure(message: str, *, whole: bool = False) -> Outcome:
    return Outcome("failed", error_code="server_error", message=message, whole=whole)


_NO_REASON = _failure("Provider returned no finish reason.")

FINISH_REASONS: Mapping[str, Outcome] = {
    "stop": COMPLETED,
    "tool_calls": COMPLETED,
    "length": TRUNCATED,
    "model_context_window_exceeded": TRUNCATED,
    "content_filter": FILTERED,
    "sensitive": FILTERED,
    "network_error": _failure("The provider reported a network error."),
    # Vendors' own names.
    "eos": COMPLETED,
    "eos_token": COMPLETED,
    "end_turn": COMPLETED,
    "stop_sequence": COMPLETED,
    "tool_call": COMPLETED,
    "tool_use": COMPLETED,
    "function_call": COMPLETED,
    "complete": COMPLETED,
    "completed": COMPLETED,
    "finish": COMPLETED,
    "endoftext": COMPLETED,
    "refusal": COMPLETED,
    "max_tokens": TRUNCATED,
    "max_output_tokens": TRUNCATED,
    "max_messages": Outcome("incomplete", incomplete_reason="max_messages"),
    "steered": Outcome("incomplete", incomplete_reason="steered"),
    "model_length": TRUNCATED,
    "pause_turn": TRUNCATED,
    "compaction": TRUNCATED,
    "continuation": TRUNCATED,
    "repetition_truncation": TRUNCATED,
    "error_limit": TRUNCATED,
    "safety": FILTERED,
    "recitation": FILTERED,
    "blocklist": FILTERED,
    "prohibited_content": FILTERED,
    "spii": FILTERED,
    "language": FILTERED,
    "image_safety": FILTERED,
    "image_prohibited_content": FILTERED,
    "image_recitation": FILTERED,
    "model_armor": FILTERED,
    "other_after_output": FILTERED,  # Gemini: no reason named, after some output
    "guardrail_intervened": FILTERED,
    "content_filtered": FILTERED,
    "error_toxic": FILTERED,
    "insufficient_system_resource": _failure(
        "The provider ran out of capacity. Send the request again."
    ),
    "malformed_model_output": _failure(
        "The provider could not parse the output of the model. Send the request again."
    ),
    "malformed_tool_use": _failure(
        "The provider could not parse a tool call of the model. Send the request again."
    ),
    "error": _failure("The provider reported an error. Send the request again."),
    "abort": _failure("The provider aborted the answer. Send the request again."),
    "timeout": _failure("The provider timed out. Send the request again."),
}

_ENUM_SHAPED = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def map_finish_reason(reason: str | None) -> Outcome:
    """Map a provider's finish reason to the outcome of the response."""
    if not reason:
        return _NO_REASON
    known = FINISH_REASONS.get(reason) or FINISH_REASONS.get(reason.lower())
    if known is not None:
        return known
    # An unknown reason may be any text: it is shown only if it is shaped like a code.
    shown = f": {reason}" if _ENUM_SHAPED.fullmatch(reason) else ""
    return _failure(f"Unexpected finish reason{shown}.", whole=True)
