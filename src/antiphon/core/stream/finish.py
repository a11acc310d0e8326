"""Finish reasons: the table from a provider's finish reason to the status of the response.

No other module interprets a finish reason. The first rows are those of the Chat Completions API and
the original design; the rest are vendors' own names for the same outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from antiphon.core.faults.fault import ProviderFault, UpstreamDetails, protocol_fault
from antiphon.core.faults.messages import UNEXPECTED_FINISH, describe

TerminalStatus: TypeAlias = Literal["completed", "incomplete", "failed", "cancelled"]


class Outcome(Struct, frozen=True):
    """How a response ends; `whole` unless its last item is known to be cut off."""

    status: TerminalStatus
    incomplete_reason: str | None = None
    error_code: str | None = None
    fault: ProviderFault | None = None
    """Why the provider could not finish; `describe` makes the client's message of it."""
    whole: bool = False

    @property
    def message(self) -> str | None:
        """The message of a failure in English, without the name of the provider."""
        return None if self.fault is None else describe(self.fault)


COMPLETED = Outcome("completed", whole=True)
TRUNCATED = Outcome("incomplete", incomplete_reason="max_output_tokens")
FILTERED = Outcome("incomplete", incomplete_reason="content_filter")
CANCELLED = Outcome("cancelled")
"""Not a reason of a provider: the client has cancelled the response."""


def _failure(code: str) -> Outcome:
    """A failure that `core.faults.messages` describes by this code."""
    fault = protocol_fault(f"finish reason: {code}", code)
    return Outcome("failed", error_code="server_error", fault=fault)


_NO_REASON = _failure("no_finish_reason")

FINISH_REASONS: Mapping[str, Outcome] = {
    "stop": COMPLETED,
    "tool_calls": COMPLETED,
    "length": TRUNCATED,
    "model_context_window_exceeded": TRUNCATED,
    "content_filter": FILTERED,
    "sensitive": FILTERED,
    "network_error": _failure("network_error"),
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
    "finished": COMPLETED,
    "end": COMPLETED,  # LM Studio and Ollama: earendil-works/pi pull request 2116
    "normal": COMPLETED,
    "endoftext": COMPLETED,
    "refusal": COMPLETED,
    "max_tokens": TRUNCATED,
    "max_output_tokens": TRUNCATED,
    "max_messages": Outcome("incomplete", incomplete_reason="max_messages"),
    "steered": Outcome("incomplete", incomplete_reason="steered"),
    "max_output": TRUNCATED,
    "model_length": TRUNCATED,
    "token_limit": TRUNCATED,
    "time_limit": TRUNCATED,
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
    "image_other": FILTERED,
    "escalation": FILTERED,
    "model_armor": FILTERED,
    "other_after_output": FILTERED,  # Gemini: no reason named, after some output
    "guardrail_intervened": FILTERED,
    "content_filtered": FILTERED,
    "error_toxic": FILTERED,
    "insufficient_system_resource": _failure("insufficient_system_resource"),
    "malformed_model_output": _failure("malformed_model_output"),
    "malformed_tool_use": _failure("malformed_tool_use"),
    "function_call_filter": _failure("malformed_tool_use"),
    "error": _failure("generation_error"),
    "abort": _failure("generation_aborted"),
    "timeout": _failure("generation_timeout"),
}

_INCOMPLETE = "incomplete: "
_ENUM_SHAPED = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def name_incomplete(reason: str) -> str:
    """Name the finish reason of a response that its provider itself calls incomplete: a reason that
    is not known here is no failure."""
    return f"{_INCOMPLETE}{reason}" if _find_outcome(reason) is None else reason


def map_finish_reason(reason: str | None) -> Outcome:
    """Map a provider's finish reason to the outcome of the response."""
    if not reason:
        return _NO_REASON
    known = _find_outcome(reason)
    if known is not None:
        return known
    if reason.startswith(_INCOMPLETE):
        name = reason.removeprefix(_INCOMPLETE)
        shaped = _ENUM_SHAPED.fullmatch(name) is not None
        return Outcome("incomplete", incomplete_reason=name) if shaped else TRUNCATED
    # An unknown reason may be any text: it is shown only if it is shaped like a code.
    shown = reason if _ENUM_SHAPED.fullmatch(reason) else None
    fault = protocol_fault(f"finish reason: {reason}", UNEXPECTED_FINISH)
    fault = structs.replace(fault, upstream=UpstreamDetails(code=shown))
    return Outcome("failed", error_code="server_error", fault=fault, whole=True)


def _find_outcome(reason: str) -> Outcome | None:
    """Find the outcome of a reason in any spelling; None if it is not known."""
    # Gemini's Chat endpoint adds its own reason: `function_call_filter: MALFORMED_FUNCTION_CALL`.
    names = (reason, reason.lower().replace("-", "_"), reason.lower().partition(":")[0])
    return next((FINISH_REASONS[name] for name in names if name in FINISH_REASONS), None)
