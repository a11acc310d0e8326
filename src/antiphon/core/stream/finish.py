"""Why a provider stopped, and what that makes of the response: one table, no other interpreter.

The first rows are the founding table; the rest are vendors' own words for the same things.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

TerminalStatus: TypeAlias = Literal["completed", "incomplete", "failed"]


class Outcome(Struct, frozen=True):
    """How a response ends; `whole` if nothing says that its last item was cut off."""

    status: TerminalStatus
    incomplete_reason: str | None = None
    error_code: str | None = None
    message: str | None = None
    whole: bool = False


COMPLETED = Outcome("completed", whole=True)
TOO_LONG = Outcome("incomplete", incomplete_reason="max_output_tokens")
FILTERED = Outcome("incomplete", incomplete_reason="content_filter")


def _failed(message: str, *, whole: bool = False) -> Outcome:
    return Outcome("failed", error_code="server_error", message=message, whole=whole)


_NO_REASON = _failed("Provider returned no finish reason.")

TABLE: Mapping[str, Outcome] = {
    "stop": COMPLETED,
    "tool_calls": COMPLETED,
    "length": TOO_LONG,
    "model_context_window_exceeded": TOO_LONG,
    "content_filter": FILTERED,
    "sensitive": FILTERED,
    "network_error": _failed("The provider reported a network error."),
    # Vendors' own words.
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
    "max_tokens": TOO_LONG,
    "max_output_tokens": TOO_LONG,
    "max_messages": Outcome("incomplete", incomplete_reason="max_messages"),
    "steered": Outcome("incomplete", incomplete_reason="steered"),
    "model_length": TOO_LONG,
    "pause_turn": TOO_LONG,
    "compaction": TOO_LONG,
    "continuation": TOO_LONG,
    "repetition_truncation": TOO_LONG,
    "error_limit": TOO_LONG,
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
    "other_after_output": FILTERED,  # stopped for a reason of its own, in the middle of an answer
    "guardrail_intervened": FILTERED,
    "content_filtered": FILTERED,
    "error_toxic": FILTERED,
    "insufficient_system_resource": _failed("The provider ran out of capacity."),
    "malformed_model_output": _failed("The model wrote something that cannot be read."),
    "malformed_tool_use": _failed("The model wrote a call that cannot be read."),
    "error": _failed("The provider reported an error."),
    "abort": _failed("The provider aborted the answer."),
    "timeout": _failed("The provider timed out."),
}

_ENUM_SHAPED = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def outcome(reason: str | None) -> Outcome:
    """How a response ends that stopped for this reason."""
    if not reason:
        return _NO_REASON
    known = TABLE.get(reason) or TABLE.get(reason.lower())
    if known is not None:
        return known
    # A provider's word is shown only if it is shaped like a code: it may be anything.
    shown = f": {reason}" if _ENUM_SHAPED.fullmatch(reason) else ""
    return _failed(f"Unexpected finish reason{shown}.", whole=True)
